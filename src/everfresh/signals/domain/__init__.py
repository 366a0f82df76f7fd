"""Signal views as objects of a database.

- `functions`   the functions of users, by names that are there again in the next process
- `relational`  rows of views as relations of SQL: arrays a row for each value, complex numbers two columns
- `bases`       what changed in tables, as events that come and go
- `view`        a view: its pipeline, its rows, and what a step does to them
- `statements`  what an epoch does to views, and how the log keeps it
- `signals`     the domain
- `verbs`       making views, and passing time
- `handle`      what a user holds of a view
"""
