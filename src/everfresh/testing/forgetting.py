"""What the compiler remembers, forgotten: for tests that put other rules in the place of its own."""

from __future__ import annotations

import sys


def forget_compiled() -> None:
    """Let rules be asked again: none of what others have answered stays."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("everfresh.compiler", "everfresh.calculus")):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if clear is not None:
                    clear()
