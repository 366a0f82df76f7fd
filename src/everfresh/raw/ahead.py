"""Work on several files side by side, its results one after the other in their order.

Reading a file is waiting for a disk, a library that lets go of the interpreter, and loops that do: so a few
threads read ahead of whoever takes the results. Each piece of work is a generator, which is left where it is
between two of its steps when nobody wants the result any more.

Invariant: when whoever takes the results has ended, well or not, nothing is at work any more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

T = TypeVar("T")
Task = Callable[[], Iterator[T]]
Result = Callable[[], T]


def ahead(tasks: Sequence[Task[T]], threads: int) -> Generator[Result[T], None, None]:
    """The last thing that each task gives, in the order of the tasks; to be called, for it may raise.

    >>> [result() for result in ahead([lambda: iter("ab"), lambda: iter("cd")], 2)]
    ['b', 'd']
    """
    stop = threading.Event()
    if threads < 2 or len(tasks) < 2:
        for task in tasks:
            yield partial(_last, task, stop)
        return
    pool = ThreadPoolExecutor(min(threads, len(tasks)), thread_name_prefix="everfresh-files")
    waiting: deque[Future[T]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(_last, task, stop))
            if len(waiting) > threads:
                yield waiting.popleft().result
        while waiting:
            yield waiting.popleft().result
    finally:
        stop.set()
        _end(pool)


def _last(task: Task[T], stop: threading.Event) -> T:
    found: list[T] = []
    for each in task():
        found[:] = [each]
        if stop.is_set():
            break
    return found[0]


def _end(pool: ThreadPoolExecutor) -> None:
    """Wait for the threads; who is interrupted meanwhile is so when they have ended."""
    struck: BaseException | None = None
    while True:
        try:
            pool.shutdown(cancel_futures=True)
            break
        except BaseException as error:
            struck = error
    if struck is not None:
        raise struck
