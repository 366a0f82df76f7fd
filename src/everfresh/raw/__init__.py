"""Raw arrays: files of CSV, FITS, HDF5, Parquet and Zarr, queried where they lie through a cache.

definition, cells, files       which files an array has, and what of their columns its cells are
boxes, chunking, catalog       where cells are: boxes of files, which queries make finer
scan, looking, verifying       reading files
bounds, needs                  which boxes a query needs
eviction, placement, joining   what stays in memory, and at which worker
coordinator, memory            queries, one after the other
domain, verbs, handles         external arrays in a database
"""
