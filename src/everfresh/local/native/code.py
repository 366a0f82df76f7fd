"""The code of a text: asked for once, whichever forms have it.

Views of one shape have forms of the same text (`codegen.generate`), and share what is compiled of it.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from everfresh.local.jit.code_cache import Item

if TYPE_CHECKING:
    from everfresh.local.native.runtime.runner import Function

_log = logging.getLogger("everfresh")


class GeneratedCode:
    """A generated text and, once it is compiled, its function of some name."""

    def __init__(self, text: str, names: Iterable[str], *, ordered: bool = False, entry: str = "run") -> None:
        self.text = text
        self.names, self._ordered, self._entry = tuple(names), ordered, entry
        self.function: Function | None = None
        self.asked = self.failed = False

    def compile_now(self) -> None:
        """Compile, or load what was compiled before; a failure is logged and leaves the interpreter in
        charge."""
        from everfresh.local.native.runtime import build

        self.asked = True
        try:
            self.function = (
                build.build(self.text) if self._entry == "run" else build.build(self.text, self._entry)
            )
        except Exception:
            self._failed()

    def _failed(self) -> None:
        self.failed = True
        _log.exception(
            "triggers of %s could not be compiled: the interpreter runs them", ", ".join(self.names)
        )

    def ask(self, owner: object, how: str) -> None:
        """Have it compiled, if it was not asked for: `now`, or behind what goes on, as long as its owner is
        there. What this process has loaded already is had at once."""
        from everfresh.local.jit import background
        from everfresh.local.native.runtime import build

        if self.asked:
            return
        self.asked = True
        if how == "now" or build.is_loaded(self.text):
            self.compile_now()
            return

        def load(here: bool) -> bool:
            if self._ordered:
                build.index_calls()
            self.compile_now()
            return True

        try:
            item = Item("", build.write(self.text), build.ORDERED if self._ordered else "")
        except OSError:
            self._failed()
        else:
            background.ask(item, load, weakref.ref(owner))
