"""Plans of joins carried out: chunks go where the plan says, are read in its order, and are joined there.

What an engine brings is how chunks are kept and how they travel; everything else is here, and is the same for
the local engine's logical workers and for Spark's.

    catalog    what the coordinator knows of an array's chunks, and where new ones go
    wire       chunks as bytes: the size in the catalog is the size that travels
    joining    a join as the planner and the kernels read it: reach, image, pairs of cells
    worker     one worker's part of a plan, under its memory budget
    split      a query over pairs cut in what workers do alone, what groups need, and what is left
    route      whose rows are whose
    local      a plan carried out in this process, by logical workers
    work       a statement as workers run it
    answering  a statement run by logical workers
    explaining how it is run, planned and measured
    calibrate  the cost model of this machine

A caller needs `prepared` (a plan from two catalogs), `run_worker` (one worker's part) or `run_local`.
"""

from everfresh.arrays.execute.catalog import Catalog
from everfresh.arrays.execute.joining import JoinSpec, prepared
from everfresh.arrays.execute.worker import Batch, Reads, run_worker

__all__ = ["Batch", "Catalog", "JoinSpec", "Reads", "prepared", "run_worker"]
