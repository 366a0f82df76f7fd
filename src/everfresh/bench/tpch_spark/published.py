"""Figures of the thesis (M. Nikolic, EPFL 2016, chapter 5) that stand beside ours."""

from __future__ import annotations

TABLE_5_1 = {
    "q01": (1, 1), "q02": (1, 3), "q03": (1, 3), "q04": (1, 2), "q05": (2, 5), "q06": (1, 1),
    "q07": (3, 6), "q08": (2, 6), "q09": (3, 7), "q10": (1, 3), "q11": (2, 4), "q12": (1, 2),
    "q13": (2, 4), "q14": (1, 2), "q15": (1, 3), "q16": (3, 5), "q17": (1, 2), "q18": (1, 3),
    "q19": (1, 2), "q20": (1, 3), "q21": (2, 4), "q22": (2, 3),
}  # fmt: skip
"""Jobs and stages of a batch, by query."""
