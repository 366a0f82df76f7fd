"""Binding queries: SELECT clause by clause, set operations, subqueries and windows."""
