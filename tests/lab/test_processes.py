"""Children and signals: an interrupt is never lost in a fork, and children start with none held back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from podsim.lab.processes import end_of, fork

SCRIPT = """
import os, signal
from podsim.lab.processes import fork
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    fork(lambda: 0)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_during_a_fork_is_not_lost() -> None:
    """Python calls functions around a fork, and drops what they raise: an interrupt there, too."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "interrupted\n", done.stderr


def test_a_child_can_be_stopped() -> None:
    read, write = os.pipe()

    def work() -> int:
        os.write(write, b"." if not signal.pthread_sigmask(signal.SIG_BLOCK, ()) else b"!")
        signal.pause()
        return 0

    pid = fork(work)
    assert os.read(read, 1) == b"."
    os.kill(pid, signal.SIGTERM)
    assert end_of(os.waitpid(pid, 0)[1]) == "was killed by SIGTERM"
    os.close(read)
    os.close(write)
