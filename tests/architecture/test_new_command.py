"""One more command is its own file and one entry of the registry; everything else follows from them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import podsim
from podsim.cli.application import make_application
from podsim.questions import machine, registry

MOST_LINES = 60
MOST_FILES = 2
ENTRY = 'Entry("machine", "Say how long bytes take at a rate.", "drain 1GB --rate 25GB/s", also="copying")'
QUESTION = '''\
"""`podsim drain`: how long bytes take at a rate."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from podsim.answers.answer import Answer
from podsim.options.question import option, question
from podsim.units import parse_quantity


@dataclass(frozen=True, kw_only=True)
class DrainOptions:
    """What drains, and how quickly."""

    size: str = option(MISSING, "Bytes, e.g. 1GB.", argument=True)
    rate: str = option("1GB/s", "Bytes a second.")


@dataclass(frozen=True, kw_only=True)
class Drained(Answer):
    """The time of a transfer."""

    bytes: float
    """B. Its size."""
    seconds: float
    """s. Its time."""


@question(DrainOptions)
def drain(options: DrainOptions) -> Drained:
    """How long bytes take at a rate."""
    size = parse_quantity(options.size, "B")
    return Drained(bytes=size, seconds=size / parse_quantity(options.rate, "B/s"))
'''


@pytest.fixture
def drain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new question, in a file of its own."""
    (tmp_path / "drain.py").write_text(QUESTION, "utf-8")
    monkeypatch.setattr(machine, "__path__", [*machine.__path__, str(tmp_path)])
    entry = eval(ENTRY, {"Entry": registry.Entry})
    monkeypatch.setattr(registry, "QUESTIONS", {**registry.QUESTIONS, "drain": entry})
    monkeypatch.setattr(podsim, "_QUESTIONS", registry.public_names())


def test_a_new_command_is_few_lines() -> None:
    files = {"questions/machine/drain.py": QUESTION, "questions/registry.py": f'"drain": {ENTRY},'}
    assert len(files) <= MOST_FILES
    assert sum(len(text.splitlines()) for text in files.values()) <= MOST_LINES


@pytest.mark.usefixtures("drain")
def test_a_new_command_has_every_form() -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(make_application(), ["drain", *words])
        assert result.exit_code == 0, result.output
        return result.stdout

    answer = json.loads(run("1GB", "--rate", "25GB/s", "--json"))
    assert answer["seconds"] == pytest.approx(0.04)
    assert answer["podsim"]["units"]["seconds"] == "s"
    rows = list(csv.DictReader(io.StringIO(run("1GB", "--csv"))))
    assert float(rows[0]["seconds"]) == pytest.approx(1)
    assert "40 ms" in run("1GB", "--rate", "25GB/s")
    assert "Bytes a second." in run("--help")
    assert podsim.drain("1GB", rate="25GB/s").seconds == pytest.approx(0.04)
    assert "drain" in CliRunner().invoke(make_application(), ["--help"]).stdout
