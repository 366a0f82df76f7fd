"""Statements of SQL, run on a database.

- `run`       what each kind of statement becomes: a query, a batch, a change of what there is
- `changes`   INSERT, UPDATE, DELETE and MERGE as batches, and what they return
- `transaction`   several changes as one epoch
- `rows`      rows of a statement in this process
"""

from everfresh.statements.changes import part_of
from everfresh.statements.run import Statements, explained
from everfresh.statements.transaction import Transaction

__all__ = ["Statements", "Transaction", "explained", "part_of"]
