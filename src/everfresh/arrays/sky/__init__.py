"""Points on the sphere and crossmatches of catalogs.

sources       tables of points, whatever holds them
sphere        points, and the pairs within a radius
parts         the sphere cut into parts, so that each can be matched by itself
crossmatches  what an astronomer calls
spark         the same on Spark: parts are its partitions
"""
