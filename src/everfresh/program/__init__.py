"""What the compiler emits and the engines run: the program IR, the schedule of a batch, and the engine
protocol."""

from everfresh.program.engine import (
    Applied,
    Batch,
    Engine,
    OnConflict,
    Part,
    Stale,
    check_epoch,
    one_by_one,
)
from everfresh.program.ir import (
    Intervals,
    MapDef,
    Partitions,
    Program,
    Side,
    Statement,
    Trigger,
    View,
    beside,
    component,
    component_index,
    is_unscaled,
    side_component,
    side_of,
)
from everfresh.program.schedule import Round, Run, Schedule, Unit, parse_schedule, scheduled
from everfresh.program.text import parse_program
from everfresh.progress import Progress

__all__ = [
    "Applied",
    "Batch",
    "Engine",
    "Intervals",
    "MapDef",
    "OnConflict",
    "Part",
    "Partitions",
    "Program",
    "Progress",
    "Round",
    "Run",
    "Schedule",
    "Side",
    "Stale",
    "Statement",
    "Trigger",
    "Unit",
    "View",
    "beside",
    "check_epoch",
    "component",
    "component_index",
    "is_unscaled",
    "one_by_one",
    "parse_program",
    "parse_schedule",
    "scheduled",
    "side_component",
    "side_of",
]
