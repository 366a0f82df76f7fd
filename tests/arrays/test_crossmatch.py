"""Crossmatches equal an exact great-circle join: seams, poles, windows, every `how`, every kind of table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sky_strategies import skies

import everfresh as ef
from everfresh.arrays.kernels import sphere as kernels
from everfresh.arrays.sky import sphere
from everfresh.arrays.sky.sphere import Sky, brute_force, neighbors
from everfresh.errors import EverfreshError

RADII = [0.0, 2 / 3600, 30 / 3600, 0.5, 5.0, 80.0, 120.0, 180.0]


SPOT = {"ra": [1.0], "dec": [1.0]}


def _set(found: Any) -> set[tuple[int, int]]:
    return set(zip(found.left.tolist(), found.right.tolist(), strict=True))


def _haversine(a: Sky, b: Sky) -> Any:
    """Degrees between all points, by another formula."""
    d1, d2 = np.deg2rad(a.dec)[:, None], np.deg2rad(b.dec)[None, :]
    step = np.deg2rad(b.ra[None, :] - a.ra[:, None])
    h = np.sin((d2 - d1) / 2) ** 2 + np.cos(d1) * np.cos(d2) * np.sin(step / 2) ** 2
    return np.rad2deg(2 * np.arcsin(np.sqrt(np.clip(h, 0, 1))))


@pytest.mark.parametrize("few", [1 << 40, 0], ids=["numpy", "kernel"])
@given(st.data(), st.sampled_from(RADII), st.booleans())
def test_neighbors_equal_brute_force(few: int, data: st.DataObject, radius: float, window: bool) -> None:
    a, b = data.draw(skies()), data.draw(skies())
    bounds = [(-2.0, 0.0)] if window else []
    if not window:
        a, b = Sky(a.ra, a.dec, a.bounded[:0]), Sky(b.ra, b.dec, b.bounded[:0])
    before, sphere._FEW = sphere._FEW, few
    try:
        found, best = neighbors(a, b, radius, bounds), neighbors(a, b, radius, bounds, best=True)
    finally:
        sphere._FEW = before
    want = brute_force(a, b, radius, bounds)
    assert len(found.left) == len(want.left)
    assert _set(found) == _set(want)
    apart = dict(zip(zip(want.left, want.right, strict=True), want.separation, strict=True))
    for i, j, s in zip(found.left, found.right, found.separation, strict=True):
        assert s == apart[i, j]
    nearest = {int(i): min(s for (k, _), s in apart.items() if k == i) for i in set(want.left)}
    assert {int(i): s for i, s in zip(best.left, best.separation, strict=True)} == nearest
    for i, j in _set(best):
        assert j == min(k for (h, k), s in apart.items() if h == i and s == apart[i, j])


@given(skies(), skies(), st.sampled_from(RADII))
def test_brute_force_equals_the_haversine_formula(a: Sky, b: Sky, radius: float) -> None:
    """But for pairs so near to the radius that the formulas round to different sides of it."""
    apart = _haversine(a, b)
    found = brute_force(Sky(a.ra, a.dec, a.bounded[:0]), Sky(b.ra, b.dec, b.bounded[:0]), radius)
    inside = np.zeros(apart.shape, bool)
    inside[found.left, found.right] = True
    slack = 1e-5 if radius > 100 else 1e-9
    assert not (inside & (apart > radius + slack)).any()
    assert not (~inside & (apart < radius - slack)).any()
    near = found.separation < 90 * 3600
    some = apart[found.left, found.right][near]
    assert np.allclose(found.separation[near] / 3600, some, rtol=1e-9, atol=1e-12)


def test_astropy_finds_the_same() -> None:
    from astropy import units
    from astropy.coordinates import SkyCoord, search_around_sky

    rng = np.random.default_rng(5)
    ra, dec = rng.uniform(0, 360, 3000), np.rad2deg(np.arcsin(rng.uniform(-1, 1, 3000)))
    near = rng.integers(0, 3000, 2000)
    there = {"ra": ra[near] + rng.normal(0, 5e-4, 2000), "dec": np.clip(dec[near] + 3e-4, -90, 90)}
    found = ef.arrays.crossmatch({"ra": ra, "dec": dec}, there, 2)
    a = SkyCoord(ra * units.deg, dec * units.deg)
    b = SkyCoord(there["ra"] * units.deg, there["dec"] * units.deg)
    i, j, apart, _ = search_around_sky(a, b, 2 * units.arcsec)
    want = dict(zip(zip(i.tolist(), j.tolist(), strict=True), apart.arcsec.tolist(), strict=True))
    rows = zip(*(found.column(k).to_pylist() for k in range(3)), strict=True)
    got = {(left, right): s for left, right, s in rows}
    assert len(want) > 100
    assert got.keys() == want.keys()
    assert all(got[pair] == pytest.approx(want[pair], abs=1e-8) for pair in want)


def test_the_kernel_gives_the_same_run_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    a = Sky.of(rng.uniform(0, 3, 40), rng.uniform(-1, 1, 40))
    b = Sky.of(rng.uniform(0, 3, 60), rng.uniform(-1, 1, 60))
    monkeypatch.setattr(sphere, "_FEW", 0)
    compiled = [_set(neighbors(a, b, 0.3, best=best)) for best in (False, True)]
    monkeypatch.setattr(type(kernels.candidates), "native", lambda self, *args: self.twin(*args))
    assert [_set(neighbors(a, b, 0.3, best=best)) for best in (False, True)] == compiled


def test_more_pairs_than_points_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sphere, "_FEW", 0)
    a = Sky.of(np.zeros(50), np.zeros(50))
    assert len(neighbors(a, a, 1.0).left) == 2500


LEFT = {"ra": [10.0, 20.0, 30.0], "dec": [0.0, 0.0, 0.0], "mjd": [100.0, 100.0, None], "id": ["a", "b", "c"]}
RIGHT = {
    "ra": [10.0001, 10.0002, 20.0001, 50.0],
    "dec": [0.0, 0.0, 0.0, 0.0],
    "mjd": [80.0, 100.0, 101.0, 0.0],
    "id": ["x", "y", "z", "w"],
}


def _rows(**arguments: Any) -> list[tuple[Any, ...]]:
    found = ef.arrays.crossmatch(LEFT, RIGHT, 2, **arguments)
    return [tuple(row[n] for n in ("left_row", "right_row")) for row in found.to_pylist()]


def test_how() -> None:
    pairs: list[tuple[int | None, int | None]] = [(0, 0), (0, 1), (1, 2)]
    assert _rows() == pairs
    assert _rows(how="left") == [*pairs, (2, None)]
    assert _rows(how="outer") == [*pairs, (2, None), (None, 3)]
    assert _rows(how="anti") == [(2, None)]


def test_best_and_within() -> None:
    assert _rows(find="best") == [(0, 0), (1, 2)]
    assert _rows(within={"mjd": (-30, 0)}) == [(0, 0), (0, 1)]
    assert _rows(within={"mjd": (-10, None)}) == [(0, 1), (1, 2)]
    assert _rows(within={("mjd", "mjd"): (None, -1)}, how="left") == [(0, 0), (1, None), (2, None)]
    assert _rows(find="best", within={"mjd": (-10, 10)}, how="outer") == [
        (0, 1), (1, 2), (2, None), (None, 0), (None, 3),
    ]  # fmt: skip


def test_columns_are_carried_along() -> None:
    found = ef.arrays.crossmatch(
        LEFT, RIGHT, 2, how="outer", left_columns=["id"], right_columns=["id", "mjd"]
    )
    assert found.column_names == ["left_row", "right_row", "separation", "id_left", "id_right", "mjd"]
    assert found.column("id_left").to_pylist() == ["a", "a", "b", "c", None]
    assert found.column("id_right").to_pylist() == ["x", "y", "z", None, "w"]
    assert found.column("separation").to_pylist()[3:] == [None, None]
    assert found.schema.field("separation").type == pa.float64()


def _astropy(columns: dict[str, Any]) -> Any:
    from astropy.table import MaskedColumn, Table

    made = Table({n: v for n, v in columns.items() if n != "mjd"})
    made["mjd"] = MaskedColumn([v or 0.0 for v in columns["mjd"]], mask=[v is None for v in columns["mjd"]])
    return made


def _quantities(columns: dict[str, Any]) -> Any:
    from astropy import units
    from astropy.table import QTable

    made = QTable(_astropy(columns))
    made["ra"], made["dec"] = np.array(columns["ra"]) * 60 * units.arcmin, columns["dec"] * units.deg
    return made


KINDS = {
    "arrow": pa.table,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "astropy": _astropy,
    "quantities": _quantities,
    "arrays": lambda columns: {n: np.array(v) if n != "mjd" else pa.array(v) for n, v in columns.items()},
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_tables_give_the_same(kind: str) -> None:
    arguments: dict[str, Any] = {"within": {"mjd": (-30, 1)}, "how": "left", "right_columns": ["id"]}
    want = ef.arrays.crossmatch(LEFT, RIGHT, 2, **arguments)
    found = ef.arrays.crossmatch(KINDS[kind](LEFT), KINDS[kind](RIGHT), 2, **arguments)
    assert found.drop("separation").to_pylist() == want.drop("separation").to_pylist()


def test_files_folders_and_hats_catalogs(tmp_path: Path) -> None:
    whole = pa.table(RIGHT)
    pq.write_table(whole, tmp_path / "right.parquet")
    folder = tmp_path / "parts"
    catalog = tmp_path / "catalog"
    for k in range(2):
        inside = catalog / "dataset" / "Norder=1" / "Dir=0"
        for place in (folder / f"{k}.parquet", inside / f"Npix={k}.parquet"):
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(whole.slice(2 * k, 2), place)
    pq.write_table(whole.slice(0, 0), catalog / "dataset" / "_metadata.parquet")
    want = ef.arrays.crossmatch(LEFT, RIGHT, 2, right_columns=["id"])
    for path in (tmp_path / "right.parquet", folder, str(catalog)):
        assert ef.arrays.crossmatch(LEFT, path, 2, right_columns=["id"]) == want


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"dec": [0.0, 90.5, 0.0]}, {}, r"dec = 90.5 is no place.*left, row 1"),
        ({"ra": [0.0, float("nan"), 0.0]}, {}, r"ra = nan is no place.*left, row 1"),
        ({"dec": [0.0, None, 0.0]}, {}, r"dec = nan is no place"),
        ({"ra": ["x", "y", "z"]}, {}, "is string, not numbers"),
        ({}, {"ra": "raj"}, r"no column 'raj' \(left\)"),
        ({}, {"left_columns": ["nothing"]}, "no column 'nothing'"),
        ({}, {"how": "cross"}, "'cross' is not known"),
        ({}, {"find": "some"}, "'some' is not known"),
        ({}, {"radius_arcsec": -1}, "is none on the sphere"),
        ({}, {"radius_arcsec": float("nan")}, "is none on the sphere"),
        ({}, {"within": {"mjd": (1, 0)}}, "bounds nothing"),
        ({}, {"within": {"mjd": 5}}, "bounds nothing"),
    ],
)
def test_bad_input_is_refused(change: Any, arguments: Any, message: str) -> None:
    with pytest.raises(EverfreshError, match=message):
        ef.arrays.crossmatch({**LEFT, **change}, RIGHT, **{"radius_arcsec": 2, **arguments})


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"nothing")
    for data, message in (
        (5, "is not a table of points"),
        (tmp_path / "none", "no file or folder"),
        (tmp_path / "broken.parquet", "cannot be read as Parquet"),
        ({"ra": [1.0], "dec": [1.0, 2.0]}, "differ in length"),
    ):
        with pytest.raises(EverfreshError, match=message):
            ef.arrays.crossmatch(data, RIGHT, 2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(EverfreshError, match="no Parquet file"):
        ef.arrays.crossmatch(tmp_path / "empty", RIGHT, 2)


def test_windows_on_whole_numbers_of_over_53_bits_are_exact() -> None:
    night = 1_700_000_000_000_000_001  # nanoseconds
    one, other = (
        {**SPOT, "t": [night]},
        {"ra": [1.0] * 3, "dec": [1.0] * 3, "t": [night + k for k in (-1, 0, 5)]},
    )
    found = ef.arrays.crossmatch(one, other, 2, within={"t": (0, 4)})
    assert found.column("right_row").to_pylist() == [1]
    least = {**SPOT, "t": [-(1 << 63)]}
    assert ef.arrays.crossmatch(least, other, 2, within={"t": (0, None)}).num_rows == 3


def test_more_kinds_of_tables_and_radii() -> None:
    import astropy.units as u
    import polars as pl

    assert ef.arrays.crossmatch(pl.DataFrame(SPOT).lazy(), SPOT, np.float32(2)).num_rows == 1
    assert ef.arrays.crossmatch(SPOT, SPOT, 0.001 * u.deg).num_rows == 1
    assert ef.arrays.crossmatch({"ra": [], "dec": []}, SPOT, 2, how="outer").column(
        "right_row"
    ).to_pylist() == [0]


def test_columns_that_cannot_be_told_or_read_are_refused() -> None:
    from astropy.table import Table

    twice = pa.Table.from_arrays([pa.array([1.0])] * 3, ["ra", "ra", "dec"])
    with pytest.raises(EverfreshError, match="several columns 'ra'"):
        ef.arrays.crossmatch(twice, SPOT, 2)
    named = Table({**SPOT, "name": np.array([b"\xff\xfe"])})
    with pytest.raises(EverfreshError, match="column 'name' is no text"):
        ef.arrays.crossmatch(named, SPOT, 2, left_columns=["name"])


def test_empty_catalogs_match_nothing() -> None:
    none = pa.table({"ra": pa.array([], pa.float64()), "dec": pa.array([], pa.float64())})
    assert ef.arrays.crossmatch(none, RIGHT, 2).num_rows == 0
    assert ef.arrays.crossmatch(LEFT, none, 2, how="outer").column("left_row").to_pylist() == [0, 1, 2]


def test_a_small_match_loads_no_compiler() -> None:
    """What makes the first call in a process quick."""
    code = (
        "import sys, everfresh as ef, numpy as np\n"
        "assert 'everfresh.arrays' not in sys.modules\n"
        "sky = {'ra': np.linspace(0, 1, 1000), 'dec': np.zeros(1000)}\n"
        "assert ef.arrays.crossmatch(sky, sky, 2).num_rows == 1000\n"
        "assert not {'numba', 'scipy', 'astropy', 'pandas', 'sqlglot', 'pyspark'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
