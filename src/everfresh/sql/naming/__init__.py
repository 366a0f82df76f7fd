"""Names of output columns, as DuckDB prints them."""
