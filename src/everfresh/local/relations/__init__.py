"""Relations that are read off maps (views, subqueries, windows, first rows), and the changes that they
publish.
"""
