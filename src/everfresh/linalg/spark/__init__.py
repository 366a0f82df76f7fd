"""Matrix views on Spark: large matrices in blocks of rows and of columns with the workers, the rest here.

The driver runs a view's triggers. A product of a large matrix with thin columns is one job: each worker
multiplies its rows (or its columns, for the transpose) and the results are concatenated. Changes stay
thin: pending factors are kept by the driver, and when they are merged they are written to a file that
every worker adds to its blocks when it next serves them. So an epoch that is not committed never reaches a
worker, and blocks can always be made again from files.

- `blocks`   which files make up a matrix
- `tasks`    how a worker answers: blocks in memory, products, rows of a statement
- `cluster`  what the driver asks (requests: `everfresh.spark.jobs.requests`)
- `held`     a stored matrix whose base is with the workers
- `store`    the views, and the matrices of a database on Spark
"""
