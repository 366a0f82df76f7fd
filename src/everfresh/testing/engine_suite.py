"""One suite of tests for all engines: subclass `EngineSuite`, say how to connect, and pytest does the rest.

    class TestMyEngine(EngineSuite):
        def connect(self, path=None, **kwargs):
            return everfresh.connect(path, engine="mine", **kwargs)

It covers what `everfresh.program.engine.Engine` asks of an engine and what the user of a `Database` on top
of it may expect. The subjects:

- `suite_api`         batches, reading in every form, changes and the past, listeners, errors
- `suite_inputs`      every kind of rows
- `suite_feeds`       change feeds
- `suite_statements`  SQL that changes or asks
- `suite_changes`     SQL that changes rows by other rows, MERGE, RETURNING
- `suite_definitions` tables made of queries, plain views
- `suite_beside`      queries over DataFrames, registered rows and files
- `suite_values`      types, NULL, groups, exact and float sums
- `suite_aggregates`  aggregates beyond sums, functions of places
- `suite_bad_input`   the table of batches that must be refused whole
- `suite_histories`   random histories of random views, against DuckDB and the reference evaluator
- `suite_language`    joins, subqueries, set operations, windows, views over views
- `suite_time`        ASOF joins and windows in time
- `suite_types`       types beside numbers, text and dates: lists, structs, UUID, time zones, ...
- `suite_functions`   functions in views, with lambdas
- `suite_durability`  reopening, readers, locks, damage
"""

from __future__ import annotations

from everfresh.testing.engine.suite_aggregates import AggregateSuite
from everfresh.testing.engine.suite_api import ApiSuite
from everfresh.testing.engine.suite_bad_input import BadInputSuite
from everfresh.testing.engine.suite_beside import BesideSuite
from everfresh.testing.engine.suite_changes import ChangeSuite
from everfresh.testing.engine.suite_declarations import DeclarationSuite
from everfresh.testing.engine.suite_definitions import DefinitionSuite
from everfresh.testing.engine.suite_durability import DurabilitySuite
from everfresh.testing.engine.suite_feeds import FeedSuite
from everfresh.testing.engine.suite_functions import FunctionSuite
from everfresh.testing.engine.suite_histories import HistorySuite
from everfresh.testing.engine.suite_inputs import InputSuite
from everfresh.testing.engine.suite_language import LanguageSuite
from everfresh.testing.engine.suite_statements import StatementSuite
from everfresh.testing.engine.suite_time import TimeSuite
from everfresh.testing.engine.suite_types import TypeSuite
from everfresh.testing.engine.suite_values import ValueSuite


class EngineSuite(
    ApiSuite,
    InputSuite,
    FeedSuite,
    StatementSuite,
    DeclarationSuite,
    DefinitionSuite,
    ChangeSuite,
    BesideSuite,
    ValueSuite,
    BadInputSuite,
    HistorySuite,
    LanguageSuite,
    TimeSuite,
    TypeSuite,
    AggregateSuite,
    FunctionSuite,
    DurabilitySuite,
):
    """Everything an engine must do."""
