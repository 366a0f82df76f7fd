"""An epoch of the local engine on its way to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from everfresh.epochs import EpochDraft, EpochSteps
from everfresh.local.relations.alike import Changes
from everfresh.state import pack_table


@dataclass(slots=True)
class Draft(EpochDraft):
    """An epoch that is done in memory and has no record yet: what views publish, and the other domains."""

    deltas: Mapping[str, pa.Table] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    steps: EpochSteps | None = None

    def sealed(self) -> EpochDraft:
        """With all that its record says."""
        sections: dict[str, Any] = {f"delta/{name}": pack_table(t) for name, t in self.deltas.items()}
        if self.steps is not None:
            sections.update(self.steps.sections())
            self.ddl = (*self.ddl, *self.steps.ddl)
        self.sections = sections
        return self
