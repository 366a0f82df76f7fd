"""Statements of SQL, run on a database.

- `run`       what each kind of statement becomes: a query, a batch, a change of what there is
- `changes`   INSERT, UPDATE, DELETE and MERGE as batches, and what they return
"""

from everfresh.statements.changes import part_of
from everfresh.statements.run import Statements, explained

__all__ = ["Statements", "explained", "part_of"]
