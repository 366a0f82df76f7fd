"""What is compiled, and why the rest is not, for people."""

from __future__ import annotations

from typing import Any

from everfresh.expr import Made, stored, told
from everfresh.local.native.manager import Form, Native, Planned


def statistics(native: Native) -> dict[str, Any]:
    """By the relation whose change they run on: the maps that compiled statements change, why others are
    interpreted, the derived relations that are stepped row by row in the same call, why others are not."""
    found: dict[str, Any] = {}
    for (_, base, _), planned in native.planned.items():
        ready = _ready(planned)
        said = found.setdefault(
            told(base), {"compiled": [], "interpreted": {}, "stepped": [], "not stepped": {}}
        )
        changed = (stored(name) for form in ready for name in _targets(form))
        said["compiled"] = sorted({*said["compiled"], *changed})
        said["interpreted"].update({stored(name): why for name, why in planned.reasons.items()})
        said["stepped"] += [told(unit.name) for form in ready for unit in form.chain]
        said["not stepped"].update({told(name): why for name, why in planned.unstepped.items()})
    return found


def of_view(native: Native, view: str) -> dict[str, str]:
    """The same for the statements of one view, a line for each relation that is planned."""
    found: dict[str, str] = {}
    for (_, base, _), planned in native.planned.items():
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
        parts += [
            f"interpreted for {name} ({why})" for name, why in planned.reasons.items() if _is_of(name, view)
        ]
        if stepped:
            parts.append(f"row by row with {', '.join(stepped)} in the same call")
        parts += [
            f"{name} by itself ({why})" for name, why in planned.unstepped.items() if _is_of(name, view)
        ]
        if parts:
            found[f"change of {base}"] = "; ".join(parts)
    return found


def _is_of(relation: str, view: str) -> bool:
    return relation == view or (isinstance(relation, Made) and relation.startswith((f"{view}$", f"{view}#")))


def _ready(planned: Planned) -> list[Form]:
    return [form for form in planned.forms if form.function]


def _targets(form: Form) -> set[str]:
    return {job.prepared.store.target.name for job in form.made.jobs}
