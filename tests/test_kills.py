"""Commands that are ended at random moments: a small part of `python scripts/soak.py kills`."""

from __future__ import annotations

import sys

import pytest
from tests.made import soak_kills


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc")
@pytest.mark.parametrize("name", ["simulate", "exporter"])
def test_a_kill_leaves_whole_files_and_nothing_else(name: str) -> None:
    assert not [problem for problem in soak_kills.tries(2, 2, [name]) if problem]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc")
@pytest.mark.parametrize("name", soak_kills.SCENARIOS)
def test_many_kills(name: str) -> None:
    assert not [problem for problem in soak_kills.tries(3, 5, [name]) if problem]
