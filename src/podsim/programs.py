"""Other programs of this machine: what they print, or why they print nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from podsim.errors import LabError

PATIENCE = 20.0
"""s that a program gets if nothing else is said"""
Ask = Callable[[Sequence[str]], "tuple[str, str]"]
"""a command to (what it printed, why it printed nothing)"""


def needs_linux(what: str) -> None:
    """Raise LabError on another system than Linux."""
    if sys.platform != "linux":
        raise LabError(
            f"{what} needs Linux, and this is {sys.platform}; run it on Linux, in a container, or on Windows in WSL 2"
        )


def ask(
    command: Sequence[str], seconds: float = PATIENCE, begin: Callable[[], None] | None = None
) -> tuple[str, str]:
    """(what a command printed, "") or ("", why it printed nothing).

    It leads a group of processes, all of which are gone when this returns, also after Ctrl-C. begin: called in its
    process before it starts.
    """
    name, path = Path(command[0]).name, shutil.which(command[0])
    if path is None:
        return "", f"{name} is not installed"
    try:
        with subprocess.Popen(
            [path, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True, preexec_fn=begin,  # noqa: PLW1509 - a call of the kernel
        ) as process:  # fmt: skip
            try:
                out, wrong = process.communicate(timeout=seconds)
            except BaseException:
                with suppress(ProcessLookupError, AttributeError):  # Windows knows no groups
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()
                raise
    except subprocess.TimeoutExpired:
        return "", f"{name} did not end within {seconds:g} s; it was stopped"
    except OSError as problem:
        return "", f"{name}: {problem.strerror or problem}"
    if process.returncode:
        lines = [line for line in (wrong + "\n" + out).splitlines() if line.strip()]
        reason = "; ".join(lines[:3])[:300] or "no reason given"
        return "", f"{name} ended with status {process.returncode}: {reason}"
    return out, ""
