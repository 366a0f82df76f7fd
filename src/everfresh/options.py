"""The options of a database: one frozen object, passed down."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from everfresh.errors import Code, EverfreshError


@dataclass(frozen=True, slots=True)
class Options:
    """How a database behaves; pass it to `everfresh.connect(options=...)`.

    >>> Options(history=10).history
    10
    """

    history: int = 100
    """How many epochs back `changes(since=)` and `to_arrow(at=)` reach."""

    durable: bool = True
    """Whether a commit waits for the disk (fsync). Without it a crash of the machine, not of the process,
    may lose the last epochs."""

    snapshot_bytes: int = 32 << 20
    """Take a snapshot once the log since the last one exceeds this many bytes and a third of that
    snapshot."""

    snapshot_epochs: int = 400
    """Take a snapshot at the latest after this many epochs."""

    snapshots: str = "background"
    """Spark: whether a snapshot is taken beside later batches (`"background"`) or within the batch that makes
    it due (`"now"`)."""

    workers: int = 2
    """Spark: the number of logical workers, that is, of partitions of the state. Fixed when a folder is
    created."""

    inline_bytes: int = 32 << 10
    """Spark: a worker's part of an epoch up to this size travels in the commit record instead of a file
    of its own."""

    read_bytes: int = 64 << 20
    """Spark: files given as a batch up to this many bytes are read by every task, which keeps its part;
    larger ones are scanned by Spark and exchanged."""

    compile: str = "background"
    """Whether triggers (on Spark statements of blocks, in each process) become native code: `"background"`
    while the interpreter serves, `"now"` before the first change that needs them, or `"off"`."""

    whole_bytes: int = 16 << 20
    """Spark: batches of inserts and deletes of full rows up to this many bytes are read whole by every task,
    which saves a stage; 0: none are."""

    refresh: str = "auto"
    """Spark: whether views are brought up to date by a batch's change (`"incremental"`), by filling them
    anew from the tables (`"recompute"`), or by what is estimated to be cheaper (`"auto"`)."""

    single_writer: bool = False
    """Spark: states that no other process writes the database at the same time. A place that cannot hold off
    a second writer, such as `hdfs://`, is refused without it."""

    threads: int | None = None
    """Local: how many threads a large batch may use; None for as many as there are cores."""

    timing: bool | str = False
    """Local: whether `statistics()` has the seconds that batches spent in each phase, on the clock or, for
    `"processor"`, of this process's processor time. See `everfresh.local.phases`."""

    signal_max_fill: int = 10_000_000
    """Signals: how many beats of one gap, or of one event, are filled at most; a longer one is refused."""

    signal_memory: int = 4 << 30
    """Signals: how many bytes the state of the groups of one query may take."""

    array_join: str = "bhvc"
    """Arrays: the algorithm that plans which chunks of a join move: `"bhvc"`, `"hvc"`, `"mbh"`, `"opt-vc"`,
    `"struct"`, `"mr"`, `"shuffle"` and others (`everfresh.arrays.plan.ALGORITHMS`)."""

    array_memory: int | None = None
    """Arrays: how many bytes of its own chunks a worker holds at a time in a join; None for all of them."""

    array_costs: float | None = None
    """Array views on Spark: how much longer it takes to send a cell to another worker than to join it; plans
    go by that. None: measured once, when a view reads a million cells, and 4 before."""

    replacement_scans: bool = True
    """Whether a query may name variables of the caller of `db.sql`, such as a DataFrame, in FROM. What was
    registered and files are found without it."""

    fault: str | None = None
    """Tests only: `point:kind[:unit[:times]]`, a fault to raise at a named point. See
    `everfresh.state.faults`."""

    def __post_init__(self) -> None:
        for name, least in (("history", 0), ("workers", 1), ("snapshot_epochs", 1), ("snapshot_bytes", 1)):
            if getattr(self, name) < least:
                raise EverfreshError(
                    Code.ARGUMENT, f"option {name} must be at least {least}", place=f"Options.{name}"
                )

        if self.refresh not in ("auto", "incremental", "recompute"):
            raise EverfreshError(
                Code.ARGUMENT,
                f"option refresh is none of 'auto', 'incremental', 'recompute': '{self.refresh}'",
                place="Options.refresh",
            )
        if self.snapshots not in ("background", "now"):
            raise EverfreshError(
                Code.ARGUMENT,
                f"option snapshots is none of 'background', 'now': '{self.snapshots}'",
                place="Options.snapshots",
            )
        if self.threads is not None and self.threads < 1:
            raise EverfreshError(Code.ARGUMENT, "option threads must be at least 1", place="Options.threads")
        if self.compile not in ("background", "now", "off"):
            raise EverfreshError(
                Code.ARGUMENT,
                f"option compile is none of 'background', 'now', 'off': '{self.compile}'",
                place="Options.compile",
            )
        if self.timing not in (False, True, "processor"):
            raise EverfreshError(
                Code.ARGUMENT,
                f"option timing is none of False, True, 'processor': {self.timing!r}",
                place="Options.timing",
            )

    def with_(self, **changes: Any) -> Options:
        """A copy with some options changed; an unknown name is refused."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise EverfreshError(
                    Code.ARGUMENT, f"there is no option '{name}'", hint="options are: " + ", ".join(known)
                )
        return replace(self, **changes)
