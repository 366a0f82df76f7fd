"""The cache, told: as text, as JSON, and as a picture."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everfresh.errors import Code, EverfreshError

if TYPE_CHECKING:
    from everfresh.raw.cache.coordinator import Coordinator

_MOST = 20
"""Files that are listed as text."""


def explained(cache: Coordinator, format: str = "text") -> str:
    """What is in the cache, and what the last query did."""
    told = _told(cache)
    if format == "json":
        return json.dumps(told, indent=1)
    if format != "text":
        raise EverfreshError(Code.ARGUMENT, f"there is no format '{format}'", hint="text, json")
    lines = [
        f"policy {told['policy']}, placement {told['placement']}; "
        + ", ".join(f"worker {k}: {used} of {told['budget']} bytes" for k, used in enumerate(told["used"]))
    ]
    for array in told["arrays"]:
        lines.append(f"{array['name']}: {len(array['files'])} files")
        for file in array["files"][:_MOST]:
            pieces = file["pieces"]
            kept = [p for p in pieces if p["workers"]]
            lines.append(
                f"  {file['path']} (worker {file['owner']}): {len(pieces)} boxes, {len(kept)} in memory"
            )
            for piece in pieces[:_MOST]:
                where = ", ".join(f"{w['cells']} cells at worker {w['worker']}" for w in piece["workers"])
                lines.append(f"    {piece['box']}, {piece['cells']} cells: {where or 'on disk'}")
            if len(pieces) > _MOST:
                lines.append(f"    and {len(pieces) - _MOST} more")
        if len(array["files"]) > _MOST:
            lines.append(f"  and {len(array['files']) - _MOST} more")
    last = told["last"]
    if last is not None:
        lines.append(f"query {last['query']}: {'; '.join(last['asked'])}")
        lines.append(
            f"  {last['hits']} pieces from memory, {last['misses']} from {len(last['files_read'])} files "
            f"({last['bytes_read']} bytes read), {last['cut']} cut, "
            f"{last['bytes_moved']} bytes moved by joins"
        )
        for number, why in last["evicted"][:_MOST]:
            lines.append(f"  piece {number} is not kept: {why}")
        lines += [f"  left out, as it cannot be read: {path}" for path in last["skipped"]]
    return "\n".join(lines)


def _told(cache: Coordinator) -> dict[str, Any]:
    with cache.lock:
        arrays = []
        for name, catalog in cache.catalogs.items():
            by_file: dict[str, list[Any]] = {path: [] for path in catalog.files}
            for piece in catalog.pieces.values():
                parts = [{"worker": p.worker, "cells": p.cells} for p in cache.memory.parts(piece.number)]
                by_file[piece.file].append(
                    {"piece": piece.number, "box": str(piece.box), "cells": piece.cells, "workers": parts}
                )
            files = [
                {"path": path, "bytes": f.found.size, "owner": f.owner, "pieces": by_file[path]}
                for path, f in catalog.files.items()
            ]
            arrays.append({"name": name, "files": files})
        return {
            "policy": cache.options.policy,
            "placement": cache.options.placement,
            "budget": cache.options.budget,
            "used": cache.memory.used(),
            "arrays": arrays,
            "last": asdict(cache.last) if cache.last is not None else None,
        }


_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#eeaa00")
_WIDE, _HIGH, _EDGE = 640, 400, 30


def picture(
    cache: Coordinator, array: str | None, dimensions: Sequence[str] = (), path: str | Path | None = None
) -> str:
    """The boxes of an array's files over two of its dimensions, as SVG."""
    with cache.lock:
        names = list(cache.catalogs)
        name = next((n for n in names if array is None or n.lower() == array.lower()), None)
        if name is None:
            raise EverfreshError(
                Code.NOT_FOUND, f"there is no external array '{array}'", hint=f"there are: {', '.join(names)}"
            )
        schema = cache.readers[name].schema
        chosen = [schema.position(d) for d in dimensions] or list(range(min(2, schema.ndim)))
        pieces = list(cache.catalogs[name].pieces.values())
        workers = {piece.number: cache.memory.workers(piece.number) for piece in pieces}
    text = _svg(name, [schema.dimension_names[k] for k in chosen], chosen, pieces, workers)
    if path is not None:
        try:
            Path(path).write_text(text)
        except OSError as error:
            raise EverfreshError(
                Code.ENVIRONMENT, f"the picture cannot be written: {error.strerror}", place=str(path)
            ) from error
    return text


def _svg(name: str, names: Sequence[str], chosen: Sequence[int], pieces: Sequence[Any], workers: Any) -> str:
    spans = [
        (min((p.box.lo[k] for p in pieces), default=0), max((p.box.hi[k] for p in pieces), default=0) + 1)
        for k in chosen
    ]
    x, wide = _scaled(spans[0], _WIDE)
    y, high = _scaled(spans[1] if len(spans) > 1 else (0, 1), _HIGH)
    marks = []
    for piece in pieces:
        left, across = x(piece.box.lo[chosen[0]]), wide(piece.box.hi[chosen[0]] - piece.box.lo[chosen[0]] + 1)
        k = chosen[1] if len(chosen) > 1 else None
        top = y(piece.box.lo[k]) if k is not None else _EDGE
        down = high(piece.box.hi[k] - piece.box.lo[k] + 1) if k is not None else _HIGH
        here = workers[piece.number]
        fill = _COLOURS[here[0] % len(_COLOURS)] if here else "none"
        title = html.escape(f"{piece.file}: {piece.box}, {piece.cells} cells")
        marks.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(across, 1):.1f}" height="{max(down, 1):.1f}" '
            f'fill="{fill}" fill-opacity="0.5" stroke="#333" stroke-width="0.6"><title>{title}</title></rect>'
        )
    keys = sorted({here[0] for here in workers.values() if here})
    legend = "".join(
        f'<text x="{_EDGE + 90 * k}" y="{_HIGH + 2 * _EDGE + 4}" fill="{_COLOURS[w % len(_COLOURS)]}">'
        f"worker {w}</text>"
        for k, w in enumerate(keys)
    )
    title = html.escape(f"{name}: boxes over {' and '.join(names)}; those in memory are filled")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE + 2 * _EDGE}" height="{_HIGH + 3 * _EDGE}" '
        f'font-family="sans-serif" font-size="12"><text x="{_EDGE}" y="18">{title}</text>'
        + "".join(marks)
        + legend
        + "</svg>"
    )


def _scaled(span: tuple[int, int], size: int) -> tuple[Any, Any]:
    """From an index to a place, and from a number of indices to a length."""
    factor = size / max(1, span[1] - span[0])
    return (lambda v: _EDGE + (v - span[0]) * factor), (lambda n: n * factor)
