"""Views of arrays: queries over similarity joins and what operators make of them, kept up to date.

CREATE ARRAY VIEW v AS SELECT COUNT(*) AS n FROM a AS x SIMILARITY JOIN a AS y
    ON (y.i = x.i AND y.j = x.j) WITH SHAPE L1(1) GROUP BY x.i, x.j

definition            what a view is: sources, joins, groups, aggregates
tuples, joins         the cells near a change, and the pairs that it makes and ends
slots, cells, groups  what is kept of a group; chunks of groups, and how a change makes the next ones
stages                a view as a chain of stages: joins, and operators behind them
domain, handle        views in the epochs of a database, and what a user holds
"""
