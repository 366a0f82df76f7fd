"""Running a query over batches: groups and their slots, state, sources, the steps of a pipeline."""
