"""The compiler: bound SQL to maintenance programs, and the catalog of what has been compiled.

lower -> simplify (`passes`) -> delta -> simplify -> `Program`. Each stage is checked against its spec.
"""

from everfresh.compiler.catalog import Catalog, Effect, ViewDef
from everfresh.compiler.compile import CompiledView, compile_view, reevaluated
from everfresh.compiler.crossing import Crossing, Ordered, crossing
from everfresh.compiler.explain import explain
from everfresh.compiler.lower import Lowered, lower
from everfresh.compiler.narrow import WIDE
from everfresh.compiler.passes import PASSES, simplify
from everfresh.compiler.polynomial import Monomial, polynomial
from everfresh.compiler.ranges import MIRRORED, VALUE, Comparison, Range, range_of
from everfresh.compiler.sharing import readers
from everfresh.compiler.tops import Top, top_of

__all__ = [
    "MIRRORED",
    "PASSES",
    "VALUE",
    "WIDE",
    "Catalog",
    "Comparison",
    "CompiledView",
    "Crossing",
    "Effect",
    "Lowered",
    "Monomial",
    "Ordered",
    "Range",
    "Top",
    "ViewDef",
    "compile_view",
    "crossing",
    "explain",
    "lower",
    "polynomial",
    "range_of",
    "readers",
    "reevaluated",
    "simplify",
    "top_of",
]
