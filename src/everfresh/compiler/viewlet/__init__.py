"""The viewlet transform (sections 2.3, 3.1 and 3.2 of the thesis): deltas of maps, and the maps that make
them cheap.

`materialize` is the transform; `map_registry` knows the maps there are, `decompose` cuts products,
`statements` writes what a trigger adds; the others find maps that serve better: merged, filtered, ordered, or
none at all.
"""
