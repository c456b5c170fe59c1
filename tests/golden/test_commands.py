"""The commands of README and docs print the numbers that they printed when they were recorded.

A change that means to move numbers records them again with `PODSIM_REFRESH=1 python -m pytest tests/golden`, and says so.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import golden_commands as commands
import pytest

RELATIVE = 1e-9
SMALLEST = 1e-12
"""differences below this are none: what is left of a subtraction"""


def _moved(before: commands.Numbers, after: commands.Numbers) -> list[str]:
    gone = [f"{path} is gone" for path in before.keys() - after.keys()]
    new = [f"{path} is new" for path in after.keys() - before.keys()]
    other = [
        f"{path}: {before[path]!r} -> {after[path]!r}"
        for path in before.keys() & after.keys()
        if abs(after[path] - before[path]) > max(SMALLEST, RELATIVE * abs(before[path]))
    ]
    return sorted(gone + new + other)


@pytest.mark.parametrize("command", commands.recorded())
def test_numbers_stay(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    after = commands.run(command)
    if os.environ.get("PODSIM_REFRESH"):
        commands.recorded()[command] = after
        text = json.dumps(commands.recorded(), indent=0)
        commands.FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    moved = _moved(commands.recorded()[command], after)
    assert not moved, "\n".join(moved[:20])
