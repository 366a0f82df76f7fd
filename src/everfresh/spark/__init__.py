"""The distributed runtime: workers, exchange and epochs on Spark. Everything that touches pyspark is in here.

- `session`   a Spark session as everfresh needs it
- `daemon`    what forks its Python workers
- `routing`   which worker owns a row
- `jobs`      what a job is told
- `blocks`    what runs in tasks
- `units`     the state that a worker keeps, and how a task brings it to a version
- `ledger`    what the driver knows of it
- `engine`    the engine
- `sqltext`   Spark SQL from bound plans
- `verify`    views against their recomputation
"""
