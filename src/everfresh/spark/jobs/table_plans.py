"""The stages of tables and views, and the plans of their jobs.

| plan | stages | answers |
|---|---|---|
| base | the tables' units only | base |
| whole | the tables' and the maps' units in one stage: every task reads the batch | base, maps |
| maps | the tables' units, then (one exchange) the maps' | base, maps |
| results | the same, then (one more) those of the maps on the next level | base, maps, results |
| results3, ... | one more, and its units, for each level | base, maps, results, results3, ... |
| change | the change of a re-evaluated view, which was routed to the maps' units | maps |

Rows given as DataFrames are routed by a stage in front (`everfresh.spark.input.routing`).
"""

from __future__ import annotations

from functools import partial

from everfresh.spark.jobs.map_tasks import later_stage, maps_stage, whole_stage
from everfresh.spark.jobs.plans import Plan, Stage
from everfresh.spark.jobs.row_tasks import rows_stage
from everfresh.spark.jobs.stages import RESULTS
from everfresh.spark.state.table_content import BASE, MAPS, TABLE_ROLES

_ROWS = Stage("rows", rows_stage, (BASE,))
_MAPS = Stage("maps", maps_stage, (MAPS,))
_LATER = tuple(
    Stage(role.name, partial(later_stage, level, role.name), (role,))
    for level, role in enumerate(TABLE_ROLES)
    if level >= RESULTS
)

ROWS_ONLY = Plan("base", (_ROWS,))
WHOLE_BATCH = Plan("whole", (Stage("whole", whole_stage, (BASE, MAPS)),))
VIEW_CHANGE = Plan("change", (_MAPS,))
BY_STAGES = (
    ROWS_ONLY,
    *(Plan(last.name, (_ROWS, _MAPS, *_LATER[:at])) for at, last in enumerate((_MAPS, *_LATER))),
)
"""The plan of a program, by its number of stages."""
