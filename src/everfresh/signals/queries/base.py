"""What all queries have: a tree of nodes, what can be done with it, and how spans of time are given.

A call that a kind of signal lacks is refused with the step that leads there.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from everfresh.errors import Code, EverfreshError
from everfresh.rewrite import Node
from everfresh.signals import faults
from everfresh.signals import nodes as n
from everfresh.signals.kinds import SIGNAL, STREAM, UNIFORM, WINDOWED, kind_of

if TYPE_CHECKING:
    from everfresh.database import Database
    from everfresh.options import Options
    from everfresh.signals.queries.readings import Reference

Ticks = int | str | dt.timedelta
Q = TypeVar("Q", bound="Query")
Made = TypeVar("Made", bound="Query")

UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
CALLED = {
    STREAM: "a stream",
    SIGNAL: "a signal without a grid",
    UNIFORM: "a uniform signal",
    WINDOWED: "a windowed signal",
}
_DAY = 24 * 3600 * 10**9


def ticks(value: Ticks, unit: str, what: str) -> int:
    """A span in ticks: a number of them, a timedelta, or text.

    >>> ticks("100 ms", "us", "period"), ticks(dt.timedelta(seconds=1), "ms", "period")
    (100000, 1000)
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if not isinstance(value, str | dt.timedelta):
        raise faults.period(
            f"{what} is {value!r}, which is no span of time",
            "a whole number of ticks, a timedelta, or text like '100 ms'",
        )
    if isinstance(value, dt.timedelta):
        nanos = (value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000
    else:
        found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s|min|h|d)\s*", value)
        if found is None:
            raise faults.period(f"{what} '{value}' is no span of time", "for example '100 ms' or '2 h'")
        whole, _, part = found[1].partition(".")
        scale = _DAY if found[2] == "d" else UNITS[found[2]]
        nanos = int(whole + part) * scale // 10 ** len(part)
        if int(whole + part) * scale % 10 ** len(part):
            raise faults.period(f"{what} '{value}' is less than a nanosecond", "give whole nanoseconds")
    one = _DAY if unit == "d" else UNITS[unit]
    if nanos % one:
        raise faults.period(
            f"{what} '{value}' is not a whole number of ticks, which are of 1 {unit}",
            "give a multiple of the tick, or read times of a finer unit",
        )
    return nanos // one


CLASSES: dict[str, type[Query]] = {}
"""The class of each kind."""
STEPS: list[tuple[type[Query], tuple[str, str]]] = []
"""What has an operation that another kind lacks, and the step that leads there."""


def query(node: Node, db: Database | None = None) -> Any:
    """The query of a node, of the class of its kind; of a database, if it reads tables of one."""
    return CLASSES[kind_of(node).name](node, db)


class Query:
    """What all kinds have."""

    kind: ClassVar[str]

    def __init__(self, node: Node, db: Database | None = None) -> None:
        self.node = node
        self._db = db

    def _with(self, node: Node) -> Made:  # type: ignore[type-var]
        """The query of another node, of the same database."""
        return query(node, self._db)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        from everfresh.signals.text import to_text

        return to_text(self.node)

    def __repr__(self) -> str:
        return f"<{self.kind}: {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __getattr__(self, name: str) -> Any:
        for kind, step in STEPS:
            if kind is not type(self) and name in vars(kind) and not name.startswith("_"):
                raise faults.kind(name, CALLED[self.kind], *step)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def _of(self, db: Database) -> Query:
        """The query, of a database."""
        return query(self.node, db)  # type: ignore[no-any-return]

    def create_view(self, name: str) -> int:
        """Keep the rows of the query in its database: those of the rows that are there, and then of those
        that come. The epoch in which the view was made."""
        if self._db is None:
            raise EverfreshError(
                Code.ARGUMENT,
                f"create_view('{name}') of a query that belongs to no database",
                hint="begin it with db.signal(table, ...); run(rows) computes it over rows at hand",
            )
        from everfresh.signals.domain.verbs import create_view

        return create_view(self._db, name, self.node)

    @property
    def unit(self) -> str:
        """The unit of ticks."""
        return next(each.unit for each in self.node.walk() if isinstance(each, n.Reading))

    def _ticks(self, value: Ticks, what: str) -> int:
        return ticks(value, self.unit, what)

    def run(self, rows: Any, options: Options | None = None) -> Any:
        """The query over rows at hand: an Arrow table or a DataFrame, or several by the names of tables. The
        result is an Arrow table; of DataFrames of Spark, one of Spark."""
        from everfresh.signals.run.offline import run, tables_of

        readings = [each.table for each in self.node.walk() if isinstance(each, n.Reading)]
        given = tables_of(readings, rows)
        if any(type(table).__module__.startswith("pyspark.") for table in given.values()):
            from everfresh.signals.spark.run import run as on_spark

            return on_spark(self.node, given, options)
        return run(self.node, rows, options)

    def _drawn(self, rows: Any, where: Mapping[str, Any] | None) -> tuple[Node, Any, tuple[str, ...], str]:
        """What pictures are made of; without rows those of the tables in the database."""
        from everfresh.signals.pictures import chosen

        readings = [each for each in self.node.walk() if isinstance(each, n.Reading)]
        if rows is None and self._db is not None:
            with self._db._reading() as engine:
                rows = {each.table: engine.read(each.table) for each in readings}
        found = self.run(rows)
        found = found if hasattr(found, "schema") and hasattr(found, "num_rows") else found.toArrow()
        return self.node, chosen(found, where), readings[0].key, readings[0].time

    def plot(self, rows: Any = None, where: Mapping[str, Any] | None = None, axes: Any = None) -> Any:
        """Draw the query over rows, or over the tables of its database, with matplotlib: a line for each key,
        of the spectra of one key a spectrogram. `where` has the key that is drawn."""
        from everfresh.signals.pictures import plot

        node, found, keys, time = self._drawn(rows, where)
        return plot(node, found, keys, time, axes)

    def svg(self, rows: Any = None, where: Mapping[str, Any] | None = None) -> str:
        """The same picture as SVG text, without matplotlib."""
        from everfresh.signals.drawing import svg

        return svg(*self._drawn(rows, where))

    def spectrum(self, rows: Any = None) -> Any:
        """The magnitudes of spectra, a row for each key, time and frequency."""
        from everfresh.signals.pictures import spectrum

        return spectrum(*self._drawn(rows, None))

    def explain(self) -> str:
        """What is done, what can be updated, and when a result is final."""
        from everfresh.signals.explain import explain

        return explain(self.node)


