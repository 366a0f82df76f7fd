"""The compiler: bound SQL to maintenance programs, and the catalog of what has been compiled.

lower -> simplify (`passes`) -> delta -> simplify -> `Program`. Each stage is checked against its spec.
"""

from everfresh.compiler.catalog import Catalog
from everfresh.compiler.compile import CompiledView, compile_view, reevaluated
from everfresh.compiler.effect import Effect, ViewDef
from everfresh.compiler.explain import explain
from everfresh.compiler.lowering.lower import Lowered, lower
from everfresh.compiler.lowering.narrow_scans import WIDE
from everfresh.compiler.lowering.top_k import Top, top_of
from everfresh.compiler.passes import PASSES, simplify
from everfresh.compiler.sharing import readers
from everfresh.compiler.viewlet.crossing import Crossing, Ordered, crossing
from everfresh.compiler.viewlet.polynomial import Monomial, polynomial
from everfresh.compiler.viewlet.ranges import MIRRORED, VALUE, Comparison, Range, range_of

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
