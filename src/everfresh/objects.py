"""Objects of a database beside tables and SQL views: their domains, and how a user makes and holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from everfresh.epochs import Domain
from everfresh.epochs.lazy import Lazy
from everfresh.errors import Code, EverfreshError
from everfresh.options import Options
from everfresh.program import Engine

if TYPE_CHECKING:
    from everfresh.arrays.handle import StoredArray
    from everfresh.arrays.sky.crossmatches import Within
    from everfresh.arrays.views.handle import ArrayView
    from everfresh.database import Database
    from everfresh.linalg import Columns, ViewOptions
    from everfresh.linalg.domain.handles import LinearView, Matrix
    from everfresh.linalg.run.setup import Definition
    from everfresh.raw.handles import Cache
    from everfresh.signals.aggregate import PayloadType
    from everfresh.signals.queries.base import Ticks


def domains_of(options: Options) -> tuple[Domain, ...]:
    """The domains of every database, beside tables and SQL views."""
    matrices = Lazy(
        "matrix", "everfresh.linalg.domain.matrices:made", "everfresh.linalg.run.updates", options.history
    )
    arrays = Lazy("array", "everfresh.arrays.views.domain:made", "", options.history)
    crossmatches = Lazy("crossmatch", "everfresh.arrays.matching.domain:made", "", options.history)
    raw = Lazy("raw", "everfresh.raw.domain:made", "", options.history)
    statements = "everfresh.signals.domain.statements"
    signals = Lazy("signal", "everfresh.signals.domain.signals:made", statements, options.history)
    return (matrices, arrays, crossmatches, raw, signals)


class ObjectMethods:
    """The methods of `Database` that are about objects of other domains than tables."""

    _engine: Engine

    def _current(self) -> None:
        raise NotImplementedError

    def _domain(self, name: str) -> Any:
        raise NotImplementedError

    @property
    def _database(self) -> Database:
        """The database that these are the methods of."""
        return cast("Database", self)

    def array(self, name: str) -> StoredArray:
        """The array called `name`: made by `CREATE ARRAY`, changed by `db.apply`.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.sql("CREATE ARRAY a <v: INT> [i=1,8,2; j=1,8,2]")
        ...     _ = db.apply(a=[(1, 1, 10), (1, 2, 20), (8, 8, 30)])
        ...     db.array("a").to_pylist()[0], len(db.array("a"))
        ({'i': 1, 'j': 1, 'v': 10}, 3)
        """
        self._current()
        found = self._engine.objects.find(name)
        if found is None or not found.kind.endswith("array"):
            there = [one.name for one in self._engine.objects if one.kind.endswith("array")]
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no array '{name}'",
                hint=f"arrays are: {', '.join(there) or 'none yet'}",
            )
        array: StoredArray = self._domain(found.domain).hold(self, found.name)
        return array

    @property
    def arrays(self) -> Mapping[str, StoredArray]:
        """All arrays by name."""
        return {**self._held("array"), **self._held("external array")}

    @property
    def cache(self) -> Cache:
        """The cache of external arrays: how much it holds, what is in it, what the last query read.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     db.cache.configure(workers=2, budget=1_000_000)
        ...     db.cache
        <cache of external arrays: 0 pieces, 0 of 2000000 bytes>
        """
        from everfresh.raw.handles import Cache
        from everfresh.raw.verbs import domain_of

        self._current()
        return Cache(domain_of(self._database))

    @property
    def array_views(self) -> Mapping[str, ArrayView]:
        """All views of arrays by name."""
        return self._held("array view")

    def create_crossmatch_view(
        self,
        name: str,
        left: str,
        right: str,
        radius_arcsec: float = 1.0,
        *,
        how: str = "inner",
        find: str = "all",
        within: Within | None = None,
        ra: str | tuple[str, str] = "ra",
        dec: str | tuple[str, str] = "dec",
        left_columns: Sequence[str] | None = None,
        right_columns: Sequence[str] | None = None,
    ) -> int:
        """Keep the crossmatch of two tables or SQL views up to date: pairs come and go as rows do; returns
        the epoch.

        The arguments are those of `everfresh.arrays.crossmatch`; `how="best"` is short for the pairs with the
        nearest. Shown are the primary keys, or all columns where there is none, or those that are named, and
        `separation` in arcseconds.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.sql("CREATE TABLE stars (star BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE)")
        ...     _ = db.sql("CREATE TABLE seen (det BIGINT PRIMARY KEY, ra DOUBLE, dec DOUBLE)")
        ...     _ = db.apply(stars=[(1, 10.0, 20.0)], seen=[(7, 10.0002, 20.0)])
        ...     _ = db.create_crossmatch_view("near", "stars", "seen", 2)
        ...     _ = db.apply(seen=[(8, 10.0, 20.0001)])
        ...     [(row["star"], row["det"]) for row in db.view("near").to_pylist()]
        [(1, 8), (1, 7)]
        """
        from everfresh.arrays.matching.handle import create_crossmatch_view

        shown = (left_columns, right_columns)
        return create_crossmatch_view(
            self._database, name, left, right, radius_arcsec, how, find, within, ra, dec, shown
        )

    def create_matrix(self, name: str, array: Any, static: bool = False) -> int:
        """Keep a matrix; one that is `static` never changes, and views of it have no triggers for it.

        The array is copied: a NumPy array, a nested list, or a PyTorch tensor, which stays on its device.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.create_matrix("A", [[1.0, 2.0], [0.0, 1.0]])
        ...     _ = db.create_matrix_view("square", "B := A A;")
        ...     _ = db.apply(A=ef.linalg.EntryUpdate(0, 1, 3.0))
        ...     db.view("square").to_numpy()
        array([[1., 6.],
               [0., 1.]])
        """
        from everfresh.linalg.domain.verbs import create_matrix

        return create_matrix(self._database, name, array, static)

    def create_matrix_view(
        self,
        name: str,
        program: Definition | Callable[..., Any],
        *,
        inputs: Mapping[str, str | Columns] | None = None,
        strategy: str = "auto",
        model: str = "auto",
        ranks: Mapping[str, int] | int = 1,
        options: ViewOptions | None = None,
    ) -> int:
        """Keep the results of a program over matrices; returns the epoch.

        `program` is a function under `everfresh.linalg.program`, a text such as `B := A A;`, or an analytic
        such as `everfresh.linalg.Ridge(0.1)`. Its inputs are the matrices of these names, or those that
        `inputs` names; one may also be columns of a table or SQL view (`everfresh.linalg.columns`), which it
        then follows. `strategy`, `model` and `ranks` (of a usual update) are as for
        `everfresh.linalg.compile`.
        """
        from everfresh.linalg.domain.verbs import create_matrix_view

        how = {
            "strategy": strategy,
            "model": model,
            "ranks": ranks if isinstance(ranks, int) else dict(ranks),
        }
        return create_matrix_view(self._database, name, program, inputs, how, options)

    def matrix(self, name: str) -> Matrix:
        """The matrix called `name`."""
        self._current()
        found: Matrix | None = self._held("matrix").get(name)
        if found is None:
            self._domain("matrix").store.expect_matrix(name)
        assert found is not None
        return found

    @property
    def matrices(self) -> Mapping[str, Matrix]:
        """All matrices by name."""
        return self._held("matrix")

    @property
    def matrix_views(self) -> Mapping[str, LinearView]:
        """All matrix views by name."""
        return self._held("matrix view")

    def signal(
        self,
        table: str,
        *,
        time: str | None = None,
        key: str | Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        end: str | None = None,
        duration: Ticks | None = None,
        where: str | None = None,
        lateness: Ticks = 0,
        late: str = "refuse",
        deletes: str = "revise",
        order: str = "table",
        idle: Ticks | None = None,
        nan: str = "keep",
        retain: Ticks | None = None,
        overlap: bool = False,
        type: PayloadType | None = None,
    ) -> Any:
        """Rows of a table or view as a signal, or with `overlap=True` as a stream: where queries over signals
        begin. `time`, `key` and `value` are its columns; see `everfresh.signals.reading` for the rest. Of a
        signal view nothing but its name is given.

        >>> import everfresh as ef
        >>> with ef.connect(engine="local") as db:
        ...     _ = db.sql("CREATE TABLE readings (sensor INT, time BIGINT, value DOUBLE)")
        ...     sums = db.signal("readings", time="time", key="sensor").as_uniform(10).sum(2, 1)
        ...     _ = sums.create_view("sums")
        ...     _ = db.apply(readings=[(1, 0, 1.0), (1, 10, 2.0), (1, 20, 4.0)])
        ...     db.view("sums").to_pylist()
        [{'sensor': 1, 'time': 10, 'value': 3.0}, {'sensor': 1, 'time': 20, 'value': 6.0}]
        """
        from everfresh.signals.domain.verbs import signal

        return signal(
            self._database, table, time=time, key=key, value=value, end=end, duration=duration, where=where,
            lateness=lateness, late=late, deletes=deletes, order=order, idle=idle, nan=nan, retain=retain,
            overlap=overlap, type=type,
        )  # fmt: skip

    def reference(self, table: str, *, key: str | Sequence[str], value: str | Sequence[str]) -> Any:
        """Rows of a table or SQL view, one for each group, that `join` puts beside the events of a signal."""
        from everfresh.signals.domain.verbs import reference

        return reference(self._database, table, key, value)

    def advance(self, table: str, time: Any) -> int:
        """Say that a table has reached a time, in an epoch of its own: no event before it comes any more.
        None is the end of data."""
        from everfresh.signals.domain.verbs import advance

        return advance(self._database, table, time)

    def _held(self, kind: str) -> dict[str, Any]:
        """What a user holds of all objects of a kind."""
        self._current()
        return {
            found.name: self._domain(found.domain).hold(self, found.name)
            for found in self._engine.objects
            if found.kind == kind
        }
