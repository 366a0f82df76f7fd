"""Crossmatches that stay fresh: which sources of two tables are the same place on the sky, whatever changes.

index     points of one side, found by place
match     the pairs of two sides, and what a change does to them
domain    crossmatch views in the epochs of a database
handle    making one, and what a user holds of it
"""
