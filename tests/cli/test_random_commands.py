"""Random command lines end with 0, 1 or 2 and with words; a table of those that once did not."""

from __future__ import annotations

import shlex

import pytest
import soak_commands

FOUND = (
    "plan gpt2 --on dgx-a100:1 --batch 16 --limit micro_batch=1 --limit tp=1 --objective energy --html a.html",
    "plan gpt2 --on dgx-a100:2 --limit micro_batch=1 --limit schedule=zb-v,dualpipe --limit tp=1 --limit pp=2",
)
"""command lines that once ended in a bug, hung, or said nothing, in the folder of `random_commands.write_files`"""


@pytest.mark.parametrize("line", FOUND)
def test_a_command_that_once_broke(line: str) -> None:
    assert soak_commands.failure(shlex.split(line)) is None


def test_random_commands() -> None:
    assert not [failure for failure in soak_commands.tries(seed=0, count=60) if failure]
