"""A batch: the programs of a catalog linked to tables and maps, their steps, and the first load of a view."""
