"""Data to try things on: generators that are deterministic, and streams of inserts and deletes over them."""

from everfresh.datasets.batch import Batch

__all__ = ["Batch"]
