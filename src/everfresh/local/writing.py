"""What an engine in this process tells of its state: a snapshot, a backup, what statements have cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from everfresh.epochs import Objects
from everfresh.epochs.timeline import Timeline
from everfresh.local.measured import Measured, analyzed
from everfresh.local.sections import InSections
from everfresh.options import Options
from everfresh.state import StateFolder, told
from everfresh.state.backup import back_up, making, write_format, write_log
from everfresh.state.snapshots import SnapshotStore


class Writes(InSections):
    """An engine that writes, and tells, what it has."""

    name: str
    objects: Objects
    _timeline: Timeline
    _options: Options
    _folder: StateFolder | None

    def backup(self, target: str | Path) -> int:
        """Copy the folder; without one, write what is in memory, while changes wait. The epoch."""
        if self._folder is not None:
            fault = self._options.fault
            return back_up(self._folder, target, lambda: self._whole().epoch, lambda: self._inside, fault)
        with told(f"{target} was not written"), making(target) as path:
            epoch = self._change(self._write_alone, path)
            write_format(path, self.name, 1)
        return epoch

    def analyzed(self, view: str) -> str:
        """What the statements of a view have cost over the last batches; they are measured from the first
        time on that this is asked."""
        definition = self._shown.catalog.expect_view(view)
        measured = self._state.measured
        if measured is None:
            measured = self._state.measured = Measured()
        return analyzed(definition.compiled, measured, self._shown.catalog.sharing(definition.name))

    def _write_alone(self, path: Path) -> int:
        """Write the snapshot of a folder that has nothing else, and a log that goes on from there."""
        self._write(SnapshotStore(path, durable=True))
        epoch = self._shown.epoch
        write_log(path, epoch + 1, ())
        return epoch

    def _write(self, snapshots: SnapshotStore) -> dict[str, Any]:
        """Write a snapshot of the last epoch; its sections."""
        sections: dict[str, Any] = self._state.to_sections()
        sections.update(self._shown.to_sections())
        for domain in self.objects.domains.values():
            sections.update(domain.to_sections())
        meta = {
            "ddl": [list(item) for item in self._state.catalog.ddl],
            "created": self._state.created,
            **self._timeline.to_meta(),
        }
        snapshots.write(self._shown.epoch, sections, meta)
        return sections
