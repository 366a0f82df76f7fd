"""Pictures of signals and spectra: well-formed, of a bounded size, with what is in the rows."""

from __future__ import annotations

import xml.etree.ElementTree as xml
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import everfresh as ef
from everfresh import signals as s
from everfresh.testing.engine.suite_base import refused

SVG = "{http://www.w3.org/2000/svg}"
T = np.arange(0, 4096)
ROWS = pa.table(
    {
        "k": np.concatenate([np.full(len(T), 1), np.full(len(T), 2)]),
        "t": np.concatenate([T, T]),
        "value": np.concatenate([np.sin(2 * np.pi * T / 16), np.where(T == 7, np.nan, 2.0)]),
    }
)
GRID = s.reading("a", time="t", key="k").as_uniform(1)


def drawn(text: str) -> Any:
    assert len(text) < 3_000_000
    return xml.fromstring(text)


def test_a_line_for_each_key_broken_where_beats_miss() -> None:
    found = drawn(GRID.svg(ROWS))
    lines = [path for path in found.iter(f"{SVG}path") if path.get("stroke") != "#333"]
    assert len(lines) == 2
    assert all(len(line.get("d").split("L")) <= 2001 for line in lines)
    words = [text.text for text in found.iter(f"{SVG}text")]
    assert {"1", "2", "0", "4095", "-1", "t"} <= set(words)
    few = pa.table({"k": [1] * 4, "t": [0, 1, 5, 6], "value": [0.0, 1.0, 2.0, 3.0]})
    path = [p.get("d") for p in drawn(GRID.svg(few)).iter(f"{SVG}path")][1]
    assert path.count("M") == 2
    assert path.startswith("M70.0,260.0")
    assert "no rows" in GRID.svg(ROWS.slice(0, 0))


def test_a_spectrogram_is_dark_at_its_frequency() -> None:
    spectra = GRID.window(64, 32).fft()
    found = drawn(spectra.svg(ROWS, where={"k": 1}))
    cells = [rect for rect in found.iter(f"{SVG}rect") if rect.get("fill-opacity")]
    tall = (300 - 40 - 20) / 32
    dark = {round((260 - float(c.get("y"))) / tall) - 1 for c in cells if float(c.get("fill-opacity")) > 0.9}
    assert dark == {4}  # 64 / 16 cycles in a window
    rows = spectra.spectrum(ROWS.slice(0, len(T)))
    top = max(rows.to_pylist(), key=lambda row: row["value"] if row["frequency"] > 0 else 0.0)
    assert top["frequency"] == 1 / 16
    assert drawn(GRID.window(300, 300).map(abs).svg(ROWS, where={"k": 1})) is not None
    with refused(ef.Code.ARGUMENT, "spectrogram is of one group"):
        spectra.svg(ROWS)
    with refused(ef.Code.SIG_KIND, "spectrum"):
        GRID.spectrum(ROWS)


@pytest.mark.parametrize("name", ["line", "spectra", "complex"])
def test_views_and_queries_of_a_database_draw_the_same(name: str) -> None:
    with ef.connect(engine="local") as db:
        db.sql("CREATE TABLE a (k BIGINT, t BIGINT, value DOUBLE)")
        db.apply(a=ROWS.slice(0, 600))
        grid = db.signal("a", time="t", key="k").as_uniform(1)
        query = {"line": grid, "spectra": grid.window(32, 16).fft(), "complex": grid.scale(1j)}[name]
        query.create_view(name)
        assert db.view(name).svg() == query.svg()
        drawn(query.svg(where={"k": 1}))
