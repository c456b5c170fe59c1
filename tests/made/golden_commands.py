"""The commands whose `--json` is held in commands.json.gz, and how their numbers are read."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from podsim.cli import app
from podsim.cli.command import answer_json, print_answer

FILE = Path(__file__).parents[1] / "golden" / "commands.json.gz"
FILES = {
    "lab.toml": 'inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 16\n',
    "grid.toml": (
        '[common]\nmodel = "gpt2"\ntokens = "1G"\n[grid]\nbatch = [8, 64]\n'
        '[[design]]\nname = "A"\non = "dgx-a100:1"\n[[design]]\nname = "H"\non = "dgx-h100:1"\n'
    ),
}
"""what lies in the folder of a command"""
FIRST = {"why ": "simulate gpt2 --on dgx-a100:2 --tp 2 --pp 2 --batch 16 --save step.jsonl"}
"""the command that writes the file that another reads"""
LONGEST = 8
"""A list with more entries is held by its sums."""
PLACE = re.compile(r"\[\d+\]")

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


def folded(numbers: Numbers) -> Numbers:
    """The numbers, those of long lists as two sums: a plain one, and one in which each entry weighs what its place is."""
    length: Counter[str] = Counter()
    for path in numbers:
        for place in PLACE.finditer(path):
            start = path[: place.start()]
            length[start] = max(length[start], int(place[0][1:-1]) + 1)
    sums: defaultdict[str, float] = defaultdict(float)
    entries: Counter[str] = Counter()
    for path, number in numbers.items():
        name = PLACE.sub(
            lambda place: place[0] if length[place.string[: place.start()]] <= LONGEST else "[*]", path
        )
        sums[name] += number
        if "[*]" in name:
            entries[name] += 1
            sums[f"{name} by place"] += entries[name] * number
    return dict(sums)


@cache
def recorded() -> dict[str, Numbers]:
    """The numbers of each command, as they were recorded; read once."""
    numbers: dict[str, Numbers] = json.loads(gzip.decompress(FILE.read_bytes()))
    return numbers


def run(command: str) -> Numbers:
    """The numbers that a command has with --json, and prints here as text; it runs in the current directory."""
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    for start, first in FIRST.items():
        if command.startswith(start):
            CliRunner().invoke(app, shlex.split(first))
    if command.startswith("replay "):
        folder = shlex.split(command)[1].partition("/")[0]
        run(next(saving for saving in recorded() if f"--save {folder}" in saving))
    texts = list[str]()

    def kept_answer(answer: Any, output: Any, view: Any, **more: Any) -> None:
        texts.append(answer_json(answer, view))
        print_answer(answer, output, view, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("podsim.cli.command.print_answer", kept_answer)
        result = CliRunner().invoke(app, shlex.split(command.removesuffix(" --json")))
    assert result.exit_code == 0, result.stderr or result.stdout
    assert result.stdout
    numbers = numbers_of(json.loads(texts[-1]))
    if command.startswith(("plan ", "replay ", "study ")):
        numbers.pop("seconds")  # that this took on this machine
    return folded(numbers)
