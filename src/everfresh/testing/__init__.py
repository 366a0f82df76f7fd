"""What every engine must satisfy, and the oracles that say what is right.

- `oracle`        DuckDB over a mirror of the base tables, and how two results are compared
- `histories`     random schemas, rows and histories, each a pure function of its seed
- `queries`       random flat views over one table of these schemas
- `replay`        runs a history on a database and compares after every batch; shrinks one that fails
- `random_sql`    random SQL over random schemas, of the whole language; `python -m` runs it by seed
- `reference_programs`  maps and relations of programs by the reference evaluator
- `in_process`    distributed programs in one process
- `engine_suite`  `EngineSuite`, one suite of tests for all engines; the `suite_*` modules are its subjects

A new engine is tested by a subclass of `EngineSuite` that says how to connect. Needs pytest, DuckDB, pandas
and Polars; nothing else in everfresh imports this package, but for a benchmark of distributed programs.
"""
