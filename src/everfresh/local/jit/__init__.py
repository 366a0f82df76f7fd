"""Kernels and how they come to be compiled: behind what goes on, in a process of its own, kept on disk.

`kernel` is what a kernel is, `background` asks for compiled forms and loads them, `compiler_process` makes
them, `code_cache` is where they lie, `dispatch` is the only part that knows Numba.
"""

from everfresh.local.jit.kernel import LARGE, TRIFLE, Kernel, njit

__all__ = ["LARGE", "TRIFLE", "Kernel", "njit"]
