"""Random queries: SELECTs of all shapes, joins, derived tables, common table expressions, set operations.

Kept out, since an oracle cannot judge them: LIMIT with ties that differ, window orders that leave a choice,
`//` and `%`, products of sums, DECIMALs of several scales, casts of
strings, rows under `<> ANY` (DuckDB keeps them in WHERE where it says NULL in SELECT); and, since DuckDB has
them not: subqueries in ON of outer joins, FULL JOIN without an equality,
correlation of row values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from everfresh.testing.random_sql.aggregates import Aggregates, Groups
from everfresh.testing.random_sql.scalars import Makers, Place
from everfresh.testing.random_sql.tree import (
    LITERALS,
    Base,
    Columns,
    Derived,
    Expr,
    Join,
    Listed,
    Pivoted,
    Query,
    Select,
    SetOperation,
    Source,
    With,
    column,
)
from everfresh.testing.random_sql.weights import GROUPINGS, JOINS, LISTS, ROWS_OF_ONE, SETS

BUDGET = 14
FLAT_BUDGET = 4
INNER = (
    "no join", "JOIN", "JOIN", "CROSS JOIN", "NATURAL JOIN", "JOIN USING", "comma", "CROSS JOIN UNNEST",
)  # fmt: skip
DEPTH = 3
Tables = dict[str, Columns]


class Queries(Aggregates):
    """Queries over tables and views."""

    def __init__(
        self, rng: Random, used: Counter[str], tables: Tables, views: Tables, budget: int = BUDGET
    ) -> None:
        super().__init__(rng, used, budget)
        self.tables = tables
        self.views = views
        self.common: Tables = {}
        self.kinds = [kind for columns in tables.values() for _, kind in columns]
        self.joins: Sequence[str] = tuple(JOINS)
        self._aliases = 0

    def view(self) -> tuple[Query, Columns]:
        """A query for a view, of any depth, and the columns that other queries may read."""
        kinds = [self.kind() for _ in range(self.rng.choice((1, 2, 2, 3)))]
        depth = self.rng.choice((1, 2, 2, 2, DEPTH, DEPTH))
        if self.chance("flat view"):  # what the other productions stand on is tested by itself, too
            self.budget, self.joins, self.views, depth = FLAT_BUDGET, INNER, {}, 0
        query = self.query(depth, kinds, (), top=True)
        return query, tuple((f"x{i}", kind) for i, kind in enumerate(kinds))

    def kind(self) -> str:
        """A kind that some table has, or a mean."""
        return "ratio" if self.rng.random() < 0.08 else self.rng.choice(self.kinds)

    def alias(self, letter: str = "r") -> str:
        """A name that is used once."""
        self._aliases += 1
        return f"{letter}{self._aliases}"

    # -- queries

    def query(self, depth: int, kinds: Sequence[str], outer: tuple[Expr, ...], top: bool = False) -> Query:
        """A query with columns of the kinds."""
        makers = {
            "rows": lambda: self.rows(depth, kinds, outer),
            "grouped": lambda: self.grouped(depth, kinds, outer, top),
            "global": lambda: self.grouped(depth, kinds, outer, top, keyed=False),
        }
        if self.budget > 3 and depth > 0:
            makers |= {
                "set operation": lambda: self.set_operation(depth, kinds, outer),
                "with": lambda: self.with_(depth, kinds, outer),
                "window": lambda: self.rows(depth, kinds, outer, window=True),
            }
        return self.pick(makers)

    def rows(self, depth: int, kinds: Sequence[str], outer: tuple[Expr, ...], window: bool = False) -> Query:
        """A SELECT without aggregates."""
        source, own = self.source(depth, outer)
        where = self.where(own, outer, depth)
        place = Place(own, outer, "select", depth - 1)
        items = [self.value(kind, place.plain() if window else place) for kind in kinds]
        if window:
            spots = [i for i, kind in enumerate(kinds) if kind in ("number", "ratio")] or [-1]
            made = self.over(place)
            spot = self.rng.choice(spots)
            if spot >= 0 and made.kind == kinds[spot]:
                items[spot] = made
            elif not outer and made.kind == "number":
                items[0] = self.call(  # any kind of column can depend on a number
                    "case", kinds[0], "CASE WHEN {0} > 1 THEN {1} END", made, items[0]
                )
        if not window and not outer and self.chance("unnested item"):
            items = [self.unnested(item, place) if i < 2 else item for i, item in enumerate(items)]
        distinct = not window and self.chance("distinct")
        select = Select(_named(items), source, where, distinct=distinct)
        return self.limited(select) if not window and not outer and self.chance("limit") else select

    def grouped(
        self, depth: int, kinds: Sequence[str], outer: tuple[Expr, ...], top: bool, keyed: bool = True
    ) -> Query:
        """A SELECT with GROUP BY, or one row of aggregates."""
        source, own = self.source(depth, outer)
        where = self.where(own, outer, depth)
        rows = Place(own, outer, "", depth - 1)
        keys = self.keys(rows, kinds) if keyed else []
        having = self.having(Groups(rows, tuple(keys), "having")) if self.chance("having") else None
        positions = bool(keys) and not outer and self.chance("position")
        shown = list(keys) if positions and [k.kind for k in keys] == list(kinds[: len(keys)]) else []
        positions = bool(shown)
        groups = Groups(rows, tuple(keys), "select")
        items = shown + [
            key if (key := self.shown_key(keys, kind)) is not None else self.over_groups(kind, groups)
            for kind in kinds[len(shown) :]
        ]
        named = _named(items)
        if top and self.chance("deviation"):
            named = (*named, ("dev", self.deviation(rows)))
        sets = self.choose(GROUPINGS) if keys and not outer else ""
        select = Select(named, source, where, tuple(keys), having, positions, sets=sets)
        exact = all(name != "dev" for name, _ in named)
        return self.limited(select) if exact and not outer and keys and self.chance("limit") else select

    def keys(self, rows: Place, kinds: Sequence[str]) -> list[Expr]:
        """Expressions to group by, each with a column in it."""
        found: list[Expr] = []
        for kind in (kinds[0], self.kind_in(rows))[: self.rng.choice((1, 1, 2))]:
            columns = [c for c in rows.own if c.kind == kind] or list(rows.own)
            key = self.rng.choice(columns)
            if self.chance("key expression"):
                key = {
                    "number": Expr("plus", "number", "({0} + 1)", (key,)),
                    "text": Expr("upper", "text", "UPPER({0})", (key,)),
                    "date": Expr("date part", "number", "MONTH({0})", (key,)),
                    "truth": Expr("not", "truth", "NOT ({0})", (key,)),
                    "ratio": key,
                }[key.kind]
            if key not in found:
                found.append(key)
        return found

    def shown_key(self, keys: list[Expr], kind: str) -> Expr | None:
        """Mostly, a key of the kind is shown."""
        fitting = [key for key in keys if key.kind == kind]
        return None if not fitting or self.chance("hidden key") else self.rng.choice(fitting)

    def limited(self, select: Select) -> Query:
        """The first rows, by all columns."""
        words = tuple(
            self.rng.choice(("", " DESC", " DESC NULLS FIRST", " NULLS FIRST")) for _ in select.items
        )
        offset = 1 if self.chance("offset") else 0
        return replace(select, order=words, limit=self.rng.randint(1, 4), offset=offset)

    def where(self, own: tuple[Expr, ...], outer: tuple[Expr, ...], depth: int) -> Expr | None:
        """A condition on rows, or none."""
        place = Place(own, outer, "where", depth - 1)
        return self.asked(place) if self.chance("where") else None

    def asked(self, place: Place) -> Expr:
        """A condition, often with a query in it."""
        if place.depth > 0 and self.budget > 1 and self.chance("question"):
            return self.pick(self.questions(place))
        return self.condition(place)

    def set_operation(self, depth: int, kinds: Sequence[str], outer: tuple[Expr, ...]) -> Query:
        """Two queries in one."""
        op = self.choose(SETS)
        left = self.query(depth - 1, kinds, outer)
        right = self.query(depth - 1, kinds, outer)
        return SetOperation(op, left, right)

    def with_(self, depth: int, kinds: Sequence[str], outer: tuple[Expr, ...]) -> Query:
        """A common table expression, read at least once."""
        name = self.alias("c")
        inner = [self.kind() for _ in range(2)]
        columns = tuple((f"x{i}", kind) for i, kind in enumerate(inner))
        bound = self.query(depth - 1, inner, ())
        before = dict(self.common)
        self.common[name] = columns
        body = self.rows(depth, kinds, outer)
        self.common = before
        if isinstance(body, Select) and name not in body.source.sql():
            body = Select(
                body.items, Join("CROSS JOIN", body.source, Base(name, self.alias(), columns)), body.where,
                distinct=True,
            )  # fmt: skip
        return With(name, tuple(n for n, _ in columns), bound, body)

    # -- FROM

    def source(self, depth: int, outer: tuple[Expr, ...]) -> tuple[Source, tuple[Expr, ...]]:
        """A FROM clause, and the columns it gives."""
        source: Source
        source, own = self.relation(depth, outer)
        for _ in range(2):
            join = self.choose(self.joins)
            if join == "no join" or (self.budget <= 0 and join != "JOIN"):
                break
            self.budget -= 1
            source, own = self.joined(join, source, own, depth, outer)
            if join == "comma":  # what follows would bind more tightly, and ON see one side only
                break
        return source, own

    def relation(
        self, depth: int, outer: tuple[Expr, ...]
    ) -> tuple[Base | Derived | Pivoted, tuple[Expr, ...]]:
        """A table, a view, a common table expression, or a derived table."""
        alias = self.alias()
        if self.common and self.rng.random() < 0.7:
            name = self.rng.choice(list(self.common))
            return _base(name, alias, self.common[name])
        if depth > 1 and self.budget > 2 and self.choose(("table", "derived table")) == "derived table":
            kinds = [self.kind() for _ in range(2)]
            columns = tuple((f"x{i}", kind) for i, kind in enumerate(kinds))
            seen = outer if outer and self.chance("correlated derived table") else ()
            query = self.query(depth - 1, kinds, seen)
            return Derived(query, alias, columns), tuple(column(alias, n, k) for n, k in columns)
        if self.views and self.chance("view over a view"):
            name = self.rng.choice(list(self.views))
            return _base(name, alias, self.views[name])
        name = self.rng.choice(list(self.tables))
        if self.chance("pivot"):
            return self.pivot(Base(name, alias, self.tables[name]), alias)
        if self.chance("unpivot"):
            return self.unpivot(Base(name, alias, self.tables[name]), alias)
        return _base(name, alias, self.tables[name], table=True)

    def pivot(self, table: Base, alias: str) -> tuple[Pivoted, tuple[Expr, ...]]:
        """Counts and extremes of a table by the values of one of its columns."""
        (by, kind), (of, other) = self.rng.choice(table.columns), self.rng.choice(table.columns)
        key, third = self.rng.choice(table.columns)
        values = self.rng.sample(LITERALS[kind][:2], self.rng.choice((1, 2)))
        call = f"COUNT({of}) AS n, MAX({of}) AS m" if other != "truth" else "COUNT(*) AS n"
        kinds = [
            third,
            *(k for _ in values for k in (("number", other) if other != "truth" else ("number",))),
        ]
        clause = f"PIVOT ({call} FOR {by} IN ({', '.join(values)}) GROUP BY {key})"
        return self._pivoted(table, clause, alias, kinds)

    def unpivot(self, table: Base, alias: str) -> tuple[Pivoted, tuple[Expr, ...]]:
        """Columns of one type as rows."""
        first, kind = self.rng.choice(table.columns)
        like = [n for n, _ in table.columns if n[0] == first[0]]
        nulls = " INCLUDE NULLS" if self.chance("include nulls") else ""
        clause = f"UNPIVOT{nulls} (v FOR w IN ({', '.join(like)}))"
        rest = [k for n, k in table.columns if n not in like]
        return self._pivoted(table, clause, alias, [*rest, "text", kind])

    def _pivoted(
        self, table: Base, clause: str, alias: str, kinds: Sequence[str]
    ) -> tuple[Pivoted, tuple[Expr, ...]]:
        columns = tuple((f"x{i}", kind) for i, kind in enumerate(kinds))
        return Pivoted(table, clause, alias, columns), tuple(column(alias, n, k) for n, k in columns)

    def unnested(self, item: Expr, place: Place) -> Expr:
        """One row for each of some values, side by side with others."""
        more = [self.leaf(item.kind, place) for _ in range(self.rng.choice((0, 1, 2)))]
        holes = ", ".join(f"{{{i}}}" for i in range(1 + len(more)))
        return self.call("unnest", item.kind, f"UNNEST([{holes}])", item, *more)

    def listed(self, place: Place) -> tuple[Listed, tuple[Expr, ...]]:
        """The values of a list, mostly one of what stands to the left."""
        how, kind = self.choose(LISTS), self.kind_in(place)
        if how == "constants":
            many = self.rng.choice(("1, 3", "3", "0, 9, 2", "-1, 5"))
            call, kind = Expr("list", "number", f"GENERATE_SERIES({many})"), "number"
        elif how == "range":
            to = self.leaf("number", place)
            call = Expr("list", "number", "RANGE(LEAST(CAST({0} AS BIGINT), 4))", (to,))
            kind = "number"
        else:
            values = tuple(self.value(kind, place.plain()) for _ in range(self.rng.choice((1, 2, 3))))
            text = f"[{', '.join(f'{{{i}}}' for i in range(len(values)))}]"
            if how == "values or none":
                text = f"CASE WHEN {{{len(values)}}} THEN {text} END"
                values = (*values, self.condition(place.plain()))
            call = Expr("list", kind, f"UNNEST({text})", values)
        alias, numbered = self.alias(), self.chance("ordinality")
        columns: Columns = (("x0", kind), ("x1", "number")) if numbered else (("x0", kind),)
        return Listed(call, alias, columns, numbered), tuple(column(alias, n, k) for n, k in columns)

    def joined(
        self, join: str, left: Source, own: tuple[Expr, ...], depth: int, outer: tuple[Expr, ...]
    ) -> tuple[Source, tuple[Expr, ...]]:
        """One more relation; a merged column of those before could be ambiguous now."""
        own = tuple(c for c in own if "." in c.template)
        right: Base | Derived | Listed | Pivoted
        if "UNNEST" in join:
            if not own:
                return left, own
            right, more = self.listed(Place(own, outer))
            always = Expr("literal", "truth", "TRUE") if join == "LEFT JOIN UNNEST" else None
            return Join(join.removesuffix(" UNNEST"), left, right, always), own + more
        if "LATERAL" in join:
            if depth < 1 or self.budget < 2 or not own:
                return left, own
            right, more = self.lateral(Place(own, outer, "", depth - 1))
            on = self.on("JOIN", own, more, 0, ()) if join == "LEFT JOIN LATERAL" else None
            return Join(join, left, right, on), own + more
        if isinstance(left, Base) and self.chance("self-join"):
            alias = self.alias()
            right, more = _base(left.name, alias, left.columns, table=left.name in self.tables)
        else:
            right, more = self.relation(depth, ())
        match join:
            case "CROSS JOIN":
                return Join(join, left, right), own + more
            case "comma":
                return Join(",", left, right), own + more
            case "NATURAL JOIN" | "JOIN USING" | "LEFT JOIN USING" | "FULL JOIN USING":
                shared = _shared(left, right)
                if shared:
                    return self.by_names(join, left, right, own, more, shared)
                join = "JOIN"
        return Join(join, left, right, self.on(join, own, more, depth, outer)), own + more

    def lateral(self, place: Place) -> tuple[Derived, tuple[Expr, ...]]:
        """A derived table that mentions what stands to its left: any query, one row, or the first rows."""
        kinds = [self.kind_in(place) for _ in range(self.rng.choice((1, 2)))]
        alias = self.alias()
        if len(kinds) == 1 and self.rng.random() < 0.5:
            query = self.single(place, kinds[0])
        else:
            query = self.subquery(place, kinds)
            if isinstance(query, Select) and self.rng.random() < 0.4:
                query = replace(query, order=tuple(self.rng.choice((" DESC", "")) for _ in kinds), limit=2)
        columns = tuple((f"x{i}", kind) for i, kind in enumerate(kinds))
        return Derived(query, alias, columns), tuple(column(alias, n, k) for n, k in columns)

    def by_names(
        self, join: str, left: Source, right: Source, own: tuple[Expr, ...], more: tuple[Expr, ...],
        shared: Columns,
    ) -> tuple[Source, tuple[Expr, ...]]:  # fmt: skip
        """A join by equal names; the merged column stands beside the two it is made of."""
        views = [side for side in (left, right) if isinstance(side, Base) and side.name in self.views]
        if join == "NATURAL JOIN" and not views:  # a view may have a deviation, which must not be compared
            return Join(join, left, right), own + more
        join = "JOIN" if join == "NATURAL JOIN" else join
        name, kind = self.rng.choice(shared)
        merged = Expr("column", kind, name)
        return Join(join.removesuffix(" USING"), left, right, using=(name,)), (*own, *more, merged)

    def on(
        self, join: str, left: tuple[Expr, ...], right: tuple[Expr, ...], depth: int, outer: tuple[Expr, ...]
    ) -> Expr:
        """The condition of a join."""
        both = left + right
        place = Place(both, outer, "on", depth - 1) if join == "JOIN" else Place(both)

        def more() -> Expr:
            return self.asked(place) if place.clause else self.condition(place)

        makers: Makers = {
            "equality": lambda: self.pair("=", left, right),
            "equality and more": lambda: self.call(
                "and", "truth", "({0} AND {1})", self.pair("=", left, right), more()
            ),
        }
        if join != "FULL JOIN":
            makers |= {
                "inequality": lambda: self.pair(self.rng.choice(("<", "<=", ">", "<>")), left, right),
                "sameness": lambda: self.pair("IS NOT DISTINCT FROM", left, right),
                "any condition": more,
            }
        return self.pick(makers)

    def pair(self, op: str, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
        """A comparison of a column of each side."""
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind != "truth"]
        pairs = pairs or [(a, b) for a in left for b in right if a.kind == b.kind]
        a, b = self.rng.choice(pairs) if pairs else (Expr("literal", "number", "1"),) * 2
        return self.call("compare", "truth", f"{{0}} {op} {{1}}", a, b)

    # -- subqueries

    def correlation(self, own: tuple[Expr, ...], around: Place, depth: int, correlate: bool) -> Expr | None:
        """The WHERE clause of a subquery."""
        outer = around.visible() if correlate else ()
        names = ["uncorrelated"]
        if outer:
            names += ["equality correlation", "inequality correlation"]
        name = self.choose(names)
        if name == "uncorrelated":
            return self.where(own, outer, depth)
        op = "=" if name == "equality correlation" else self.rng.choice(("<", "<=", ">", ">=", "<>"))
        first = self.pair(op, own, outer)
        if not self.chance("second conjunct"):
            return first
        more = self.condition(Place(own, outer, "where", depth - 1))
        return self.call("and", "truth", "({0} AND {1})", first, more)

    def subquery(self, place: Place, kinds: Sequence[str], correlate: bool = True) -> Query:
        """A query with columns of the kinds; mostly one SELECT that mentions what is around."""
        if self.rng.random() < 0.15:
            return self.query(place.depth, kinds, ())
        source, own = self.source(place.depth, place.visible() if correlate else ())
        where = self.correlation(own, place, place.depth, correlate)
        inner = Place(own, place.visible() if correlate else (), "", place.depth - 1)
        if self.rng.random() < 0.2:
            keys = tuple(self.rng.choice(own) for _ in range(1))
            groups = Groups(Place(own, (), "", 0), keys, "")
            items = [self.over_groups(kind, groups) for kind in kinds]
            having = self.having(groups) if self.chance("having") else None
            return Select(_named(items), source, where, keys, having)
        return Select(_named([self.value(kind, inner.plain()) for kind in kinds]), source, where)

    def single(self, place: Place, kind: str) -> Query:
        """One row: aggregates without keys, or the first row; or conditions that few rows fulfil, seldom two
        that one row asks for."""
        source, own = self.source(place.depth, place.visible())
        where = self.correlation(own, place, place.depth, correlate=True)
        how = self.choose(tuple(ROWS_OF_ONE))
        if how != "one by an aggregate":
            item = self.value(kind, Place(own))
            asked = where is not None and any(c.sql() in where.sql() for c in place.visible())
            if how == "one of several" and (asked or not place.outer):
                if not asked or self.rng.random() < 0.5:
                    few = self.call("compare", "truth", "{0} = {1}", own[0], self.literal(own[0].kind))
                    where = few if where is None else self.call("and", "truth", "({0} AND {1})", where, few)
                return Select(_named([item]), source, where, distinct=True)
            return Select(_named([item]), source, where, order=(" DESC",), limit=1)
        item = self.over_groups(kind, Groups(Place(own, (), "", 0), (), ""))
        return Select(_named([item]), source, where)


def _named(items: Sequence[Expr]) -> tuple[tuple[str, Expr], ...]:
    return tuple((f"x{i}", item) for i, item in enumerate(items))


def _base(name: str, alias: str, columns: Columns, table: bool = False) -> tuple[Base, tuple[Expr, ...]]:
    return Base(name, alias, columns), tuple(column(alias, n, kind, table) for n, kind in columns)


def _shared(left: Source, right: Source) -> Columns:
    """The columns of both, unless a name is ambiguous or of two kinds."""
    if isinstance(left, Join) or isinstance(right, Join):
        return ()
    kinds = dict(right.columns)
    shared = tuple(c for c in left.columns if c[0] in kinds)
    return shared if all(kinds[name] == kind for name, kind in shared) else ()
