"""What tests of streams share."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_inbox import Inbox


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    """An empty folder."""
    return Inbox(tmp_path / "in")
