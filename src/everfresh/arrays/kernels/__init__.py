"""The compiled loops of arrays: cells that match by a shape, points that match on the sphere."""
