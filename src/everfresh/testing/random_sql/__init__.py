"""Random SQL views over random histories, judged by DuckDB after every batch.

- `tree`, `weights`, `scalars`, `aggregates`, `grammar`   the generator: typed, bound trees that print as SQL
- `data`      schemas, rows and histories, each a pure function of its seed
- `spelling`  letter case and hostile names, a function of the seed too
- `drive`     runs cases by seed for a time, and says what differs
- `shrinking` a smaller case that still differs, and the file that keeps it

`python -m everfresh.testing.random_sql --seed 17` prints one case and runs it.

Implements "Random queries" of docs/design/sql.md.
"""

from everfresh.testing.random_sql.data import Case, random_case
from everfresh.testing.random_sql.spelling import spelled

__all__ = ["Case", "random_case", "spelled"]
