"""Every mistake a user can make, as one tree; our own mistakes are asserts.

    PodsimError (ValueError)
    ├── UnitError        a quantity that cannot be read ("200 Gb/s" can)
    ├── CatalogError     an unknown name, or a catalog file that breaks its schema
    ├── ModelError       a config.json that cannot become a Model
    ├── ClusterError     a cluster that cannot be built
    ├── PlanError        a plan that breaks its model's or its cluster's rules: all violations at once
    │   └── NoFitError   legal plans, of which none fits the memory: an answer, so the command line exits with 1, not 2
    ├── ScheduleError    a pipeline schedule that cannot run, or that does not exist for these sizes: all at once
    ├── SimulationError  ops that cannot be played: a circle of waits, a link without capacity
    ├── TableError       a table of measurements that cannot be read
    ├── TimelineError    a timeline that cannot be written or drawn, a trace file that cannot be read
    ├── TraceError       an execution trace that cannot be read or written
    ├── StorageError     a storage system, a dataset or a job on it that cannot be
    │   └── NoFitError   legal plans, of which none fits the memory; a checkpoint that fits nowhere; a run that failures
    │                    never let finish: an answer, so the command line exits with 1, not 2
    ├── MigError         MIG instances that cannot stand together, or nvidia-smi text that cannot be read: all problems
    ├── NativeError      the C library that simulations and queues run on is not there and cannot be compiled
    └── LabError         a real run that cannot be started, or that broke off: by a rank that died, say
        └── CheckpointError   a checkpoint that cannot be written, or that is damaged; with the whole one before it

A message gives the value, the rule, and what would work.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Self

_LONGEST = 8_000
"""characters of a message; a file of a megabyte may have a megabyte of problems"""


class PodsimError(ValueError):
    """The base of all errors of podsim: an input that cannot be used."""

    def __str__(self) -> str:
        """The message, without the middle of one that is too long to read."""
        text = super().__str__()
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 4 :]}"

    instead: Mapping[str, object] = MappingProxyType({})
    """Values of options that would work, by name; None takes an option away."""

    def offer(self, **values: object) -> Self:
        """The error itself, with values of options that would work: a command line shows the command with them."""
        self.instead = values
        return self


class UnitError(PodsimError):
    """A quantity whose number or unit cannot be read."""


class CatalogError(PodsimError):
    """An unknown catalog name, or a catalog file that breaks its schema."""


class ModelError(PodsimError):
    """A model description that is missing something, absurd, or of an unsupported architecture."""


class ClusterError(PodsimError):
    """A cluster that cannot be built, or that is smaller than what is asked of it."""


class PlanError(PodsimError):
    """A plan that breaks rules; `problems` holds every one of them."""

    def __init__(self, problems: Iterable[str]) -> None:
        """Keep the list, and make the message of all of it."""
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class NoFitError(PlanError):
    """Every legal plan needs more memory than a GPU has, or the run cannot end."""


class ScheduleError(PodsimError):
    """A pipeline schedule that cannot run; `problems` holds all that is wrong with it."""

    def __init__(self, problems: Iterable[str]) -> None:
        """Keep the list, and make the message of all of it."""
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class SimulationError(PodsimError):
    """Ops that cannot be played: they wait for each other, or for what does not exist."""


class NativeError(PodsimError):
    """The C library is not there, and cannot be compiled."""


class LabError(PodsimError):
    """A real run that cannot be started on this machine, or that broke off."""


class CheckpointError(LabError):
    """A checkpoint that cannot be written, or that is damaged; `previous` is the step to go on from, if there is one."""

    def __init__(self, message: str, *, previous: int | None = None) -> None:
        """Keep the step of the checkpoint that may be used instead."""
        self.previous = previous
        super().__init__(message)


class StorageError(PodsimError):
    """A storage system, a dataset or a job on it that cannot be."""


class MigError(PlanError):
    """Instances of a GPU that cannot stand together, or a state that cannot be read; `problems` holds everything."""


class TableError(PodsimError):
    """A table of measurements with missing columns or unreadable cells."""


class TimelineError(PodsimError):
    """A timeline that cannot be written or drawn, or a trace file that cannot be read."""


class TraceError(PodsimError):
    """An execution trace that cannot be read, or written."""


def raise_all(problems: Collection[str], error: type[PodsimError] = PodsimError) -> None:
    """Raise one error of all problems, if there are any."""
    if problems:
        raise error(problems if issubclass(error, PlanError | ScheduleError) else "; ".join(problems))


_SHOWN = 150
"""characters of the names that an error lists where none is close"""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Text for an unknown name: the closest matches, or else what is known; `close_names` reads it back."""
    names = sorted(known)
    if close := similar_names(name, tuple(names)):
        every = f" known: {', '.join(names)}" if sum(map(len, names)) + 2 * len(names) <= _SHOWN else ""
        return f"unknown {kind} {name[:80]!r}: did you mean {' or '.join(close)}?{every}"
    count = sum(length <= _SHOWN for length in accumulate(len(each) + 2 for each in names))
    shown = ", ".join(names[:count]) + (f", … ({len(names)} in all)" if len(names) > count else "")
    return f"unknown {kind} {name[:80]!r}; known: {shown}"


def check_name(kind: str, name: str, known: Collection[str], error: type[PodsimError] = PodsimError) -> None:
    """Raise an error for an unknown name, with the closest ones."""
    if name not in known:
        raise_all([unknown_name(kind, name, known)], error)


@lru_cache
def similar_names(name: str, known: tuple[str, ...]) -> list[str]:
    """At most three known names that a text may be a slip of: another number, as gpt3 for gpt4, is another thing."""
    matches = get_close_matches(name, known, n=20, cutoff=0.55)
    close = [other for other in matches if _is_same_number(name, other)]
    letters = re.sub(r"\W", "", name.lower())
    return sorted(close, key=lambda other: not re.sub(r"\W", "", other).startswith(letters))[:3]


def _is_same_number(name: str, other: str) -> bool:
    """Whether two names have the same digits, or the numbers of one begin those of the other, from a like beginning."""
    rest = iter(re.findall(r"\d+", other))
    numbers = re.findall(r"\d+", name)
    if numbers and name[0].lower() != other[0].lower():  # mi300x is no b300
        return False
    is_shuffled = sorted("".join(numbers)) == sorted(re.sub(r"\D", "", other))
    return is_shuffled or all(any(_is_slip(number, full) for full in rest) for number in numbers)


def _is_slip(number: str, full: str) -> bool:
    """Whether digits begin a number, or are a slip of one with three digits or more."""
    is_long = min(len(number), len(full)) >= 3
    return full.startswith(number) or (is_long and bool(get_close_matches(number, [full])))


def close_names(message: str) -> tuple[str, list[str]]:
    """(unknown name, the closest known ones) of a message that `unknown_name` wrote; ("", []) if it has none."""
    match = re.search(r"unknown [\w, -]+ (['\"])(.+?)\1: did you mean (\S+(?: or \S+)*)\?", message)
    return (match[2], match[3].split(" or ")) if match else ("", [])
