"""Queries over signals on Spark: groups are partitioned, each partition runs the same kernels."""
