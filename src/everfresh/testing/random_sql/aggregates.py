"""Random aggregates, what stands over them in a grouped query, and window functions with a fixed answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everfresh.testing.random_sql.scalars import COMPARISONS, Makers, Place, Scalars
from everfresh.testing.random_sql.tree import Expr
from everfresh.testing.random_sql.weights import DEVIATIONS, WINDOWS

_OVER_A_LIST = (
    "size of a list", "second least", "first of a list", "list of texts", "histogram", "quantiles",
)  # fmt: skip
"""What is a function of an aggregate, and takes no FILTER."""


@dataclass(frozen=True)
class Groups:
    """A grouped query from the outside: the rows below it, and its keys."""

    rows: Place
    keys: tuple[Expr, ...]
    clause: str

    def around(self) -> Place:
        """What a subquery over groups sees: the keys that are columns."""
        columns = tuple(key for key in self.keys if key.production.endswith("column"))
        return Place(columns, self.rows.outer, self.clause, self.rows.depth)


class Aggregates(Scalars):
    """Expressions over groups and over windows."""

    def aggregate(self, kind: str, rows: Place) -> Expr:
        """An aggregate of a kind; its argument mentions the rows only."""
        place = rows.plain()
        self.budget -= 1

        def of(name: str, template: str, argument: str) -> Callable[[], Expr]:
            def make() -> Expr:
                inner = place
                if rows.depth > 0 and self.chance("subquery in an aggregate"):
                    inner = Place(rows.own, (), "select", rows.depth)
                return self.call(name, kind, template, self.value(argument, inner))

            return make

        some = self.kind_in(place)
        numbers: Makers = {
            "count rows": lambda: Expr("count rows", kind, "COUNT(*)"),
            "count": of("count", "COUNT({0})", some),
            "sum": of("sum", "SUM({0})", "number"),
            "min": of("min", "MIN({0})", "number"),
            "max": of("max", "MAX({0})", "number"),
            "count distinct": of("count distinct", "COUNT(DISTINCT {0})", some),
            "sum distinct": of("sum distinct", "SUM(DISTINCT {0})", "number"),
            "count_if": of("count_if", "COUNT_IF({0})", "truth"),
            "size of a list": of("size of a list", "LEN(LIST({0}))", some),
            "second least": of("second least", "LIST_EXTRACT(MIN({0}, 2), 2)", "number"),
            "quantile_disc": of("quantile_disc", "QUANTILE_DISC({0}, 0.7)", "number"),
            "first of a list": of(
                "first of a list", "LIST_EXTRACT(LIST({0} ORDER BY {0} + 0 DESC NULLS FIRST), 1)", "number"
            ),
        }
        texts: Makers = {
            "string_agg": of("string_agg", "STRING_AGG({0}, '+' ORDER BY {0} || '')", "text"),
            "first of a kind": of(
                "first of a kind", "FIRST({0} ORDER BY {0} || '' DESC NULLS FIRST)", "text"
            ),
        }
        texts |= {
            "list of texts": of(
                "list of texts", "ARRAY_TO_STRING(LIST(DISTINCT {0} || '' ORDER BY {0} || ''), '|')", "text"
            ),
            "histogram": of("histogram", "CAST(HISTOGRAM({0}) AS VARCHAR)", "text"),
        }
        extremes: Makers = {
            "min of a kind": of("min of a kind", "MIN({0})", kind),
            "max of a kind": of("max of a kind", "MAX({0})", kind),
        }
        truths: Makers = {
            "bool_and": of("bool_and", "BOOL_AND({0})", "truth"),
            "bool_or": of("bool_or", "BOOL_OR({0})", "truth"),
        }
        ratios: Makers = {
            "avg": of("avg", "AVG({0})", "number"),
            "avg distinct": of("avg distinct", "AVG(DISTINCT {0})", "number"),
            "max of a kind": of("max of a kind", "MAX({0})", "ratio"),
            "median": of("median", "MEDIAN({0})", "ratio"),
            "quantiles": of("quantiles", "LIST_EXTRACT(QUANTILE_CONT({0}, [0.25, 0.8]), 2)", "ratio"),
        }
        by_kind = {"number": numbers, "truth": truths, "ratio": ratios, "text": {**extremes, **texts}}
        made = self.pick(by_kind.get(kind, extremes))
        if made.production not in _OVER_A_LIST and self.chance("filter"):
            made = self.call("filter", kind, "{0} FILTER (WHERE {1})", made, self.condition(place))
        return made

    def deviation(self, rows: Place) -> Expr:
        """A standard deviation or a variance: compared with a tolerance, so never computed with."""
        name, place = self.choose(DEVIATIONS), rows.plain()
        values = [self.value("number", place)]
        if name.startswith(("covar", "regr")):
            values.append(self.value("number", place))
        inside = ", ".join(f"{{{i}}}" for i in range(len(values)))
        return self.call(name, "deviation", f"{name.upper()}({inside})", *values)

    def over_groups(self, kind: str, groups: Groups) -> Expr:
        """An expression over aggregates and keys."""
        keys = [key for key in groups.keys if key.kind == kind]
        makers: Makers = {"plain aggregate": lambda: self.aggregate(kind, groups.rows)}
        if keys:
            makers["group key"] = lambda: self.rng.choice(keys)
        if self.budget > 0:
            if kind == "number":
                makers["sum of aggregates"] = lambda: self.call(
                    "sum of aggregates", kind, f"({{0}} {self.rng.choice('+-')} {{1}})",
                    self.aggregate(kind, groups.rows), self.aggregate(kind, groups.rows),
                )  # fmt: skip
            if kind == "truth":
                makers["compared aggregate"] = lambda: self.compared(groups)
            makers |= {
                "default of an aggregate": lambda: self.call(
                    "default of an aggregate", kind, "COALESCE({0}, {1})",
                    self.aggregate(kind, groups.rows), self.literal(kind),
                ),
                "case over aggregates": lambda: self.call(
                    "case over aggregates", kind, "CASE WHEN {0} THEN {1} ELSE {2} END",
                    self.having(groups), self.aggregate(kind, groups.rows), self.literal(kind),
                ),
            }  # fmt: skip
            if groups.clause and groups.rows.depth > 0:
                makers["subquery of a group"] = lambda: self.scalar_subquery(kind, groups.around())
        return self.pick(makers)

    def compared(self, groups: Groups) -> Expr:
        """A comparison of an aggregate."""
        kind = self.rng.choice(("number", "number", "ratio", "text", "date"))
        other = self.literal(kind) if self.rng.random() < 0.6 else self.over_groups(kind, groups)
        template = f"{{0}} {self.rng.choice(COMPARISONS)} {{1}}"
        return self.call("compared aggregate", "truth", template, self.over_groups(kind, groups), other)

    def having(self, groups: Groups) -> Expr:
        """A condition over groups."""
        makers: Makers = {"having comparison": lambda: self.compared(groups)}
        if self.budget > 0:

            def of(name: str, template: str, count: int) -> Callable[[], Expr]:
                return lambda: self.call(
                    name, "truth", template, *(self.having(groups) for _ in range(count))
                )

            kind = self.kind_in(groups.rows)
            makers |= {
                "having null": lambda: self.call(
                    "having null", "truth", "{0} IS NOT NULL", self.over_groups(kind, groups)
                ),
                "having and": of("having and", "({0} AND {1})", 2),
                "having or": of("having or", "({0} OR {1})", 2),
                "having not": of("having not", "NOT ({0})", 1),
            }
            if groups.clause and groups.rows.depth > 0:
                makers["having subquery"] = lambda: self.pick(self.questions(groups.around()))
        return self.pick(makers)

    def over(self, rows: Place) -> Expr:
        """A window function: where its order decides, it is by all columns, so that only equal rows tie."""
        place = rows.plain()
        name = self.choose(WINDOWS)
        self.budget -= 1
        by, parts = "", []
        if self.rng.random() < 0.7:
            parts.append(self.leaf(self.kind_in(place), place))
            by = "PARTITION BY {1} "
        everything = ", ".join(
            f"{c.template}{self.rng.choice(('', ' DESC', ' NULLS FIRST'))}" for c in rows.own
        )
        argument = self.value("number", place)
        order = f"ORDER BY {self.leaf(self.kind_in(place), place).sql()}"
        if name in ("row_number", "ntile", "nth_value", "lag", "lead", "rows frame"):
            order = f"ORDER BY {everything}"
        if rows.depth > 0 and self.budget > 1 and self.chance("subquery in a window"):
            asked = self.scalar_subquery("number", rows)
            if name in ("rank", "dense_rank"):
                parts.append(asked)
                order = f"ORDER BY {{{len(parts)}}}"
            else:
                argument = asked
        call = {
            "row_number": "ROW_NUMBER()", "rank": "RANK()", "dense_rank": "DENSE_RANK()",
            "rows frame": "SUM({0})", "ntile": f"NTILE({self.rng.randrange(1, 5)})",
            "percent_rank": "PERCENT_RANK()", "cume_dist": "CUME_DIST()",
            "nth_value": f"NTH_VALUE({{0}}, {self.rng.randrange(1, 4)})",
        }.get(name, f"{name.split()[0].upper()}({{0}})")  # fmt: skip
        if name.endswith(" over") and self.rng.random() < 0.4:
            order = ""
        frame = " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW" if name == "rows frame" else ""
        kind = "ratio" if name in ("avg over", "percent_rank", "cume_dist") else "number"
        return self.call(name, kind, f"{call} OVER ({by}{order}{frame})", argument, *parts)
