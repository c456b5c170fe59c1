"""Plans, collectives and kernels of many kinds cost what they cost when they were recorded.

The questions were drawn at random, once: models, machines, eras of software, schedules, precisions, settings of NCCL.
A change that means to move them runs `PODSIM_REFRESH=1 python -m pytest tests/golden/test_answers.py`, and says so.
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

FILE = Path(__file__).with_name("answers.json.gz")
COUNT = 350
TOLD = {
    "step_time", "parts", "mfu", "hfu", "memory_kinds", "memory_limit", "stages", "gains", "dropped"
}  # fmt: skip
"""what counts of a prediction; of the others all does"""


@cache
def recorded() -> list[tuple[str, dict[str, Any], commands.Numbers]]:
    return [tuple(entry) for entry in json.loads(gzip.decompress(FILE.read_bytes()))]


@pytest.mark.parametrize("index", range(COUNT))
def test_an_answer_stays(index: int) -> None:
    question, options, _ = recorded()[index]
    told = json.loads(json.dumps(asdict(getattr(podsim, question)(**options)), default=str))
    after = commands.numbers_of(
        {name: each for name, each in told.items() if question != "predict" or name in TOLD}
    )
    if os.environ.get("PODSIM_REFRESH"):
        recorded()[index] = (question, options, after)
        FILE.write_bytes(gzip.compress(json.dumps(recorded()).encode(), mtime=0))
    assert after == pytest.approx(recorded()[index][2], rel=1e-9, abs=1e-12), options
