"""Numbers in tables of the source are those that were reviewed: constants of NCCL, bars, units, ranges of fits.

A law is not moved, and no bar is loosened, by an edit that nobody means. A change that means to runs
`PODSIM_REFRESH=1 python -m pytest tests/golden/test_numbers_in_source.py`, and the diff shows what it changed.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import podsim

FILE = Path(__file__).with_name("numbers_in_source.json")
ROOMS = ("accuracy", "kernels", "network", "training")
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(podsim.__path__, "podsim.")
    if name.split(".")[1] in (*ROOMS, "units")
)


def numbers(value: Any) -> Any:
    """The numbers in a value, by name where they have one; None where there are none."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return value.tolist() if value.size < 100 else [value.size, float(value.sum()), float(value.std())]
    if isinstance(value, (bool, int, float)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name, None) for field in fields(value)}
    if isinstance(value, Mapping):
        found = {str(key): numbers(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not None} or None
    if isinstance(value, (list, tuple)):
        return [each for each in map(numbers, value) if each is not None] or None
    return None


@pytest.mark.parametrize("module", MODULES)
def test_numbers_of_a_module_stay(module: str) -> None:
    named = {name: each for name, each in vars(importlib.import_module(module)).items() if name.isupper()}
    found = json.loads(json.dumps(numbers(named) or {}))
    reviewed = json.loads(FILE.read_text("utf-8"))
    if os.environ.get("PODSIM_REFRESH"):
        reviewed[module] = found
        lines = (f"{json.dumps(name)}: {json.dumps(reviewed[name])}" for name in sorted(reviewed))
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    known = reviewed.get(module, {})  # a name that is new waits for the next review
    assert {name: found.get(name) for name in known} == known
