"""The cache of external arrays: what stays in memory after a query, and with whom."""
