"""Every option is there, and commands answer what they answered before the house was rebuilt.

`PODSIM_REFRESH=1 python -m pytest -n0` on this file records anew. Text may change in layout: its numbers stay.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kept_questions as kept
import pytest

GONE = {
    "jobs": "a study with an order asks the same",
    "serve": "serve batches, load, best and streams have its options",
    "validate --sensitivity": "a maker's tool, which stays in reference/",
}
"""Commands and options that went, and why."""
NEW: dict[str, str] = {}
"""Options that came since, as `COMMAND --FLAG`, and why."""
MORE = {
    "study": "a study with an order has the start, the end and the money of each job",
    "storage": "compared rows have their error band and what was odd about the row",
    "validate": "compared rows have their error band and what was odd about the row",
}
"""Commands whose answers have more fields than they had, and why."""
MOVED = {
    f"goodput {value}.{part}": "quantiles have one convention, as moved.toml says"
    for value in ("effective", "seconds")
    for part in ("low", "median", "high")
}
"""Numbers that moved by decision, as `COMMAND PATH`, and why."""


def test_every_option_stays() -> None:
    if os.environ.get("PODSIM_REFRESH"):
        _record("options", kept.options())
    then = {f"{name} {flag}": option for name, flag, option in _flat(kept.recorded()["options"])}
    now = {f"{name} {flag}": option for name, flag, option in _flat(kept.options())}
    gone = [each for each in then.keys() - now.keys() if not {each, each.partition(" ")[0]} & GONE.keys()]
    new = [each for each in now.keys() - then.keys() if each not in NEW]
    changed = [
        f"{each}: {then[each]} -> {now[each]}" for each in then.keys() & now.keys() if now[each] != then[each]
    ]
    assert not gone + new + changed, "\n".join(
        sorted([*map("gone: {}".format, gone), *map("new: {}".format, new)]) + changed
    )


def _flat(commands: dict[str, dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """Command, the first flag (of an argument its name) and what is known of each option."""
    return [
        (name, max(option["flags"], key=len), option | {"name": own})
        for name, options in commands.items()
        for own, option in options.items()
        if "--help" not in option["flags"]  # click keeps it with the names of the first context
    ]


@pytest.mark.parametrize("command", kept.COMMANDS)
def test_an_answer_stays(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    now = json.loads(json.dumps(kept.asked(command, tmp_path)))
    if os.environ.get("PODSIM_REFRESH"):
        _record("commands", {command: now})
    then = kept.recorded()["commands"][command]
    start = command.split(maxsplit=1)[0]
    assert now["status"] == then["status"]
    assert not _paths(then) - _paths(now)
    assert start in MORE or not _paths(now) - _paths(then)
    stays = [path for path in then.get("numbers", ()) if f"{start} {path}" not in MOVED]
    before = {path: then["numbers"][path] for path in stays}
    assert {path: now["numbers"][path] for path in stays} == pytest.approx(before, rel=1e-9, abs=1e-12)
    columns = {name: cells for name, cells in then.get("csv", {}).items() if f"{start} {name}" not in MOVED}
    for column, cells in columns.items():
        assert len(now["csv"][column]) == len(cells), column
        assert all(map(_is_same, now["csv"][column], cells)), column
    for part in ("text", "error"):
        assert not _amounts(then.get(part, ())) - _amounts(now.get(part, ()))


def _amounts(texts: Iterable[str]) -> set[str]:
    """Numbers of a text without the commas and points that stand behind or within them: "4,480," is 4480."""
    return {text.rstrip(".,").replace(",", "") for text in texts}


def _paths(answer: dict[str, Any]) -> set[str]:
    """The keys of JSON, the paths of its numbers and the columns of CSV."""
    return {*answer.get("keys", ()), *answer.get("numbers", ()), *answer.get("csv", ())}


def _is_same(now: str, then: str) -> bool:
    try:
        return now == then or math.isclose(float(now), float(then), rel_tol=1e-9, abs_tol=1e-12)
    except ValueError:
        return False


def _record(part: str, values: dict[str, Any]) -> None:
    record = kept.recorded() if kept.FILE.is_file() else {}
    record[part] = record.get(part, {}) | values
    kept.FILE.write_bytes(gzip.compress(json.dumps(record, sort_keys=True).encode(), mtime=0))
