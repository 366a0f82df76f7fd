"""Every map and every derived relation of the in-process engine against its slow twin (`local.twins`).

A wrong map beside a view often stays invisible for several batches: this looks at the state itself. For small
data only: definitions are evaluated by nested loops.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from everfresh.algebra import Gmr, Kind
from everfresh.database import Database
from everfresh.local.batch.recompute import relation
from everfresh.local.state import LocalState
from everfresh.local.store.codec import Codec
from everfresh.local.store.components import wide_to_python
from everfresh.local.store.pool import Values
from everfresh.testing.reference_programs import program_state, relation_rows
from everfresh.types import canonical_float


def check_state(db: Database) -> None:
    """The state of a database of the in-process engine equals its definitions, or AssertionError."""
    check(db._engine._state)  # type: ignore[attr-defined]


def check(state: LocalState, note: str = "") -> None:
    """Every map, every derived relation and every view equals its slow twin; chains equal their pools."""
    known = {n: relation(t.schema, *t.rows()) for n, t in state.tables.items()}
    for name, view in state.catalog.views.items():
        if view.compiled.reevaluated:
            known[name] = gmr(state.maps[name].reader.all())
            continue
        program = view.compiled.program
        maps, derived = program_state(program, known)
        for m in program.maps:
            actual = contents(state._store(m.name))
            expected = dict(maps[m.name].items())
            assert actual.keys() == expected.keys(), (note, m.name, actual, expected)
            for key, weight in expected.items():
                for kind, x, y in zip((Kind.COUNT, *m.kinds), weight, actual[key], strict=True):
                    same = x == y if kind != Kind.FLOAT else abs(float(x) - y) < 1e-9
                    assert same, (note, m.name, key, weight, actual[key])
        for item in program.relations:
            if item.name not in derived:  # it has a row for every key there could be
                continue
            reader, _ = state.wiring.reader(name, item.name)
            assert_like(gmr(reader.all()), derived[item.name], (note, item.name))
        known[name] = relation_rows(view.compiled.view, maps, {m.name: m for m in program.maps})
        assert_like(gmr(state.maps[name].reader.all()), known[name], (note, name))
    for store in [*state.stores().values(), *state.wiring.tables.values()]:
        check_slices(store)


def numbers(layout: Any, values: Values) -> list[list[Any]]:
    """Count and components of entries, exactly."""
    parts: list[list[Any]] = [values.n.tolist()]
    for kind, at in zip(layout.kinds, layout.offsets, strict=True):
        if kind == Kind.FLOAT:
            terms = values.floats[at : at + 3].T.tolist()
            parts.append([float(sum(map(Fraction, term))) for term in terms])
        elif kind == Kind.WIDE:
            parts.append(wide_to_python(values.ints[at], values.ints[at + 1]))
        else:
            parts.append(values.ints[at].tolist())
    return parts


def rows_of(codec: Codec, words: Any) -> list[Any]:
    """Rows in words as tuples."""
    vectors = list(codec.vectors(words).values())
    lists = [
        [canonical_float(x) if isinstance(x, float) else x for x in vector.to_pylist()] for vector in vectors
    ]
    return list(zip(*lists, strict=True)) if lists else [()] * words.shape[1]


def contents(store: Any) -> dict[Any, tuple[Any, ...]]:
    """Entries of a map with exact values."""
    slots = store.pool.live()
    parts = numbers(store.layout, store.pool.gather(slots))
    keys = rows_of(store.codec, store.pool.keys_at(slots))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, zip(*parts, strict=True), strict=True))


def gmr(rows: Any) -> Gmr:
    """A set of rows as the reference evaluator has it."""
    keys = rows_of(rows.codec, rows.words)
    return Gmr((key, (weight,)) for key, weight in zip(keys, rows.weights.tolist(), strict=True))


def assert_like(actual: Gmr, expected: Gmr, note: Any) -> None:
    """Equal, doubles nearly."""

    def rounded(value: Gmr) -> Any:
        return sorted(
            (repr([round(x, 6) + 0.0 if isinstance(x, float) and x == x else x for x in key]), weight)
            for key, weight in value.items()
        )

    assert rounded(actual) == rounded(expected), note


def check_slices(store: Any) -> None:
    """Each slice finds exactly the live entries of its key."""
    live = store.slots()
    for slice_ in [store.slice(names) for names in store._slices]:
        words = store.codec.project(store.words(live), slice_.codec)
        at, slots = slice_.probe(words)
        keys = [column.tobytes() for column in words.T.copy()]
        by_key: dict[bytes, set[int]] = {}
        for key, slot in zip(keys, live.tolist(), strict=True):
            by_key.setdefault(key, set()).add(slot)
        found: dict[int, list[int]] = {}
        for i, slot in zip(at.tolist(), slots.tolist(), strict=True):
            found.setdefault(i, []).append(slot)
        for i, key in enumerate(keys):
            assert sorted(found[i]) == sorted(by_key[key]), slice_.names
