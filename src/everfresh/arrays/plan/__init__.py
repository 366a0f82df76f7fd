"""Plans of similarity joins, made from catalogs alone: which chunk goes where, when, and is joined there.

Implements the optimizer of the paper on similarity joins (sections 4.2 to 4.5, appendices A and B);
`docs/design/arrays.md` settles what it leaves open. What a caller hands over is plain: columns of chunks
(`Chunks`), the reach of a shape (`Reach`: boxes of offsets, perhaps chunk offsets and an exact test), a
mapping of boxes (`affine` or any function). What it gets is a `Plan`.

    catalog, place      chunks and where they are kept
    pairs               which chunks have to meet
    graph, covers       which sends bring them together
    assign, algorithms  which worker computes a pair; competitors
    schedule, access    the order of workers, chunks and reads
    plan, text          the plan, printed and parsed
    explain, picture    what it costs
    simulate            how it would run
"""

from everfresh.arrays.plan.algorithms import ALGORITHMS, PlanOptions
from everfresh.arrays.plan.catalog import Chunks
from everfresh.arrays.plan.cost import CostModel
from everfresh.arrays.plan.covers import CoverOptions
from everfresh.arrays.plan.explain import ALTERNATIVES, Explanation, Figures, explain
from everfresh.arrays.plan.pairs import Problem, Reach, affine, chunk_offsets, problem
from everfresh.arrays.plan.place import PLACEMENTS, place
from everfresh.arrays.plan.plan import Plan, WorkerPlan
from everfresh.arrays.plan.planner import plan_join, plan_problem

__all__ = [
    "ALGORITHMS",
    "ALTERNATIVES",
    "PLACEMENTS",
    "Chunks",
    "CostModel",
    "CoverOptions",
    "Explanation",
    "Figures",
    "Plan",
    "PlanOptions",
    "Problem",
    "Reach",
    "WorkerPlan",
    "affine",
    "chunk_offsets",
    "explain",
    "place",
    "plan_join",
    "plan_problem",
    "problem",
]
