"""What tools say of a machine where they are installed: nvidia-smi of its GPUs, sedutil-cli of its drives.

sysfs knows neither the name of a GPU nor whether a drive encrypts itself. A tool that is missing, fails or hangs says
nothing, and the reason is kept.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_PATIENCE = 20.0
"""s that a tool gets"""

Ask = Callable[[Sequence[str]], "tuple[str, str]"]
"""a command to (what it printed, why it printed nothing)"""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the tools said; empty with the reason where one said nothing."""

    gpus: tuple[tuple[str, float], ...]
    """The (name, B of memory) of each GPU, by nvidia-smi."""
    no_gpus: str
    drives: tuple[tuple[str, bool], ...]
    """The (device, whether it encrypts itself) of each drive, by sedutil-cli."""
    no_drives: str


def ask(command: Sequence[str]) -> tuple[str, str]:
    """(what a command printed, "") or ("", why it printed nothing)."""
    name = command[0]
    path = shutil.which(name)
    if path is None:
        return "", f"{name} is not installed"
    try:
        done = subprocess.run(
            [path, *command[1:]], capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        return (
            "",
            f"{name}: {getattr(problem, 'strerror', None) or f'no answer within {_PATIENCE:g} s'}",
        )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        return "", f"{name} ended with status {done.returncode}{': ' + said[0][:120] if said else ''}"
    return done.stdout, ""


def ask_machine(run: Ask = ask) -> Answers:
    """What the tools of this machine say."""
    text, no_gpus = run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    scan, no_drives = run(["sedutil-cli", "--scan"])
    return Answers(gpus=gpu_names(text), no_gpus=no_gpus, drives=encrypting(scan), no_drives=no_drives)


def no_answers(why: str) -> Answers:
    """What tools say of a machine that they do not run on."""
    return Answers(gpus=(), no_gpus=why, drives=(), no_drives=why)


def gpu_names(text: str) -> tuple[tuple[str, float], ...]:
    """(name, B) from `nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits`, which counts MiB."""
    gpus = []
    for line in text.splitlines():
        name, comma, memory = line.rpartition(",")
        if comma and memory.strip().replace(".", "", 1).isdecimal():
            gpus.append((name.strip(), float(memory) * 2**20))
    return tuple(gpus)


def encrypting(text: str) -> tuple[tuple[str, bool], ...]:
    """(device, whether it is an Opal drive) from `sedutil-cli --scan`: "/dev/nvme0n1   2  MODEL", or "No"."""
    lines = (re.match(r"\s*(/dev/\S+)\s+(\S+)", line) for line in text.splitlines())
    return tuple((match[1], match[2] != "No") for match in lines if match)
