"""When a snapshot is due, and when one that failed is tried again: one policy for every engine."""

from __future__ import annotations

import logging

from everfresh.epochs.timeline import Timeline
from everfresh.errors import EverfreshError
from everfresh.options import Options

_log = logging.getLogger("everfresh")
WAIT = 1 << 10
"""Epochs after which a snapshot that has failed is tried again, at most."""


class SnapshotPolicy:
    """Snapshots of one database: due when replaying the log would cost more than loading one. One that failed
    is tried again after 1, 2, 4, ... epochs, up to `wait`."""

    def __init__(self, options: Options, wait: int = WAIT) -> None:
        self._options, self._wait = options, wait
        self._failures = self._not_before = 0

    def due(self, timeline: Timeline) -> bool:
        """Whether one is to be taken now."""
        options = self._options
        if timeline.epoch < self._not_before:
            return False
        many = timeline.epoch - timeline.snapshot_epoch >= options.snapshot_epochs
        return many or timeline.log_bytes > max(options.snapshot_bytes, timeline.snapshot_bytes // 3)

    def succeeded(self) -> None:
        """One was taken."""
        self._failures = 0

    def failed(self, epoch: int, error: BaseException, known: tuple[type[BaseException], ...] = ()) -> None:
        """One could not be taken: it is tried later and later. The epoch is committed, and the log serves."""
        later = min(1 << self._failures, self._wait)
        self._not_before, self._failures = epoch + later, self._failures + 1
        _log.warning(
            "no snapshot could be taken of epoch %d: %s; it is tried again later, at epoch %d",
            epoch,
            str(error).splitlines()[0] if str(error) else type(error).__name__,
            epoch + later,
            exc_info=None if isinstance(error, (OSError, EverfreshError, *known)) else error,
        )
