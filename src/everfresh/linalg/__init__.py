"""Matrix views: LINVIEW, linear algebra programs maintained by factored deltas (chapter 6 of the thesis).

A program over matrices is compiled into triggers; an update of an input arrives as thin factors `U V'`, and
so do the changes of everything that depends on it. The layers, from the text to a running view:

    nodes, text, source, trace      what a program is, in Python and as text
    models, flatten, simplify       iterations unrolled, one operation per statement
    delta, woodbury, factor         the change of a statement, in factored form
    blocks, trigger, spec, listing  Algorithm 6.3: the program IR, its checks and its text
    cost, plan                      what it costs, and which model and strategy to take
    schedule, pending, execute      running triggers on NumPy or PyTorch
    updates, dims, resolve, drift   updates of all kinds, growing matrices, accuracy
    runtime, analytics              `MatrixView`, and views that are ready to use
"""

from everfresh.linalg.analytics import (
    GradientDescent,
    LinearRegression,
    MatrixPower,
    PageRank,
    Reachability,
    Ridge,
)
from everfresh.linalg.compiler.plan import MatrixProgram, compile
from everfresh.linalg.domain.columns import Columns, columns
from everfresh.linalg.lang.source import Source, parse
from everfresh.linalg.lang.trace import TracedProgram, eye, inv, iterate, power, program, sum_of_powers, zeros
from everfresh.linalg.run.setup import Applied, ViewOptions
from everfresh.linalg.run.updates import AppendRows, ColumnUpdate, DeleteRows, EntryUpdate, LowRank, RowUpdate
from everfresh.linalg.run.view import MatrixView

__all__ = [
    "AppendRows",
    "Applied",
    "ColumnUpdate",
    "Columns",
    "DeleteRows",
    "EntryUpdate",
    "GradientDescent",
    "LinearRegression",
    "LowRank",
    "MatrixPower",
    "MatrixProgram",
    "MatrixView",
    "PageRank",
    "Reachability",
    "Ridge",
    "RowUpdate",
    "Source",
    "TracedProgram",
    "ViewOptions",
    "columns",
    "compile",
    "eye",
    "inv",
    "iterate",
    "parse",
    "power",
    "program",
    "sum_of_powers",
    "zeros",
]
