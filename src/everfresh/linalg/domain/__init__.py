"""Matrices as objects of a database: their steps in epochs, their sections in logs and snapshots."""
