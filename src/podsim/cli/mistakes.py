"""What ends a command early, as a message and an exit status."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from podsim.errors import LabError, NoFitError, PlanError, PodsimError, ScheduleError

DEFECT = 70
"""exit status after an error that is ours (EX_SOFTWARE of sysexits.h)"""


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
    except (click.exceptions.Exit, click.ClickException):
        raise
    except Exception as error:
        return _defect(error)


def _mistake(error: PodsimError) -> int:
    """Write every problem to standard error; the exit status."""
    for line in error.problems if isinstance(error, (PlanError, ScheduleError)) else (str(error),):
        sys.stderr.write(f"podsim: {line}\n")
    return 1 if isinstance(error, NoFitError) else 2


def _defect(error: Exception) -> int:
    """Write where an error that is no user's came from; the exit status."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    name = "/".join(Path(last.filename).parts[-3:])
    what = f"{type(error).__name__}: {str(error)[:500]} ({name}:{last.lineno})"
    sys.stderr.write(f"podsim: a defect of podsim, please report it: {what}\n")
    return DEFECT


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
