"""Spark SQL from bound plans, with DuckDB's semantics: how views are recomputed and verified on Spark."""
