"""Arrays on Spark: chunks are the content of the workers' units, the driver knows their catalog.

A batch of cells is one job that changes each worker's chunks; its segments hold the cells that came and went,
from which `changes` and earlier epochs are read. A query is one job too: chunks are sent as its plan says,
joined where it says, and rows go to the owners of groups or of result chunks.

- `content`   the chunks of one worker, and how they change
- `changing`  the job of a batch
- `reading`   rows, changes and checks, from the units where they are
- `domain`    arrays in a database on Spark
"""
