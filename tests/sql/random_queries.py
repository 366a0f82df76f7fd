"""Random queries over the small tables, as text: joins of every kind, subqueries everywhere, sets, windows.

Every column of a relation has a kind (number, text, truth, date), so that most of what comes out has types.
"""

# ruff: noqa: E501  (templates of SQL)

from __future__ import annotations

import random
from dataclasses import dataclass

Columns = list[tuple[str, str]]  # (reference, kind)

TABLES: dict[str, list[tuple[str, str]]] = {
    "r": [("a", "number"), ("b", "number"), ("c", "text")],
    "s": [("b", "number"), ("d", "number"), ("e", "date")],
    "u": [("a", "number"), ("c", "text"), ("f", "number"), ("g", "truth")],
    "k": [("id", "number"), ("a", "number"), ("name", "text")],
    "v": [("a", "number"), ("total", "number")],
}
LITERALS = {
    "number": ["1", "2", "10", "2.5", "-1", "NULL"],
    "text": ["'x'", "'y'", "'one'", "NULL"],
    "truth": ["TRUE", "FALSE", "NULL"],
    "date": ["DATE '2024-01-02'", "NULL"],
}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


@dataclass
class Generator:
    """Makes query text; `fresh` numbers its aliases."""

    rng: random.Random
    fresh: int = 0

    def pick(self, *options: str) -> str:
        """One of the options."""
        return self.rng.choice(options)

    def chance(self, p: float) -> bool:
        """Yes with probability p."""
        return self.rng.random() < p

    def alias(self) -> str:
        """A new name."""
        self.fresh += 1
        return f"t{self.fresh}"

    # -- queries ------------------------------------------------------------------------------------------

    def query(self, depth: int, outer: Columns, kinds: list[str] | None = None) -> str:
        """A query; with `kinds`, its columns are of these kinds."""
        kinds = kinds or [
            self.pick("number", "text", "number", "date") for _ in range(self.rng.randint(1, 3))
        ]
        if depth > 0 and self.chance(0.2):
            word = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL")
            return f"{self.select(depth - 1, outer, kinds)} {word} {self.select(depth - 1, outer, kinds)}"
        return self.select(depth, outer, kinds)

    def select(self, depth: int, outer: Columns, kinds: list[str]) -> str:
        """One SELECT."""
        source, columns = self.source(depth)
        where = f" WHERE {self.condition(depth, columns, outer)}" if self.chance(0.5) else ""
        if self.chance(0.35):
            return self.grouped(depth, source, where, columns, outer, kinds)
        distinct = "DISTINCT " if self.chance(0.15) else ""
        items = [self.item(depth, columns, outer, kind) for kind in kinds]
        return f"SELECT {distinct}{', '.join(items)} FROM {source}{where}"

    def item(self, depth: int, columns: Columns, outer: Columns, kind: str) -> str:
        """An expression of the SELECT list, now and then with a window."""
        if kind == "number" and depth > 0 and self.chance(0.12):
            part = self.value(0, columns, [], self.pick("number", "text"))
            by = f"PARTITION BY {part}" if self.chance(0.7) else ""
            order = f" ORDER BY {self.value(0, columns, [], 'number')}" if self.chance(0.5) else ""
            call = self.pick(
                "count(*)", "rank()", f"sum({self.value(0, columns, [], 'number')})", "dense_rank()"
            )
            return f"{call} OVER ({by}{order})"
        return self.value(depth, columns, outer, kind)

    def grouped(
        self, depth: int, source: str, where: str, columns: Columns, outer: Columns, kinds: list[str]
    ) -> str:
        """A SELECT with GROUP BY, or one of aggregates only."""
        keys = [
            self.value(0, columns, [], self.pick("number", "text")) for _ in range(self.rng.randint(0, 2))
        ]
        known = [(key, self.kind_of(key, columns)) for key in keys]
        items = []
        for kind in kinds:
            fitting = [key for key, of in known if of == kind]
            items.append(
                self.rng.choice(fitting)
                if fitting and self.chance(0.5)
                else self.aggregate(columns, kind, depth, outer)
            )
        having = (
            f" HAVING {self.aggregate(columns, 'number', depth, outer)} {self.pick(*COMPARISONS)} "
            if self.chance(0.3)
            else ""
        )
        if having:
            having += self.scalar(depth - 1, [], outer, "number") if depth > 0 and self.chance(0.4) else "2"
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(items)} FROM {source}{where}{by}{having}"

    def kind_of(self, key: str, columns: Columns) -> str:
        """The kind of a column, "" of anything else."""
        return next((kind for name, kind in columns if name == key), "")

    def aggregate(self, columns: Columns, kind: str, depth: int, outer: Columns) -> str:
        """An aggregate of a kind."""
        if kind == "truth":
            return f"{self.pick('bool_and', 'bool_or')}({self.condition(0, columns, [])})"
        own = self.value(0, columns, [], kind)
        if kind != "number":
            return f"{self.pick('min', 'max')}({own})"
        if depth > 0 and self.chance(0.15):
            own = f"{own} + {self.scalar(depth - 1, columns, outer, 'number')}"
        fn = self.pick(
            "sum", "min", "max", "avg", "count", "count(DISTINCT", "sum(DISTINCT", "var_pop", "count(*)"
        )
        if fn == "count(*)":
            return fn
        call = f"{fn} {own})" if "(" in fn else f"{fn}({own})"
        return call + (f" FILTER (WHERE {self.condition(0, columns, [])})" if self.chance(0.2) else "")

    # -- FROM ---------------------------------------------------------------------------------------------

    def source(self, depth: int) -> tuple[str, Columns]:
        """A FROM clause and its columns."""
        text, columns = self.relation(depth)
        for _ in range(self.rng.choice([0, 0, 1, 1, 2])):
            other, more = self.relation(depth)
            kind = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT JOIN")
            if kind == "CROSS JOIN":
                text = f"{text} CROSS JOIN {other}"
            else:
                on = self.equality(columns, more)
                if self.chance(0.3) and kind != "FULL JOIN":  # DuckDB has no FULL JOIN without an equality
                    on += f" {self.pick('AND', 'AND', 'OR')} {self.condition(0, columns + more, [])}"
                text = f"{text} {kind} {other} ON {on}"
            columns = columns + more
        return text, columns

    def equality(self, left: Columns, right: Columns) -> str:
        """left = right for some columns."""
        pairs = [(a, b) for a, x in left for b, y in right if x == y]
        a, b = self.rng.choice(pairs) if pairs else ("1", "1")
        return f"{a} = {b}"

    def relation(self, depth: int) -> tuple[str, Columns]:
        """A table, or a derived one."""
        alias = self.alias()
        if depth > 0 and self.chance(0.25):
            kinds = [self.pick("number", "text") for _ in range(2)]
            names = [f"x{i}" for i in range(2)]
            text = f"({self.query(depth - 1, [], kinds)}) AS {alias} ({', '.join(names)})"
            return text, [(f"{alias}.{n}", k) for n, k in zip(names, kinds, strict=True)]
        table = self.rng.choice(list(TABLES))
        return f"{table} AS {alias}", [(f"{alias}.{n}", k) for n, k in TABLES[table]]

    # -- expressions --------------------------------------------------------------------------------------

    def value(self, depth: int, columns: Columns, outer: Columns, kind: str) -> str:
        """An expression of a kind."""
        here = [name for name, of in columns if of == kind]
        around = [name for name, of in outer if of == kind]
        if depth > 0 and self.chance(0.15):
            return self.scalar(depth - 1, columns, outer, kind)
        if depth > 0 and kind == "number" and self.chance(0.2):
            return f"({self.value(depth - 1, columns, outer, kind)} {self.pick('+', '-')} {self.value(0, columns, outer, kind)})"
        if depth > 0 and self.chance(0.1):
            test = self.condition(depth - 1, columns, outer)
            return f"CASE WHEN {test} THEN {self.value(0, columns, outer, kind)} ELSE {self.value(0, columns, [], kind)} END"
        if around and self.chance(0.3):
            return self.rng.choice(around)
        if here and self.chance(0.9):
            return self.rng.choice(here)
        return self.pick(*LITERALS[kind])

    def scalar(self, depth: int, columns: Columns, outer: Columns, kind: str) -> str:
        """A subquery with one row, by an aggregate."""
        source, mine = self.source(max(depth, 0))
        where = f" WHERE {self.correlated(depth, mine, columns + outer)}" if self.chance(0.8) else ""
        return f"(SELECT {self.aggregate(mine, kind, 0, [])} FROM {source}{where})"

    def correlated(self, depth: int, mine: Columns, outer: Columns) -> str:
        """A condition that likely mentions the query around."""
        on = self.equality(mine, outer) if outer and self.chance(0.8) else self.condition(0, mine, outer)
        return f"{on} AND {self.condition(max(depth, 0), mine, outer)}" if self.chance(0.4) else on

    def condition(self, depth: int, columns: Columns, outer: Columns) -> str:
        """A condition."""
        kind = self.pick("number", "number", "text")
        left = self.value(0, columns, outer, kind)
        if depth > 0 and self.chance(0.5):
            return self.asked(depth, columns, outer, kind, left)
        form = self.rng.randint(0, 6)
        if form == 0:
            return f"{left} IS {self.pick('', 'NOT ')}NULL"
        if form == 1:
            return f"({self.condition(depth, columns, outer)} {self.pick('AND', 'OR')} {self.condition(0, columns, outer)})"
        if form == 2:
            return f"NOT ({self.condition(depth, columns, outer)})"
        if form == 3:
            return f"{left} IN ({self.pick(*LITERALS[kind])}, {self.pick(*LITERALS[kind])})"
        return f"{left} {self.pick(*COMPARISONS)} {self.value(max(depth - 1, 0), columns, outer, kind)}"

    def asked(self, depth: int, columns: Columns, outer: Columns, kind: str, left: str) -> str:
        """EXISTS, IN, ANY or ALL."""
        around = columns + outer
        source, mine = self.source(depth - 1)
        where = f" WHERE {self.correlated(depth - 1, mine, around)}" if self.chance(0.7) else ""
        query = f"SELECT {self.value(0, mine, [], kind)} FROM {source}{where}"
        match self.rng.randint(0, 4):
            case 0:
                return f"{self.pick('', 'NOT ')}EXISTS ({query})"
            case 1 | 2:
                return f"{left} {self.pick('', 'NOT ')}IN ({query})"
        return f"{left} {self.pick(*COMPARISONS)} {self.pick('ANY', 'ALL')} ({query})"


def random_query(seed: int) -> str:
    """A query of depth up to two."""
    rng = random.Random(seed)
    return Generator(rng).query(rng.choice([1, 2, 2]), [])
