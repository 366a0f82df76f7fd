"""The compiler: bound SQL to maintenance programs, and the catalog of what has been compiled.

lower -> simplify (`passes`) -> delta -> simplify -> `Program`. Each stage is checked against its spec.
"""

from everfresh.compiler.catalog import Catalog, Effect, ViewDef
from everfresh.compiler.compile import CompiledView, compile_view
from everfresh.compiler.explain import explain
from everfresh.compiler.lower import Lowered, lower
from everfresh.compiler.passes import PASSES, simplify
from everfresh.compiler.sharing import readers

__all__ = [
    "PASSES",
    "Catalog",
    "CompiledView",
    "Effect",
    "Lowered",
    "ViewDef",
    "compile_view",
    "explain",
    "lower",
    "readers",
    "simplify",
]
