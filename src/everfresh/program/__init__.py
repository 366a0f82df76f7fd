"""What the compiler emits and the engines run: the program IR, and the engine protocol."""

from everfresh.program.engine import (
    Applied,
    Batch,
    Engine,
    OnConflict,
    Part,
    Progress,
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
    component,
    component_index,
    side_component,
)
from everfresh.program.text import parse_program

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
    "Side",
    "Stale",
    "Statement",
    "Trigger",
    "View",
    "check_epoch",
    "component",
    "component_index",
    "one_by_one",
    "parse_program",
    "side_component",
]
