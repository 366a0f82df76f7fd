"""Arrow's memory by address, for kernels: the words of an `ArrowArray`."""

from __future__ import annotations

NULLS, OFFSET, BUFFERS, CHILDREN = 1, 2, 5, 6
"""The words of an `ArrowArray` of the C data interface."""
