"""Making matrices and matrix views in a database: what `Database.create_matrix` and its like do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError
from everfresh.linalg.domain.columns import Columns, Followed
from everfresh.linalg.domain.handles import check_name
from everfresh.linalg.domain.steps import CreateMatrix, CreateView
from everfresh.linalg.domain.store import MatrixStore, device_of
from everfresh.linalg.lang.nodes import Matrix as Symbol
from everfresh.linalg.lang.trace import TracedProgram
from everfresh.linalg.run.setup import Definition, ViewOptions

if TYPE_CHECKING:
    from everfresh.database import Database

DOMAIN = "matrix"


def create_matrix(db: Database, name: str, array: Any, static: bool) -> int:
    """Keep a matrix."""
    with db._lock:
        check_name(name)
        db._check_free(name)
        Symbol(name, 1, 1)  # refuses what cannot be a name
        return db._define(DOMAIN, CreateMatrix(name, array, static, device_of(array)))


def create_matrix_view(
    db: Database,
    name: str,
    program: Definition | Callable[..., Any],
    inputs: Mapping[str, str | Columns] | None,
    how: Mapping[str, Any],
    options: ViewOptions | None,
) -> int:
    """Keep the results of a program; matrices that follow relations are made with it."""
    with db._lock:
        check_name(name)
        db._check_free(name)
        store: MatrixStore = db._domain(DOMAIN).store
        made = [_following(db, name, i, one) for i, one in (inputs or {}).items() if isinstance(one, Columns)]
        named = {i: f"{name}.{i}" if isinstance(one, Columns) else one for i, one in (inputs or {}).items()}
        if callable(program) and not hasattr(program, "bind"):
            program = TracedProgram(program)
        definition: Any = program
        text, bound = store.definition(definition, named, {m.name: m.array.shape for m in made})
        how = {**how, **asdict(options or ViewOptions())}
        used = [m for m in made if m.name in bound.values()]
        return db._define(DOMAIN, *used, CreateView(name, text, bound, how))


def _following(db: Database, view: str, name: str, source: Columns) -> CreateMatrix:
    """The matrix of an input that follows columns of a table or view, as it is now."""
    with db._reading() as engine:
        found = engine.catalog.relation(source.relation)
        if found is None:
            raise EverfreshError(
                Code.NOT_FOUND,
                f"there is no table or view '{source.relation}'",
                place=f"input '{name}' of '{view}'",
                hint="columns() takes the name of a table or of a SQL view",
            )
        real = engine.catalog.resolve(source.relation)
        source = Columns(real, source.index, source.values, source.null)
        linked, array = Followed.begin(source, engine.read(real))
        return CreateMatrix(f"{view}.{name}", array, source=source, keys=linked.key_table())
