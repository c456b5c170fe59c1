"""What ends a command early, as a message and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb

import click

from podsim import __version__
from podsim.errors import LabError, NoFitError, PlanError, PodsimError, ScheduleError


def guarded(command: Callable[[], int]) -> int:
    """The exit status of a command whose mistakes and interruptions end on one screen, without a traceback."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except PodsimError as error:
        return _mistake(error)
    except KeyboardInterrupt:
        sys.stderr.write("\npodsim: interrupted\n")
        return 130
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written, not even at exit
        _write_no_more()
        return 0
    except OSError as error:
        sys.stderr.write(
            f"podsim: cannot write {error.filename or 'the result'}: {error.strerror or error}\n"
        )
        _write_no_more()
        return 2


def _mistake(error: PodsimError) -> int:
    """Write every problem to standard error; the exit status."""
    for line in error.problems if isinstance(error, (PlanError, ScheduleError)) else (str(error),):
        sys.stderr.write(f"podsim: {line}\n")
    return 1 if isinstance(error, NoFitError) else 2


def bug_report(error: Exception) -> str:
    """What is said of an error that no user can have made."""
    if isinstance(error, MemoryError):
        return "podsim: this takes more memory than there is; ask for less at once\n"
    frames = [frame for frame in extract_tb(error.__traceback__) if "podsim" in Path(frame.filename).parts]
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = " ".join(str(error).split())[:200]
    return (
        f"podsim: a bug in podsim {__version__}: {type(error).__name__}: {what}{where}\n"
        "podsim: please report it with the command and what it prints under PODSIM_TRACEBACK=1\n"
    )


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def first_rank_speaks() -> Iterator[None]:
    """Every rank of a job gets the same options; the first alone reports mistakes in them. A run that broke off is
    reported by all.
    """
    try:
        yield
    except LabError:
        raise
    except PodsimError:
        if os.environ.get("RANK", "0") == "0":
            raise
        raise click.exceptions.Exit(2) from None
