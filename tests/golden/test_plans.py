"""Plans of many kinds have the step, the parts and the memory that they had when they were recorded.

The plans were drawn at random, once: models, machines, eras of software, schedules, precisions, fine-tuning.
A change that means to move them runs `PODSIM_REFRESH=1 python -m pytest tests/golden/test_plans.py`, and says so.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import golden_commands as commands
import pytest

import podsim

FILE = Path(__file__).with_name("plans.json.gz")
TOLD = (
    "step_time",
    "parts",
    "mfu",
    "hfu",
    "memory_kinds",
    "memory_limit",
    "stages",
    "gains",
    "allowance",
    "dropped",
)


@cache
def recorded() -> list[tuple[dict[str, Any], commands.Numbers]]:
    return [tuple(pair) for pair in json.loads(gzip.decompress(FILE.read_bytes()))]


@pytest.mark.parametrize("index", range(200))
def test_a_plan_stays(index: int) -> None:
    options, _ = recorded()[index]
    told = json.loads(json.dumps(asdict(podsim.predict(**options))))
    after = commands.numbers_of({name: told[name] for name in TOLD})
    if os.environ.get("PODSIM_REFRESH"):
        recorded()[index] = (options, after)
        FILE.write_bytes(gzip.compress(json.dumps(recorded()).encode(), mtime=0))
    assert after == pytest.approx(recorded()[index][1], rel=1e-9, abs=1e-12), options
