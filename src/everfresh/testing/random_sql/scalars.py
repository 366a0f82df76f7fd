"""Random expressions and conditions of a kind, with subqueries.

Numbers stay small and exact: multiples of 1/8, sums of them, halves; a mean is of the kind "ratio", which is
compared and grouped by, but not computed with, since sums of means depend on the order of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everfresh.testing.random_sql.tree import LITERALS, Expr, Query
from everfresh.testing.random_sql.weights import Choices

COMPARISONS = ("=", "=", "<>", "<", "<=", ">", ">=")
KINDS = ("number", "number", "number", "text", "date", "truth")
Makers = dict[str, Callable[[], Expr]]
_LAMBDAS = (
    "LIST_SUM(LIST_TRANSFORM([{0}, {1}], LAMBDA x: x + {2}))",
    "LIST_MAX(LIST_FILTER([{0}, {1}], LAMBDA x, i: x > {2} OR i = 1))",
    "LIST_REDUCE([{0}, {1}], LAMBDA x, y: LEAST(x, y, {2}))",
)
_JOINED = "ARRAY_TO_STRING(LIST_TRANSFORM([{0}, {1}], LAMBDA x: UPPER(x) || {2}), '-')"


@dataclass(frozen=True)
class Place:
    """Where an expression stands: the columns it sees, the clause, and how deep queries may still nest."""

    own: tuple[Expr, ...]
    outer: tuple[Expr, ...] = ()
    clause: str = ""
    """"" where no subquery may stand."""
    depth: int = 0
    correlated: bool = True
    """Whether subqueries here may mention the columns."""

    def plain(self) -> Place:
        """The same without what is outside, and without subqueries."""
        return replace(self, outer=(), clause="", depth=0)

    def visible(self) -> tuple[Expr, ...]:
        """What a subquery sees of its surroundings: a merged column has no alias and could be captured."""
        return tuple(c for c in (*self.own, *self.outer) if "." in c.template) if self.correlated else ()


class Scalars(Choices):
    """Expressions; what makes queries for them is a subclass."""

    @abstractmethod
    def subquery(self, place: Place, kinds: Sequence[str], correlate: bool = True) -> Query:
        """A query with columns of the kinds, that may mention what is around."""

    @abstractmethod
    def single(self, place: Place, kind: str) -> Query:
        """A query that has one row at most."""

    # -- values

    def value(self, kind: str, place: Place) -> Expr:
        """An expression of a kind."""
        if self.budget <= 0:
            self.budget -= 1
            return self.leaf(kind, place)
        makers: Makers = {
            "leaf": lambda: self.leaf(kind, place),
            "case": lambda: self.call(
                "case", kind, "CASE WHEN {0} THEN {1} ELSE {2} END",
                self.condition(place), self.value(kind, place), self.leaf(kind, place),
            ),
            "coalesce": lambda: self.call(
                "coalesce", kind, "COALESCE({0}, {1})", self.value(kind, place), self.leaf(kind, place)
            ),
            "nullif": lambda: self.call(
                "nullif", kind, "NULLIF({0}, {1})", self.value(kind, place), self.leaf(kind, place)
            ),
            **self.special(kind, place),
        }  # fmt: skip
        if kind in ("number", "date"):
            makers["greatest"] = lambda: self.call(
                "greatest",
                kind,
                f"{self.rng.choice(['GREATEST', 'LEAST'])}({{0}}, {{1}})",
                self.value(kind, place),
                self.leaf(kind, place),
            )
        if place.clause and place.depth > 0:
            makers["scalar subquery"] = lambda: self.scalar_subquery(kind, place)
        return self.pick(makers)

    def special(self, kind: str, place: Place) -> Makers:
        """Productions of one kind."""

        def of(name: str, template: str, *kinds: str) -> Callable[[], Expr]:
            return lambda: self.call(name, kind, template, *(self.value(k, place) for k in kinds))

        match kind:
            case "number":
                return {
                    "plus": of("plus", "({0} + {1})", "number", "number"),
                    "minus": of("minus", "({0} - {1})", "number", "number"),
                    "times": lambda: self.product(place),
                    "half": of("half", "({0} / 2)", "number"),
                    "negation": of("negation", "(- {0})", "number"),
                    "absolute": of("absolute", "ABS({0})", "number"),
                    "length": of("length", "LENGTH({0})", "text"),
                    "date part": lambda: self.date_part(place),
                    "truth as number": of("truth as number", "CAST({0} AS INTEGER)", "truth"),
                    "days between": of("days between", "({0} - {1})", "date", "date"),
                    "list of numbers": of(
                        "list of numbers",
                        f"LIST_{self.rng.choice(('MIN', 'MAX'))}([{{0}}, {{1}}])",
                        "number",
                        "number",
                    ),
                    "lambda": lambda: self.lambda_call("lambda", kind, self.rng.choice(_LAMBDAS), place),
                    "distance": of("distance", "DAMERAU_LEVENSHTEIN({0}, {1})", "text", "text"),
                }
            case "text":
                return {
                    "upper": of("upper", "UPPER({0})", "text"),
                    "concatenation": of("concatenation", "({0} || {1})", "text", "text"),
                    "substring": of("substring", "SUBSTRING({0}, 1, 1)", "text"),
                    "pattern": of("pattern", "FORMAT('{{}}|{{:>2}}', {0}, {1})", "text", "text"),
                    "formatted date": of("formatted date", "STRFTIME({0}, '%Y-%b')", "date"),
                    "encoded": of("encoded", f"{self.rng.choice(('HEX', 'URL_ENCODE'))}({{0}})", "text"),
                    "joined list": lambda: self.lambda_call("joined list", kind, _JOINED, place),
                }
            case "date":
                read = "CAST(STRPTIME(STRFTIME({0}, '%d.%m.%Y'), '%d.%m.%Y') AS DATE)"
                return {
                    "next day": of("next day", "({0} + 1)", "date"),
                    "date of a text": of("date of a text", read, "date"),
                }
            case "ratio":
                return {"as double": of("as double", "CAST({0} AS DOUBLE)", "number")}
        makers: Makers = {"condition": lambda: self.call("condition", kind, "({0})", self.condition(place))}
        return makers | self.questions(place) if place.clause and place.depth > 0 else makers

    def lambda_call(self, name: str, kind: str, template: str, place: Place) -> Expr:
        """A list of two values, and a lambda that uses what is around it; no subquery may stand in one."""
        used = self.leaf(kind, place)
        return self.call(name, kind, template, self.value(kind, place), self.value(kind, place), used)

    def product(self, place: Place) -> Expr:
        """A product of values that are small for sure; one of them is an integer, so that scales stay 2.

        DuckDB rounds where two DECIMALs of different scales meet in one of 38 digits.
        """
        small = [
            c for c in (*place.own, *place.outer) if c.production == "table column" and c.kind == "number"
        ]
        whole = [c for c in small if c.template.split(".")[-1][0] in "ib"]
        first = self.rng.choice(small) if small else self.literal("number")
        second = Expr("literal", "number", self.rng.choice(("2", "3", "-1")))
        if whole and self.rng.random() < 0.6:
            second = self.rng.choice(whole)
        return self.call("times", "number", "({0} * {1})", first, second)

    def date_part(self, place: Place) -> Expr:
        """A part of a date; DuckDB gives EXTRACT another type over a constant NULL, so it is of columns."""
        part = self.rng.choice(("YEAR", "MONTH", "DAY"))
        dates = [c for c in (*place.own, *place.outer) if c.kind == "date" and c.production == "table column"]
        if not dates:
            return self.call("date part", "number", f"{part}({{0}})", self.value("date", place))
        return self.call("date part", "number", f"EXTRACT({part} FROM {{0}})", self.rng.choice(dates))

    def call(self, production: str, kind: str, template: str, *parts: Expr | Query) -> Expr:
        """A node."""
        return Expr(production, kind, template, parts)

    def leaf(self, kind: str, place: Place) -> Expr:
        """A column or a literal."""
        own = [c for c in place.own if c.kind == kind]
        outer = [c for c in place.outer if c.kind == kind]
        self.budget += 1  # leaves are free
        names = [name for name, there in (("column", own), ("outer column", outer)) if there]
        name = self.choose((*names, "literal"))
        return (
            self.literal(kind) if name == "literal" else self.rng.choice(own if name == "column" else outer)
        )

    def literal(self, kind: str) -> Expr:
        """A literal, now and then NULL."""
        texts = LITERALS[kind]
        return Expr("literal", kind, texts[-1] if self.rng.random() < 0.06 else self.rng.choice(texts[:-1]))

    def other(self, kind: str, place: Place, than: Expr) -> Expr:
        """An expression that is not the same as another: `x = x` says little."""
        made = self.value(kind, place)
        if made != than:
            return made
        rest = [c for c in (*place.own, *place.outer) if c.kind == kind and c != than]
        return self.rng.choice(rest) if rest else self.literal(kind)

    def kind_in(self, place: Place) -> str:
        """A kind of which there is a column, mostly."""
        kinds = [c.kind for c in place.own]
        return self.rng.choice(kinds) if kinds and self.rng.random() < 0.95 else self.rng.choice(KINDS)

    def placed(self, name: str, place: Place) -> None:
        """Count a subquery under its clause."""
        self.used[f"{name} in {place.clause}"] += 1

    def scalar_subquery(self, kind: str, place: Place) -> Expr:
        """A subquery with one value."""
        self.placed("scalar subquery", place)
        return self.call("scalar subquery", kind, "({0})", self.single(place, kind))

    # -- conditions

    def condition(self, place: Place) -> Expr:
        """A condition."""
        makers = self.comparisons(place)
        if self.budget > 0:

            def of(name: str, template: str, count: int) -> Callable[[], Expr]:
                return lambda: self.call(
                    name, "truth", template, *(self.condition(place) for _ in range(count))
                )

            makers |= {
                "and": of("and", "({0} AND {1})", 2),
                "or": of("or", "({0} OR {1})", 2),
                "not": of("not", "NOT ({0})", 1),
                "case condition": of("case condition", "CASE WHEN {0} THEN {1} END", 2),
            }
            if place.clause and place.depth > 0:
                makers |= self.questions(place)
        return self.pick(makers)

    def comparisons(self, place: Place) -> Makers:
        """Conditions without others inside."""
        kind = self.kind_in(place)

        def of(
            name: str, template: str, *others: Callable[[Expr], Expr], plain: bool = False
        ) -> Callable[[], Expr]:
            def make() -> Expr:
                # DuckDB 2.0 keeps rows by IN and LIKE for which a computed first operand is NULL.
                first = self.leaf(kind, place) if plain else self.value(kind, place)
                return self.call(name, "truth", template, first, *(other(first) for other in others))

            return make

        def leaf(first: Expr) -> Expr:
            return self.other(kind, replace(place, clause=""), first)

        def literal(_first: Expr) -> Expr:
            return self.literal(kind)

        op = self.rng.choice(COMPARISONS)
        makers: Makers = {
            "compare": of("compare", f"{{0}} {op} {{1}}", lambda first: self.other(kind, place, first)),
            "between": of("between", "{0} BETWEEN {1} AND {2}", leaf, leaf),
            "in list": of("in list", "{0} IN ({1}, {2})", literal, literal, plain=kind == "text"),
            "not in list": of("not in list", "{0} NOT IN ({1}, {2})", literal, literal, plain=kind == "text"),
            "is null": of("is null", "{0} IS NULL"),
            "is not null": of("is not null", "{0} IS NOT NULL"),
            "is distinct from": of("is distinct from", "{0} IS DISTINCT FROM {1}", leaf),
            "is not distinct from": of("is not distinct from", "{0} IS NOT DISTINCT FROM {1}", leaf),
            "truth column": lambda: self.leaf("truth", place),
        }
        if kind == "text":
            pattern = self.rng.choice(("a%", "%b", "_", "%"))
            word = self.rng.choice(("LIKE", "NOT LIKE"))
            both = " < ".join(f"TRY_CAST({{{i}}} AS ENUM('b', '', 'a', 'ab'))" for i in (0, 1))
            makers["labels"] = of("labels", both, leaf)
            makers["like"] = of("like", f"{{0}} {word} '{pattern}'", plain=True)
        return makers

    def questions(self, place: Place) -> Makers:
        """Conditions on a query."""
        kind = self.kind_in(place)
        op = self.rng.choice(COMPARISONS)

        def ask(name: str, template: str, kinds: tuple[str, ...], left: int) -> Callable[[], Expr]:
            def make() -> Expr:
                self.placed(name, place)
                here = [self.value(k, place.plain()) for k in kinds[:left]]
                query = self.subquery(place, kinds, correlate=left < 2)
                return self.call(name, "truth", f"({template})", *here, query)

            return make

        pair, same = (kind, self.kind_in(place)), self.rng.choice(("=", "<>"))
        return {
            "exists": ask("exists", "EXISTS ({0})", (kind,), 0),
            "not exists": ask("not exists", "NOT EXISTS ({0})", (kind,), 0),
            "in query": ask("in query", "{0} IN ({1})", (kind,), 1),
            "not in query": ask("not in query", "{0} NOT IN ({1})", (kind,), 1),
            "any": ask("any", f"{{0}} {op} ANY ({{1}})", (kind,), 1),
            "all": ask("all", f"{{0}} {op} ALL ({{1}})", (kind,), 1),
            "row in query": ask("row in query", "({0}, {1}) IN ({2})", pair, 2),
            "row any": ask("row any", "({0}, {1}) = ANY ({2})", pair, 2),
            "row all": ask("row all", f"({{0}}, {{1}}) {same} ALL ({{2}})", pair, 2),
            "row not in query": ask("row not in query", "({0}, {1}) NOT IN ({2})", pair, 2),
        }
