"""What is compiled, and why the rest is not, for people."""

from __future__ import annotations

from typing import Any

from everfresh.local.native.manager import Form, Native, Planned


def statistics(native: Native) -> dict[str, Any]:
    """By the relation whose change they run on: the maps that compiled statements change, why others are
    interpreted, the derived relations that are stepped row by row in the same call, why others are not."""
    return {
        base: {
            "compiled": sorted({name for form in _ready(planned) for name in _targets(form)}),
            "interpreted": dict(planned.reasons),
            "stepped": [unit.name for form in _ready(planned) for unit in form.chain],
            "not stepped": dict(planned.unstepped),
        }
        for (_, base, _, _), planned in native.planned.items()
    }


def of_view(native: Native, view: str) -> dict[str, str]:
    """The same for the statements of one view, a line for each relation that is planned."""
    found: dict[str, str] = {}
    for (_, base, _, _), planned in native.planned.items():
        names = {
            job.prepared.store.target.name
            for form in _ready(planned)
            for job in form.made.jobs
            if job.prepared.view == view and job.prepared.base == base
        }
        stepped = [u.name for form in _ready(planned) for u in form.chain if u.view == view]
        parts = []
        if names:
            parts.append(f"compiled for {', '.join(sorted(names))}")
        if stepped:
            parts.append(f"row by row with {', '.join(stepped)} in the same call")
        parts += [
            f"{name} by itself ({why})" for name, why in planned.unstepped.items() if _is_of(name, view)
        ]
        if parts:
            found[f"change of {base}"] = "; ".join(parts)
    return found


def _is_of(relation: str, view: str) -> bool:
    return relation == view or relation.startswith(f"{view}$")


def _ready(planned: Planned) -> list[Form]:
    return [form for form in (planned.whole, planned.by_row) if form is not None and form.function]


def _targets(form: Form) -> set[str]:
    return {job.prepared.store.target.name for job in form.made.jobs}
