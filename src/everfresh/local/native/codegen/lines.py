"""Source text in the making: lines with their indentation, and names that are used once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_STEP = "    "


class Lines:
    """Lines of a function body.

    >>> out = Lines()
    >>> out.open("if x:")
    >>> out.add("y = 1")
    >>> out.back_to(1)
    >>> print(out.text())
        if x:
            y = 1
    """

    def __init__(self, depth: int = 1) -> None:
        self._lines: list[str] = []
        self._count = 0
        self.depth = depth

    def add(self, *lines: str) -> None:
        """Add lines at the current depth."""
        self._lines.extend(_STEP * self.depth + line for line in lines)

    def open(self, line: str) -> None:
        """Add a line that begins a block; what follows is inside."""
        self.add(line)
        self.depth += 1

    def back_to(self, depth: int) -> None:
        """End the blocks that were opened below a depth."""
        self.depth = depth

    @contextmanager
    def block(self, line: str) -> Iterator[None]:
        """A block with a body of its own."""
        self.open(line)
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.add("pass")
        self.depth -= 1

    def mark(self) -> tuple[int, int]:
        """Where the text is now, for `reset`."""
        return len(self._lines), self.depth

    def reset(self, mark: tuple[int, int]) -> None:
        """Take back what was added since."""
        del self._lines[mark[0] :]
        self.depth = mark[1]

    def fresh(self, prefix: str = "t") -> str:
        """A name that no other line uses."""
        self._count += 1
        return f"{prefix}{self._count}"

    def names_like(self, other: Lines) -> None:
        """Go on with the names where other lines are."""
        self._count = max(self._count, other._count)

    def let(self, code: str, prefix: str = "t") -> str:
        """A fresh name for a value."""
        name = self.fresh(prefix)
        self.add(f"{name} = {code}")
        return name

    def text(self) -> str:
        """All lines."""
        return "\n".join(self._lines)
