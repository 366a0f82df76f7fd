"""Filling a view: the job runs beside the caller, who is told how far it is and can end it.

The caller's thread waits for the job and calls back with how many tasks are done, so an interrupt (Ctrl-C)
and an exception from the callback reach it at once. Either ends the job: Spark cancels its tasks, it is not
run again, and the files that tasks have written are removed. Nothing is committed before the job has ended
well, so what was there before is there unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from everfresh.program import Progress

if TYPE_CHECKING:
    from everfresh.spark.session.observe import Observer

_EVERY = 0.1
_PATIENCE = 60.0


def filled(
    observer: Observer,
    what: str,
    work: Callable[[], None],
    progress: Progress | None,
    clean: Callable[[], object],
) -> None:
    """Do `work`, which runs jobs; `clean` is called if it does not end well."""
    from pyspark import inheritable_thread_target

    ended = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    observer.batch()
    thread = threading.Thread(target=inheritable_thread_target(observer.session)(run), daemon=True)
    told = progress or _nobody
    try:
        told(what, 0, 1)
        thread.start()
        last = (0, 1)
        while not ended.wait(_EVERY):
            now = observer.tasks()
            if now[1] and now != last:
                last = now
                told(what, *now)
        if failed:
            raise failed[0]
        total = max(last[1], 1)
        told(what, total, total)
    except BaseException:
        observer.cancel()
        if thread.ident is not None:
            thread.join(_PATIENCE)
        clean()
        raise


def _nobody(what: str, done: int, total: int) -> None:
    """Nobody asked."""
