"""Looking at the files of an array from time to time, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from everfresh.errors import Code, EverfreshError

_log = logging.getLogger("everfresh")


class Watch:
    """Looks at the files of an array again and again, until it is stopped."""

    def __init__(self, refresh: Callable[[], Any], name: str, seconds: float) -> None:
        self._refresh, self._name, self._seconds = refresh, name, seconds
        self._end = threading.Event()
        self._told = ""
        self._thread = threading.Thread(target=self._run, name=f"everfresh-watch-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            try:
                self._refresh()
                self._told = ""
            except EverfreshError as error:
                if error.code in (Code.CLOSED, Code.NOT_FOUND) and self._end.is_set():
                    return
                if str(error) != self._told:  # once, and again when it is something else
                    self._told = str(error)
                    _log.warning("the files of '%s' cannot be looked at: %s", self._name, error)

    def stop(self) -> None:
        """Look no more; a look that is under way is waited for."""
        self._end.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
