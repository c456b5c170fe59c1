"""Commands that are ended at random moments: a small part of `python scripts/soak.py kills`."""

from __future__ import annotations

import subprocess
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


_LATE = """
import os, signal, time
from podsim import cli

cli._listen()

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

thing = Thing()
try:
    del thing
    time.sleep(60)
except KeyboardInterrupt:
    print("ended")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends itself a signal")
def test_an_interrupt_while_an_object_is_deleted_ends_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LATE], check=False, capture_output=True, text=True, timeout=50
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")
