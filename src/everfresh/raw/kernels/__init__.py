"""The compiled loop of raw arrays: where the cells of a batch lie beside the sides of a query."""
