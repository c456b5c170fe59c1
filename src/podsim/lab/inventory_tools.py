"""What tools say of a machine where they are installed: nvidia-smi of its GPUs, sedutil-cli of its drives.

sysfs knows neither the name of a GPU nor whether a drive encrypts itself. A tool that is missing, fails or hangs says
nothing, and the reason is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.programs import Ask, ask


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the tools said; empty with the reason where one said nothing."""

    gpus: tuple[tuple[str, float], ...]
    """The (name, B of memory) of each GPU, by nvidia-smi."""
    no_gpus: str
    drives: tuple[tuple[str, bool], ...]
    """The (device, whether it encrypts itself) of each drive, by sedutil-cli."""
    no_drives: str
    locks: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    """The (whether locking is enabled, whether it is locked) of encrypting drives, by device; those that tell."""


def ask_machine(run: Ask = ask) -> Answers:
    """What the tools of this machine say."""
    text, no_gpus = run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"])
    scan, no_drives = run(["sedutil-cli", "--scan"])
    drives = encrypting(scan)
    states = {device: lock_state(run(["sedutil-cli", "--query", device])[0]) for device, own in drives if own}
    locks = {device: state for device, state in states.items() if state is not None}
    return Answers(gpus=gpu_names(text), no_gpus=no_gpus, drives=drives, no_drives=no_drives, locks=locks)


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


def lock_state(text: str) -> tuple[bool, bool] | None:
    """(whether locking is enabled, whether it is locked) from `sedutil-cli --query`; None where it does not say."""
    letters = dict(re.findall(r"\b(Locked|LockingEnabled) = ([YN])", text))
    return (letters["LockingEnabled"] == "Y", letters["Locked"] == "Y") if len(letters) == 2 else None
