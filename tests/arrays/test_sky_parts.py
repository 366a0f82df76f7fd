"""The sphere in parts: matched one after the other, as tasks do it, they give the crossmatch of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sky_strategies import skies

import everfresh as ef
from everfresh.arrays.sky import parts as cutting
from everfresh.arrays.sky import sphere
from everfresh.arrays.sky.crossmatches import Asked
from everfresh.arrays.sky.parts import Parts, cut
from everfresh.arrays.sky.spark.frames import margin_of
from everfresh.arrays.sky.spark.tasks import Match, Route, match_part, route, survey
from everfresh.arrays.sky.sphere import Sky, brute_force, in_blocks, neighbors

RADII = [0.0, 2 / 3600, 0.5, 5.0, 80.0, 120.0, 180.0]
HOWS = ["inner", "left", "anti", "outer"]


def _parts(a: Sky, b: Sky, target: int, margin: float, dealt: tuple[int, ...]) -> Parts:
    return cut((a, b), (np.ones(len(a)), np.ones(len(b))), target, margin, dealt)


@given(skies(), skies(), st.sampled_from(RADII), st.integers(1, 20), st.sampled_from([(), (0,), (0, 1)]))
def test_what_is_near_is_in_the_same_part(
    a: Sky, b: Sky, radius: float, target: int, dealt: tuple[int, ...]
) -> None:
    parts = _parts(a, b, target, radius, dealt)
    numbers = [np.arange(len(side)) for side in (a, b)]
    at_home, near = parts.homes(a, 0, numbers[0]), parts.near(b, radius, 1, numbers[1])
    for rows, places in (at_home, near):
        assert ((places >= 0) & (places < len(parts))).all()
        assert len(set(zip(rows.tolist(), places.tolist(), strict=True))) == len(rows)
    homes, reached = (set(zip(r.tolist(), p.tolist(), strict=True)) for r, p in (at_home, near))
    assert {row for row, _ in homes} == set(range(len(a)))
    assert set(zip(*map(np.ndarray.tolist, parts.homes(b, 1, numbers[1])), strict=True)) <= reached
    found = brute_force(a, b, radius)
    for i, j in zip(found.left.tolist(), found.right.tolist(), strict=True):
        together = {p for row, p in homes if row == i} & {p for row, p in reached if row == j}
        assert len(together) == 1, "a pair is found once"


@given(skies(), skies(), st.sampled_from(RADII), st.integers(1, 20))
def test_the_compiled_walk_equals_the_plain_one(a: Sky, b: Sky, radius: float, target: int) -> None:
    parts, numbers = _parts(a, b, target, radius, (0,)), np.arange(len(b))
    found = [parts.placed(b, radius, 1, numbers)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_MANY", -1)
        found.append(parts.placed(b, radius, 1, numbers))
    for one, other in zip(*found, strict=True):
        assert one.tolist() == other.tolist()
    at_home = set(zip(*(x[found[0][2]].tolist() for x in found[0][:2]), strict=True))
    assert at_home == set(zip(*map(np.ndarray.tolist, parts.homes(b, 1, numbers)), strict=True))


def _table(sky: Sky, rows: range) -> pa.Table:
    """A side as it is sent to tasks: two columns of the user's, rows and a text."""
    return pa.table(
        {
            "ra": sky.ra,
            "dec": sky.dec,
            "bound0": np.arange(len(sky)) % 7.0,
            "column0": np.array(rows, np.int64),
            "column1": pa.array([f"row {k}" for k in rows], pa.string()),
        }
    )


def _batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=7)


def _by_parts(a: Sky, b: Sky, asked: Asked, target: int, dealt: tuple[int, ...]) -> list[Any]:
    sides = _table(a, range(len(a))), _table(b, range(len(b)))
    margins = [margin_of(asked, k) for k in (0, 1)]
    parts = _parts(a, b, target, max(margins), dealt)
    sent: dict[int, list[pa.RecordBatch]] = {k: [] for k in range(len(parts))}
    outer = asked.how == "outer"
    flags = outer, outer and asked.find == "best"
    for k, table in enumerate(sides):
        for batch in route(Route(parts, k, margins[k], len(asked.limits), *flags), _batches(table)):
            for n, part in enumerate(batch.column(0).to_pylist()):
                sent[part].append(batch.slice(n, 1))
    names = ["separation", "i", "a", "j", "b"]
    kinds = [pa.float64(), pa.int64(), pa.string(), pa.int64(), pa.string()]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    job = Match(asked.radius / 3600, asked.how, asked.find, tuple(asked.bounds), schema, 2)
    found = [row for batches in sent.values() for b in match_part(job, batches) for row in b.to_pylist()]
    for row in found:
        assert row["a"] == (None if row["i"] is None else f"row {row['i']}")
        assert row["b"] == (None if row["j"] is None else f"row {row['j']}")
        assert (row["separation"] is None) == (row["i"] is None or row["j"] is None)
    return sorted((-1 if r["i"] is None else r["i"], -1 if r["j"] is None else r["j"]) for r in found)


