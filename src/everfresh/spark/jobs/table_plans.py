"""The stages of tables and views, and the plans of their jobs.

| plan | stages | answers |
|---|---|---|
| base | the tables' units only | base |
| whole | the tables' and the maps' units in one stage: every task reads the batch | base, maps |
| maps | the tables' units, then (one exchange) the maps' | base, maps |
| results | the same, then (one more) the results' | base, maps, results |
| change | the change of a re-evaluated view, which was routed to the maps' units | maps |

Rows given as DataFrames are routed by a stage in front (`everfresh.spark.input.routing`).
"""

from __future__ import annotations

from everfresh.spark.jobs.map_tasks import maps_stage, results_stage, whole_stage
from everfresh.spark.jobs.plans import Plan, Stage
from everfresh.spark.jobs.row_tasks import rows_stage
from everfresh.spark.state.table_content import BASE, MAPS, RESULTS

_ROWS = Stage("rows", rows_stage, (BASE,))
_MAPS = Stage("maps", maps_stage, (MAPS,))
_RESULTS = Stage("results", results_stage, (RESULTS,))

ROWS_ONLY = Plan("base", (_ROWS,))
WHOLE_BATCH = Plan("whole", (Stage("whole", whole_stage, (BASE, MAPS)),))
TO_MAPS = Plan("maps", (_ROWS, _MAPS))
TO_RESULTS = Plan("results", (_ROWS, _MAPS, _RESULTS))
VIEW_CHANGE = Plan("change", (_MAPS,))
BY_STAGES = (ROWS_ONLY, TO_MAPS, TO_RESULTS)
"""The plan of a program, by its number of stages."""
