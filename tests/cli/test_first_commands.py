"""What people typed first is read, or leads to a command that is read; nothing leads to another question."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from podsim.cli import app
from podsim.cli.repairs import first_mistake, repaired

LINES = (Path(__file__).with_name("first_commands.txt")).read_text("utf-8").splitlines()
CASES = [tuple(part.strip() for part in line.split("=>")) for line in LINES if line[:1] not in ("", "#")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_first_command_is_read_or_leads_to_one_that_is(case: tuple[str, ...]) -> None:
    typed, *led = case
    mistake = first_mistake(app, shlex.split(typed))
    if not led:
        assert mistake is None
        return
    assert mistake is not None
    words = repaired(app, mistake)[1]
    assert shlex.join(words or []) == led[0]
    assert words is None or first_mistake(app, words) is None