@given(
    skies(), skies(), st.sampled_from(RADII), st.sampled_from(HOWS), st.sampled_from(["all", "best"]),
    st.integers(1, 20), st.booleans(),
)  # fmt: skip
def test_parts_give_the_whole(
    a: Sky, b: Sky, radius: float, how: Any, find: Any, target: int, bounded: bool
) -> None:
    limits: dict[Any, Any] = {"t": (-2.0, 3.0)} if bounded else {}
    asked = Asked(radius * 3600, how, find, limits, ("ra", "dec"))
    dealt: tuple[int, ...] = {"outer": (), "inner": (0, 1) if find == "all" else (0,)}.get(how, (0,))
    tables = [{"ra": s.ra, "dec": s.dec, "t": np.arange(len(s)) % 7.0} for s in (a, b)]
    want = ef.arrays.crossmatch(*tables, radius * 3600, how=how, find=find, within=limits)
    rows = [tuple(-1 if r[n] is None else r[n] for n in ("left_row", "right_row")) for r in want.to_pylist()]
    assert _by_parts(a, b, asked, target, dealt) == sorted(rows)


@given(skies(), skies(), st.sampled_from(RADII), st.booleans(), st.integers(1, 50))
def test_blocks_give_the_whole(a: Sky, b: Sky, radius: float, best: bool, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sphere, "_FEW", 0)
        seen: list[int] = []
        pairs = []
        for rows, found in in_blocks(a, b, radius, best=best, most=most):
            seen += rows
            pairs += list(zip(found.left.tolist(), found.right.tolist(), strict=True))
            assert set(found.left.tolist()) <= set(rows)
    assert seen == list(range(len(a)))
    found = neighbors(a, b, radius, best=best)
    assert sorted(pairs) == sorted(zip(found.left.tolist(), found.right.tolist(), strict=True))


def test_parts_are_small_however_crowded_the_sky() -> None:
    rng = np.random.default_rng(5)
    crowd = Sky.of(150 + rng.normal(0, 0.01, 20_000), 2 + rng.normal(0, 0.01, 20_000))
    lone = Sky.of(rng.uniform(0, 360, 2_000), rng.uniform(-90, 90, 2_000))
    margin = 1 / 3600
    parts = _parts(crowd, lone, 1_000, margin, (0,))
    counts = np.zeros(len(parts), np.int64)
    for k, side in enumerate((crowd, lone)):
        counts += np.bincount(parts.near(side, margin, k, np.arange(len(side)))[1], minlength=len(parts))
    assert len(parts) < 64
    assert counts.max() < 1_500
    point = Sky.of(np.full(10_000, 10.0), np.full(10_000, 20.0))  # nothing to cut: the left side is dealt
    parts = _parts(point, lone, 1_000, margin, (0,))
    homes = np.bincount(parts.homes(point, 0, np.arange(10_000))[1], minlength=len(parts))
    assert homes.max() < 1_500


def test_a_survey_stands_for_all_points_and_finds_bad_ones() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"ra": rng.uniform(0, 360, 10_000), "dec": rng.uniform(-90, 90, 10_000)})
    (found,) = survey(1, table.to_batches(max_chunksize=999))
    assert found.num_rows == 4096
    assert sum(found.column(3).to_pylist()) == pytest.approx(10_000)
    assert abs(np.mean(found.column(1).to_numpy()) - 180) < 15
    assert list(survey(1, table.slice(0, 0).to_batches())) == []
    for ra, dec, text in ((1.0, 91.0, "dec = 91.0"), (None, 1.0, "ra = nan"), (1.0, None, "dec = nan")):
        bad = pa.table({"ra": pa.array([0.0, ra]), "dec": pa.array([0.0, dec])})
        (row,) = survey(0, bad.to_batches())
        assert row.column(4).to_pylist() == [text]
