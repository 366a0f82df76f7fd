"""Random views of the language: from a typed tree, never from text, so that every one of them binds.

`PRODUCTIONS` counts how often each production was used; a test fails if one never is. Operands are kept
small: a query that overflows or divides by zero would only compare error messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from everfresh.types import Column, TableSchema

PRODUCTIONS: Counter[str] = Counter()

_INTEGERS = ("SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_EXACT = (*_INTEGERS, "DECIMAL")
_NUMERIC = (*_EXACT, "REAL", "DOUBLE")
_SMALL = tuple(name for name in _NUMERIC if name != "HUGEINT")  # sums of these as DOUBLE are exact


def random_view(rng: Random, schema: TableSchema) -> str:
    """The text of a query over one table."""
    make = _Maker(rng, schema)
    return make.pick(
        {"grouped": make.grouped, "grouped again": make.grouped, "global": make.global_, "rows": make.rows}
    )


class _Maker:
    def __init__(self, rng: Random, schema: TableSchema) -> None:
        self.rng = rng
        self.schema = schema

    # -- choices ---------------------------------------------------------------------------------------------

    def pick(self, choices: dict[str, Callable[[], str]]) -> str:
        name = self.rng.choice(list(choices))
        PRODUCTIONS[name] += 1
        return choices[name]()

    def chance(self, probability: float, name: str) -> bool:
        if self.rng.random() >= probability:
            return False
        PRODUCTIONS[name] += 1
        return True

    def columns(self, *kinds: str) -> list[Column]:
        return [c for c in self.schema.columns if c.type.name in kinds]

    def column(self, *kinds: str) -> str:
        return self.rng.choice(self.columns(*kinds) if kinds else list(self.schema.columns)).name

    # -- queries ---------------------------------------------------------------------------------------------

    def where(self) -> str:
        return f" WHERE {self.condition()}" if self.chance(0.6, "where") else ""

    def grouped(self) -> str:
        keys = list(dict.fromkeys(self.key() for _ in range(self.rng.choice([1, 1, 2, 3]))))
        aggregates = [self.output() for _ in range(self.rng.randint(1, 4))]
        items = [f"{key} AS g{i}" for i, key in enumerate(keys)] + [
            f"{a} AS a{i}" for i, a in enumerate(aggregates)
        ]
        if self.chance(0.1, "hidden key"):
            items = items[len(keys) :]
        having = f" HAVING {self.having()}" if self.chance(0.25, "having") else ""
        rows = f"SELECT {', '.join(items)} FROM {self.schema.name}{self.where()}"
        return f"{rows} GROUP BY {', '.join(keys)}{having}"

    def global_(self) -> str:
        items = [f"{self.output()} AS a{i}" for i in range(self.rng.randint(1, 4))]
        having = f" HAVING {self.having()}" if self.chance(0.15, "global having") else ""
        return f"SELECT {', '.join(items)} FROM {self.schema.name}{self.where()}{having}"

    def rows(self) -> str:
        if self.chance(0.25, "star"):
            return f"SELECT * FROM {self.schema.name}{self.where()}"
        distinct = "DISTINCT " if self.chance(0.15, "distinct") else ""
        items = [f"{self.key()} AS x{i}" for i in range(self.rng.randint(1, 4))]
        return f"SELECT {distinct}{', '.join(items)} FROM {self.schema.name}{self.where()}"

    # -- aggregates ------------------------------------------------------------------------------------------

    def aggregate(self) -> str:
        choices: dict[str, Callable[[], str]] = {
            "count rows": lambda: "COUNT(*)",
            "count": lambda: f"COUNT({self.key()})",
        }
        if self.columns(*_NUMERIC):
            choices |= {
                "sum": lambda: f"SUM({self.number()})",
                "sum of a column": lambda: f"SUM({self.column(*_NUMERIC)})",
                "avg": lambda: f"AVG({self.number()})",
                "avg of a column": lambda: f"AVG({self.column(*_NUMERIC)})",
            }
        if self.columns("BOOLEAN"):
            choices["sum of truths"] = lambda: f"SUM({self.column('BOOLEAN')})"
        call = self.pick(choices)
        return f"{call} FILTER (WHERE {self.condition()})" if self.chance(0.25, "filter") else call

    def output(self) -> str:
        choices: dict[str, Callable[[], str]] = {f"aggregate {i}": self.aggregate for i in range(5)}
        choices["coalesced aggregate"] = lambda: f"COALESCE({self.total()}, 0)"
        choices["aggregate plus count"] = lambda: f"{self.total()} + COUNT(*)"
        choices["compared aggregate"] = lambda: f"{self.total()} > 2"
        return self.pick(choices)

    def total(self) -> str:
        """An aggregate that is a number."""
        return f"SUM({self.number()})" if self.columns(*_NUMERIC) else f"COUNT({self.key()})"

    def having(self) -> str:
        return self.pick(
            {
                "having count": lambda: (
                    f"COUNT(*) {self.rng.choice(['>', '=', '<'])} {self.rng.choice([1, 2])}"
                ),
                "having sum": lambda: f"{self.total()} > 1",
                "having null": lambda: f"{self.total()} IS NOT NULL",
            }
        )

    # -- expressions -----------------------------------------------------------------------------------------

    def number(self, depth: int = 2) -> str:
        """An expression of some numeric type."""
        if depth == 0:
            return self.column(*_NUMERIC)

        def inner() -> str:
            return self.number(depth - 1)

        choices: dict[str, Callable[[], str]] = {
            "numeric column": lambda: self.column(*_NUMERIC),
            "numeric column again": lambda: self.column(*_NUMERIC),
            "plus": lambda: f"({inner()} + {self.rng.choice([1, 2, 3])})",
            "minus": lambda: f"({self.rng.choice([1, 5])} - {inner()})",
            "times": lambda: f"({inner()} * {self.rng.choice([2, 3])})",
            "sum of two": self.sum_of_two,
            "negation": lambda: f"(-{inner()})",
            "absolute": lambda: f"ABS({inner()})",
            "case": lambda: (
                f"CASE WHEN {self.condition(1)} THEN {inner()} ELSE {self.rng.choice(['0', '1', 'NULL'])} END"
            ),
            "case without else": lambda: f"CASE WHEN {self.condition(1)} THEN {inner()} END",
            "coalesce": lambda: f"COALESCE({inner()}, {self.rng.choice([0, 1])})",
            "nullif": lambda: f"NULLIF({self.column(*_NUMERIC)}, {self.rng.choice([0, 1])})",
        }
        if self.columns(*_SMALL):
            choices |= {
                "half": lambda: f"({self.column(*_SMALL)} / 2)",
                "to double": lambda: f"CAST({self.column(*_SMALL)} AS DOUBLE)",
            }
        if self.columns(*_INTEGERS):
            choices |= {
                "integer division": lambda: f"({self.column(*_INTEGERS)} // 3)",
                "remainder": lambda: f"({self.column(*_INTEGERS)} % 3)",
                "to decimal": lambda: f"CAST({self.column(*_INTEGERS)} AS DECIMAL(38,1))",
            }
        if self.columns("DATE", "TIMESTAMP"):
            choices["date part"] = lambda: (
                f"{self.rng.choice(['YEAR', 'MONTH', 'DAY'])}({self.column('DATE', 'TIMESTAMP')})"
            )
        if self.columns("VARCHAR"):
            choices["length"] = lambda: f"LENGTH({self.column('VARCHAR')})"
        if self.columns("BOOLEAN"):
            choices["truth"] = lambda: f"CAST({self.column('BOOLEAN')} AS INTEGER)"
        return self.pick(choices)

    def sum_of_two(self) -> str:
        first = self.column(*_NUMERIC)
        kinds = _SMALL if self.schema.column(first).type.name in ("REAL", "DOUBLE") else _EXACT
        return f"({first} + {self.column(*kinds)})"

    def key(self) -> str:
        """An expression to group by, or to select."""
        choices: dict[str, Callable[[], str]] = {f"column {i}": self.column for i in range(4)}
        choices["condition as value"] = lambda: f"({self.condition(1)})"
        if self.columns(*_NUMERIC):
            choices["number as key"] = self.number
        if self.columns("VARCHAR"):
            choices |= {
                "upper": lambda: (
                    f"{self.rng.choice(['UPPER', 'LOWER', 'REVERSE'])}({self.column('VARCHAR')})"
                ),
                "default text": lambda: f"COALESCE({self.column('VARCHAR')}, 'none')",
                "concatenation": lambda: f"({self.column('VARCHAR')} || '!')",
                "substring": lambda: f"SUBSTRING({self.column('VARCHAR')}, 1, 1)",
            }
        if self.columns("DATE", "TIMESTAMP"):
            choices |= {
                "day of a time": lambda: f"CAST({self.column('DATE', 'TIMESTAMP')} AS DATE)",
                "later": lambda: (
                    f"({self.column('DATE', 'TIMESTAMP')} + INTERVAL "
                    f"{self.rng.choice(['1 DAY', '1 MONTH', '90 MINUTE'])})"
                ),
                "bucket of": lambda: (
                    f"TIME_BUCKET(INTERVAL {self.rng.choice(['7 HOUR', '3 DAY', '2 MONTH'])}, "
                    f"{self.column('DATE', 'TIMESTAMP')})"
                ),
                "month of": lambda: f"DATE_TRUNC('month', {self.column('DATE', 'TIMESTAMP')})",
            }
        return self.pick(choices)

    # -- conditions ------------------------------------------------------------------------------------------

    def condition(self, depth: int = 2) -> str:
        def inner() -> str:
            return self.condition(depth - 1)

        choices: dict[str, Callable[[], str]] = {
            "is null": lambda: f"{self.column()} IS NULL",
            "is not null": lambda: f"{self.column()} IS NOT NULL",
            "same column": lambda: self.same(self.column()),
        }
        if depth > 0:
            choices |= {
                "and": lambda: f"({inner()} AND {inner()})",
                "or": lambda: f"({inner()} OR {inner()})",
                "not": lambda: f"NOT ({inner()})",
            }
        if self.columns(*_NUMERIC):
            choices |= {
                "compare": lambda: (
                    f"{self.number(1)} {self.comparison()} {self.rng.choice([0, 1, 2, '0.5'])}"
                ),
                "compare two": lambda: (
                    f"{self.column(*_NUMERIC)} {self.comparison()} {self.column(*_NUMERIC)}"
                ),
                "in": lambda: (
                    f"{self.column(*_NUMERIC)} {self.rng.choice(['IN', 'NOT IN'])} (0, 1, "
                    f"{self.rng.choice(['5', 'NULL'])})"
                ),
                "between": lambda: f"{self.column(*_NUMERIC)} BETWEEN -1 AND 5",
                "distinct from": lambda: (
                    f"{self.column(*_NUMERIC)} IS {self.rng.choice(['', 'NOT '])}DISTINCT FROM 1"
                ),
            }
        if self.columns("VARCHAR"):
            choices |= {
                "compare text": lambda: f"{self.column('VARCHAR')} {self.comparison()} 'a'",
                "like": lambda: (
                    f"{self.column('VARCHAR')} {self.rng.choice(['LIKE', 'NOT LIKE', 'ILIKE'])} "
                    f"{self.rng.choice(['a%', '%_b', '%'])!r}"
                ),
                "in texts": lambda: f"{self.column('VARCHAR')} IN ('a', 'O''Hara', '')",
            }
        if self.columns("BOOLEAN"):
            choices["boolean column"] = lambda: self.column("BOOLEAN")
        if self.columns("DATE"):
            choices["compare date"] = lambda: f"{self.column('DATE')} {self.comparison()} DATE '2024-02-01'"
        if self.columns("TIMESTAMP"):
            choices["compare time"] = lambda: (
                f"{self.column('TIMESTAMP')} {self.comparison()} TIMESTAMP '2024-02-29 12:00:00'"
            )
        return self.pick(choices)

    def comparison(self) -> str:
        return self.rng.choice(["=", "<>", "<", "<=", ">", ">="])

    def same(self, column: str) -> str:
        return f"{column} {self.rng.choice(['=', '<>', 'IS DISTINCT FROM'])} {column}"
