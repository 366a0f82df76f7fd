"""From a bound plan to the calculus: products of atoms, aggregates, subqueries decorrelated, windows,
top-k.
"""
