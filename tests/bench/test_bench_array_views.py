"""What `array-views` measures is what it says: batches add up, and methods plan the same batches."""

from __future__ import annotations

import numpy as np
import pytest

from everfresh.arrays.plan import Reach
from everfresh.arrays.upkeep import Costs, Planner, PlannerOptions
from everfresh.bench.parts.array_view_workloads import survey

REACH = Reach.box((None, -2, -2), (None, 2, 2))


@pytest.mark.parametrize("order", ["real", "correlated", "periodic"])
def test_batches_add_up(order: str) -> None:
    data = survey(order, 4, 3, 2)
    cells = data.base.copy()
    for (found, after), batch in zip(data.updates(REACH, 4), data.batches, strict=True):
        assert int(found.size[found.delta == 1].sum()) == int(batch.sum())
        assert int(found.size[found.delta == 0].sum()) == int(cells.sum())
        cells = cells + batch
        assert (after == cells).all()
        assert found.irrelevant == 0  # the centre is in the shape: a delta meets itself
        old = found.delta == 0
        assert not (old[found.first] & old[found.second]).any()
    if order == "correlated":
        assert all((batch == data.batches[0]).all() for batch in data.batches)


def test_placements() -> None:
    data = survey("real", 4, 1, 2)
    for placement in ("round-robin", "hash", "sky"):
        home = data.home(placement, 4)
        assert home.shape == data.base.shape
        assert set(np.unique(home).tolist()) == {0, 1, 2, 3}


def test_auto_is_not_over_the_baseline() -> None:
    data = survey("real", 4, 2, 2)
    updates = list(data.updates(REACH, 4))
    for placement in ("round-robin", "sky"):
        home = data.home(placement, 4)
        spans = {}
        for method in ("baseline", "auto"):
            planner = Planner(PlannerOptions(method, Costs(4.0, 1.0)), home, home)
            spans[method] = [planner.step(update, stored).makespan for update, stored in updates]
        assert spans["auto"][0] <= spans["baseline"][0]
