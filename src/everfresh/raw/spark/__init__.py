"""External arrays on Spark: workers read files and keep pieces of them; the driver has boxes and history.

A query is up to three jobs. Workers *look*: they read the files of missing pieces, each the files that it
owns, and say where pieces would be cut. The driver cuts, plans the join, evicts and places, from boxes and
sizes alone. Then the query runs over pieces as over chunks of a stored array (`everfresh.arrays.spark`), and
whoever is to keep a piece that the join has sent it lays it aside. At the end workers *keep* what was
decided.

- `files`     where a worker's pieces lie on its host
- `pieces`    a piece as a task finds it, or reads it again where it is gone
- `requests`  what workers are asked: look, keep, gather, survey
- `stages`    the job of a query
- `run`       one query, seen from the driver
- `domain`    external arrays in a database on Spark
"""
