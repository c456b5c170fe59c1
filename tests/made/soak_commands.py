"""Random command lines in this process: each ends with 0, 1 or 2, soon, with words and without a warning."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from types import FrameType

from click.testing import CliRunner
from random_commands import random_command, write_files

from podsim.cli import app

SECONDS = 20
"""of the processor that a command may take"""
WAIT = 120
"""s that it may wait, on a machine that does other things, too"""
MEMORY = 8 << 30
"""B of addresses that this process may take"""


class LateError(BaseException):
    """A command took too long."""


def tries(seed: int, count: int) -> Iterator[str | None]:
    """A sentence for each command that failed, None for the others."""
    for number in range(count):
        yield failure(random_command(Random(f"{seed}/{number}")))


def failure(words: Sequence[str]) -> str | None:
    """What is wrong with how a command ends, run in a new folder; None if nothing is."""
    before = Path.cwd()
    for bell in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(bell, _late)
    with tempfile.TemporaryDirectory(prefix="podsim-soak-") as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        write_files(Path(folder))
        os.chdir(folder)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
        signal.alarm(WAIT)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            result = CliRunner().invoke(app, list(words), env={"COLUMNS": "100"})
        except LateError as late:
            where = traceback.extract_tb(late.__traceback__)[-1]
            return told(words, f"no end within {SECONDS} s, at {where.filename}:{where.lineno}")
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        frames = traceback.extract_tb(result.exception.__traceback__)
        where = next((each for each in reversed(frames) if "podsim" in each.filename), frames[-1])
        what = f"{type(result.exception).__name__}: {str(result.exception)[:150]}"
        return told(words, f"{what} at {where.filename.rpartition('podsim/')[2]}:{where.lineno}")
    return wrong_end(words, result.exit_code, result.stdout, result.stderr)


def wrong_end(words: Sequence[str], status: int, stdout: str, stderr: str) -> str | None:
    """What is wrong with an exit status and what was printed."""
    said = stderr if status == 2 else stdout + stderr
    wrongs = {
        f"exit status {status}": status not in (0, 1, 2),
        "a traceback": "Traceback (most recent call last)" in stderr,
        f"more memory than {MEMORY >> 30} GiB": "more memory than there is" in stderr,
        "a bug": "a bug in podsim" in stdout + stderr,
        "a warning": "Warning:" in stderr,
        f"exit status {status} without a word": bool(status) and not said.strip(),
    }
    return next((told(words, f"{wrong}: {stderr[-300:]}") for wrong, is_so in wrongs.items() if is_so), None)


def told(words: Sequence[str], what: str) -> str:
    """A failure, with its command."""
    short = [word if len(word) < 200 else f"{word[:20]}…({len(word)})" for word in words]
    return f"podsim {shlex.join(short)}: {what}".encode(errors="backslashreplace").decode()


def _late(number: int, frame: FrameType | None) -> None:
    raise LateError
