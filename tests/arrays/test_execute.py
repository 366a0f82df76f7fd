"""A plan that is carried out finds what brute force does, and moves and reads what it says."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from array_strategies import cells, shapes
from hypothesis import given
from hypothesis import strategies as st
from mapping_functions import scattered

from everfresh.arrays.cells import Array, array_of
from everfresh.arrays.execute import Batch, Catalog, JoinSpec, prepared
from everfresh.arrays.execute.calibrate import calibrated
from everfresh.arrays.execute.joining import landed_of
from everfresh.arrays.execute.local import Positions, run_local
from everfresh.arrays.execute.route import by_keys
from everfresh.arrays.execute.wire import packed, size_of
from everfresh.arrays.join import brute_force
from everfresh.arrays.mapping import Affine, Mapping, function, identity
from everfresh.arrays.model import ArraySchema, Dimension
from everfresh.arrays.plan import PLACEMENTS, PlanOptions
from everfresh.types import BIGINT, VARCHAR, Column

ALGORITHMS = (
    "bhvc",
    "hvc",
    "hvc-minimal",
    "mbh",
    "opt-vc",
    "struct",
    "struct-once",
    "mr",
    "mr-once",
    "shuffle",
)


def made(name: str, coords: Any, chunk: tuple[int, ...]) -> Array:
    """An array of these cells, each with its number."""
    dims = tuple(Dimension(f"d{k}", -300, 300, c) for k, c in enumerate(chunk))
    schema = ArraySchema(name, dims, (Column("n", BIGINT), Column("s", VARCHAR)))
    count = coords.shape[1]
    words = [None if k % 3 == 0 else "x" * (k % 5) for k in range(count)]
    columns = {f"d{k}": row for k, row in enumerate(coords)}
    return array_of(schema, pa.table({**columns, "n": np.arange(count), "s": pa.array(words, pa.string())}))


def joined(
    left: Array,
    right: Array | None,
    spec: JoinSpec,
    workers: int,
    rule: str,
    options: PlanOptions,
) -> Counter[tuple[int, int]]:
    """The pairs of cell numbers that a plan finds, carried out."""
    a = Catalog.of(left.schema, left.chunks, workers, rule)
    b = None if right is None else Catalog.of(right.schema, right.chunks, workers, rule)
    landed = None if spec.mapping.keeps_order else landed_of(spec, left.chunks)
    plan = prepared(spec, a, b, workers, options, landed)
    found: Counter[tuple[int, int]] = Counter()
    at = left.schema.ndim
    to = len(left.schema.names) + spec.right.ndim

    def join(_: int, batch: Batch) -> None:
        for rows in spec.rows(batch, block=50):
            found.update(zip(rows.column(at).to_pylist(), rows.column(to).to_pylist(), strict=True))

    chunks = None if right is None else right.chunks
    measured = run_local(plan, Positions(a, b), left.chunks, chunks, join)
    measured.check(plan)
    return found


@given(st.data(), st.integers(1, 4), st.integers(1, 8), st.booleans())
def test_joins_equal_brute_force(data: st.DataObject, ndim: int, workers: int, same: bool) -> None:
    """Every algorithm, placement and shape, with and without a budget for what is held."""
    shape = data.draw(shapes(ndim))
    one = data.draw(cells(ndim, 40))
    chunk = tuple(data.draw(st.integers(1, 6)) for _ in range(ndim))
    left = made("a", one, chunk)
    other = one if same else data.draw(cells(ndim, 40))
    right = None if same else made("b", other, tuple(data.draw(st.integers(1, 6)) for _ in range(ndim)))
    options = PlanOptions(
        data.draw(st.sampled_from(ALGORITHMS)),
        budget=data.draw(st.sampled_from([None, 0, 700, 3000])),
        chunk_order=data.draw(st.sampled_from(["curve", "sharing"])),
    )
    spec = JoinSpec(left.schema, left.schema if right is None else right.schema, identity(ndim), shape, same)
    want: Counter[tuple[int, int]] = Counter(
        zip(*(side.tolist() for side in brute_force(one, other, shape)), strict=True)
    )
    rule = data.draw(st.sampled_from(sorted(PLACEMENTS)))
    assert joined(left, right, spec, workers, rule, options) == want


@given(st.data(), st.integers(1, 4), st.booleans())
def test_mappings_equal_brute_force(data: st.DataObject, workers: int, same: bool) -> None:
    """Permutations, subsets, scaling and functions, from two dimensions to one or two."""
    affine = st.tuples(st.integers(0, 1), st.sampled_from([-2, -1, 1, 3]), st.integers(-3, 3))
    outputs = 2 if same else data.draw(st.integers(1, 2))
    mapping: Mapping = Affine(tuple(data.draw(affine) for _ in range(outputs)))
    if outputs == 2 and data.draw(st.booleans()):
        mapping = function(scattered, 2, 2)
    one = data.draw(cells(2, 30))
    other = one if same else data.draw(cells(outputs, 30))
    shape = data.draw(shapes(outputs))
    left = made("a", one, (3, 4))
    right = None if same else made("b", other, (5, 2)[:outputs])
    spec = JoinSpec(left.schema, left.schema if right is None else right.schema, mapping, shape, same)
    want: Counter[tuple[int, int]] = Counter(
        zip(*(side.tolist() for side in brute_force(mapping.cells(one), other, shape)), strict=True)
    )
    options = PlanOptions(data.draw(st.sampled_from(["bhvc", "opt-vc", "struct", "mr"])))
    assert joined(left, right, spec, workers, "round-robin", options) == want


def test_a_budget_bounds_what_is_held() -> None:
    rng = np.random.default_rng(1)
    left = made("a", rng.integers(0, 60, (2, 4000)), (5, 5))
    a = Catalog.of(left.schema, left.chunks, 3)
    from everfresh.arrays.execute.worker import run_worker
    from everfresh.arrays.shape import Linf

    spec = JoinSpec(left.schema, left.schema, identity(2), Linf(1), True)
    budget = int(a.bytes.sum()) // 12
    plan = prepared(spec, a, None, 3, PlanOptions(budget=budget))
    numbers = a.number
    for k in range(3):
        part = plan.worker(k)
        remote = {int(p): left.chunks[int(numbers[p])] for p in part.receive_chunk}
        reads = run_worker(
            part, plan.problem.bytes, budget, lambda p: left.chunks[int(numbers[p])], remote, lambda _: None
        )
        assert reads.count == plan.reads[k] > len(a) // 3  # some are read again
        assert reads.most <= budget + int(a.bytes.max())


@given(st.data())
def test_sizes_do_not_depend_on_how_rows_came(data: st.DataObject) -> None:
    """A chunk that was changed in steps is as large as one that was made at once, packed or measured."""
    rows = data.draw(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, "", "abc"])), min_size=1))
    schema = ArraySchema("a", (Dimension("i", 0, 5, 10),), (Column("s", VARCHAR),))
    steps = Array(schema)
    for row in rows:
        steps = steps.changed(inserts=[row])
    extra = [(0, None), (3, "long" * 9)]
    steps = steps.changed(inserts=extra).changed(deletes=extra)
    once = array_of(schema, rows)
    a, b = steps.chunks[0].table, once.chunks[0].table
    assert size_of(a) == size_of(b) == len(packed(a)) == len(packed(b))


@pytest.mark.parametrize("rule", sorted(PLACEMENTS))
def test_new_chunks_find_a_worker_and_old_ones_stay(rule: str) -> None:
    schema = ArraySchema("a", (Dimension("i", 0, 99, 10), Dimension("j", 0, 99, 10)))
    known, homes = Catalog.empty(schema), dict[int, int]()
    for numbers in ([5, 17, 3], [44, 45, 46, 3], [99, 0]):
        found = known.homes(dict.fromkeys(numbers, 4), 4, rule)
        assert {n: found[n] for n in found if n in homes} == {n: homes[n] for n in found if n in homes}
        homes |= found
        boxes = {n: schema.chunk_box(n) for n in numbers}
        known = known.after([(n, found[n], 1, 24, *boxes[n][0], *boxes[n][0]) for n in numbers])
        assert dict(zip(known.number.tolist(), known.home.tolist(), strict=True)) == homes
        assert set(homes.values()) <= set(range(4))
    assert known.after([(44, 1, 0, 0, 0, 0, 0, 0)]).places(np.array([44, 45])).tolist()[0] == -1


def test_costs_are_calibrated() -> None:
    """Nothing is free, and the model is one that plans take."""
    cost = calibrated(megabytes=2, threads=3)
    assert cost.threads == 3
    for seconds in (cost.t_ntwk, cost.t_disk, cost.t_cpu):
        assert seconds > 0
    assert PlanOptions(cost=cost).cost.makespan(10, 10, 10) > 0


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, 3, -7]),
        pa.array([3, None, 3, -7], pa.int16()),
        pa.array(["x", None, "x", ""]),
        pa.array([0.0, None, -0.0, float("nan")]),
        pa.array([Decimal("1.50"), None, Decimal("1.50"), Decimal("2.00")]),
        pa.array([True, None, True, False]),
    ],
)
def test_a_key_has_one_owner_whatever_is_beside_it(values: pa.Array) -> None:
    """A worker that has NULLs, or one value, says the same of a key as one that has not."""
    together = by_keys(pa.table({"k": values}), 1, 1 << 20).tolist()
    alone = [by_keys(pa.table({"k": values.slice(at, 1)}), 1, 1 << 20).tolist()[0] for at in range(4)]
    assert together == alone
    assert together[0] == together[2]
    assert len(set(together)) == 3
