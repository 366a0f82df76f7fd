"""The local engine satisfies the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import everfresh as ef
from everfresh.testing.engine_suite import EngineSuite


class TestLocal(EngineSuite):
    def connect(self, path: str | Path | None = None, **kwargs: Any) -> ef.Database:
        return ef.connect(path, engine="local", **kwargs)