def reference_key(reference: Any) -> tuple[str, ...]:
    """The key of a reference table, if it is one."""
    return getattr(getattr(reference, "node", None), "key", ())


class Events(Query):
    """What streams and signals have."""

    def where(self: Q, condition: str) -> Q:
        """The events that satisfy a condition over the values."""
        return self._with(n.Where(self.node, condition))

    def select(self: Q, **expressions: str) -> Q:
        """Other values, by expressions over the values."""
        if not expressions:
            raise EverfreshError(Code.ARGUMENT, "select() is given nothing to select")
        return self._with(n.Select(self.node, tuple(expressions), tuple(expressions.values())))

    def join(
        self: Q, reference: Reference | str, kind: str = "inner", *, on: str | Sequence[str] | None = None
    ) -> Q:
        """Each event with the row of its group in a reference table, or in a table of the query's database by
        its name; `on` are the columns there that are the key, of the same names as the signal's if they are
        not given. Events of groups without a row are left out, or have NaN: `kind="left"`. A change of a row
        computes its group anew."""
        if kind not in ("inner", "left"):
            raise EverfreshError(Code.ARGUMENT, f"join(kind={kind!r}) is neither 'inner' nor 'left'")
        if isinstance(reference, str) and self._db is not None:
            from everfresh.signals.domain.verbs import reference_table

            mine = next(each.key for each in self.node.walk() if isinstance(each, n.Reading))
            reference = reference_table(self._db, reference, mine if on is None else on)
        elif on is not None and tuple([on] if isinstance(on, str) else on) != reference_key(reference):
            raise EverfreshError(
                Code.ARGUMENT, f"join(on={on!r}) of a reference whose key is {reference_key(reference)}",
                hint="reference(table, key=, value=) says the key",
            )  # fmt: skip
        node = getattr(reference, "node", None)
        if not isinstance(node, n.Reading) or node.timed:
            raise faults.kind("join", "what is no reference table", "reference tables",
                "asof_left(signal) or signal + signal join signals")  # fmt: skip
        return self._with(n.JoinReference(self.node, node, kind))

    def union(self, other: Query) -> Any:
        """The events of both, as a stream."""
        if not isinstance(other, Events):
            raise EverfreshError(Code.ARGUMENT, f"union() is given a {type(other).__name__} and no stream")
        return self._join(n.Union(self.node, other.node), other, "union")

    def _join(self, made: Node, other: Query, what: str) -> Any:
        if not isinstance(other, Query):
            raise EverfreshError(Code.ARGUMENT, f"{what}() is given a {type(other).__name__} and no signal")
        return query(made, self._db)

    def function(
        self: Q, function: Callable[..., Any] | Sequence[Callable[..., Any]], *columns: str,
        choose: str | None = None,
    ) -> Q:  # fmt: skip
        """Values as a function of time and columns, evaluated where the signal is sampled. `f(t, a, b)` is
        given arrays. Of several functions, the value `choose` is the number of each event's own."""
        several = (function,) if callable(function) else tuple(function)
        if len(several) != 1 and choose is None:
            raise EverfreshError(Code.ARGUMENT, "several functions need choose=, a column of their numbers")
        return self._with(n.Function(self.node, tuple(map(n.Fn.of, several)), columns, choose))
