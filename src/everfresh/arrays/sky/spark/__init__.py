"""Crossmatches on Spark: the parts of the sphere are partitions, margins are rows that two of them get."""
