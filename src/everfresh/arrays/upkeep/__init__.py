"""Where views of arrays are maintained: plans over workers, made of metadata alone.

The optimizer of the paper on incremental view maintenance over array data (section 4, appendix B): which
chunks a batch brings together, where each pair is joined, where results are merged, and where chunks stay.

    update    a batch as triples: delta chunk, its partner, the view chunk that receives
    plans     what a plan decides, and what it costs
    stages    baseline, and the three algorithms: joins, view chunks, array chunks
    planner   the methods, a window of past batches, `auto`
    exact     small cases by a mixed-integer program
"""

from everfresh.arrays.upkeep.planner import METHODS, Planner, PlannerOptions
from everfresh.arrays.upkeep.plans import Costs, MaintenancePlan
from everfresh.arrays.upkeep.update import Update, update

__all__ = ["METHODS", "Costs", "MaintenancePlan", "Planner", "PlannerOptions", "Update", "update"]
