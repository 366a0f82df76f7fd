"""Statements run by an interpreter, factor by factor over columns: the slow twin of compiled triggers.

`join_order` says in which order, `interpreter` runs it, `atoms` are what it reads, `weights` what it
multiplies.
"""
