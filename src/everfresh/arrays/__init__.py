"""Sparse n-dimensional arrays, joins of their cells by shape, and crossmatches of points on the sphere.

>>> import everfresh as ef
>>> found = ef.arrays.crossmatch({"ra": [10.0], "dec": [20.0]}, {"ra": [10.0002], "dec": [20.0]}, 1)
>>> found.column_names, found.num_rows
(['left_row', 'right_row', 'separation'], 1)

    model, chunk, cells, points    schemas, the content of chunks, cells and points from other data
    shape, mapping                 which cells are similar, and where cells of one array lie in another
    join, kernels                  cells that match, by compiled loops
    aql, aql_parser, evaluate      the language of arrays, and what it means
    views, upkeep, matching        views of arrays, plans of their maintenance, crossmatch views
    sky                            catalogs, points on the sphere, and what an astronomer calls
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everfresh.arrays.cells import Array, array_of
    from everfresh.arrays.evaluate import create, query
    from everfresh.arrays.model import ArraySchema, Dimension
    from everfresh.arrays.points import from_points
    from everfresh.arrays.shape import Shape
    from everfresh.arrays.sky.crossmatches import crossmatch

_PLACES = {
    "Array": "cells",
    "ArraySchema": "model",
    "Dimension": "model",
    "Shape": "shape",
    "array_of": "cells",
    "create": "evaluate",
    "crossmatch": "sky.crossmatches",
    "from_points": "points",
    "query": "evaluate",
}
__all__ = [
    "Array",
    "ArraySchema",
    "Dimension",
    "Shape",
    "array_of",
    "create",
    "crossmatch",
    "from_points",
    "query",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"everfresh.arrays.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'everfresh.arrays' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
