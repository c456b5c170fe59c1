"""The commands whose `--json` is held in commands.json.gz, and how their numbers are read."""

from __future__ import annotations

import gzip
import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from podsim.cli import app

FILE = Path(__file__).parents[1] / "golden" / "commands.json.gz"
OWN_CLUSTER = 'inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 16\n'

Numbers = dict[str, float]
"""a number by its path in the JSON, such as `ranked[0].prediction.step_time`"""


def numbers_of(value: Any, path: str = "") -> Numbers:
    """Every number of a JSON value, by its path; yes is 1 and no is 0."""
    if isinstance(value, dict):
        parts = [(f"{path}.{key}" if path else key, part) for key, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    elif isinstance(value, (bool, int, float)):
        return {path: float(f"{value:.12g}")}
    else:
        return {}
    return {name: number for inner, part in parts for name, number in numbers_of(part, inner).items()}


@cache
def recorded() -> dict[str, Numbers]:
    """The numbers of each command, as they were recorded; read once."""
    numbers: dict[str, Numbers] = json.loads(gzip.decompress(FILE.read_bytes()))
    return numbers


def run(command: str) -> Numbers:
    """The numbers that a command prints as JSON; it runs in the current directory."""
    Path("lab.toml").write_text(OWN_CLUSTER, "utf-8")
    if command.startswith("replay "):
        folder = shlex.split(command)[1].partition("/")[0]
        run(next(saving for saving in recorded() if f"--save {folder}" in saving))
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.stderr or result.stdout
    numbers = numbers_of(json.loads(result.stdout))
    if command.startswith(("plan ", "replay ")):
        numbers.pop("seconds")  # that this search took on this machine
    return numbers
