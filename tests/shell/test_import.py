"""What `import everfresh` loads: how long that takes is for `everfresh bench start` to say."""

from __future__ import annotations

import json
import subprocess
import sys

MOST = 10
"""Modules of everfresh."""


def test_import_loads_little():
    """Time goes into modules: a user's first line loads few, and none that is somebody else's."""
    code = "import everfresh, json, sys; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    bare = subprocess.run(
        [sys.executable, "-c", code.replace("everfresh, ", "")], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout)) - set(json.loads(bare.stdout))
    ours = {name for name in loaded if name.partition(".")[0] == "everfresh"}
    theirs = {name.partition(".")[0] for name in loaded - ours} - set(sys.stdlib_module_names)
    assert "everfresh" in ours
    assert len(ours) < MOST, sorted(ours)
    assert not theirs
