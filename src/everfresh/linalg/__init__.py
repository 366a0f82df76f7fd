"""Matrix views: LINVIEW, the incremental maintenance of linear algebra programs by factored deltas (chapter 6 of the thesis).

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
from everfresh.linalg.plan import MatrixProgram, compile
from everfresh.linalg.runtime import MatrixView
from everfresh.linalg.setup import Applied, ViewOptions
from everfresh.linalg.source import Source, parse
from everfresh.linalg.trace import TracedProgram, eye, inv, iterate, power, program, sum_of_powers, zeros
from everfresh.linalg.updates import AppendRows, ColumnUpdate, DeleteRows, EntryUpdate, LowRank, RowUpdate

__all__ = [
    "AppendRows",
    "Applied",
    "ColumnUpdate",
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
