"""Every mistake a user can make, as one tree; our own mistakes are asserts.

    PodsimError (ValueError)
    ├── UnitError        a quantity that cannot be read ("200 Gb/s" can)
    ├── CatalogError     an unknown name, or a catalog file that breaks its schema
    ├── ModelError       a config.json that cannot become a Model
    ├── ClusterError     a cluster that cannot be built
    ├── PlanError        a plan that breaks its model's or its cluster's rules: all violations at once
    │   └── NoFitError   legal plans, of which none fits the memory: an answer, so the command line exits with 1, not 2
    ├── MigError         MIG instances that cannot stand together, or nvidia-smi text that cannot be read: all problems
    └── TableError       a table of measurements that cannot be read

A message gives the value, the rule, and what would work.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "CatalogError",
    "ClusterError",
    "MigError",
    "ModelError",
    "NoFitError",
    "PlanError",
    "PodsimError",
    "TableError",
    "UnitError",
    "unknown_name",
]


class PodsimError(ValueError):
    """The root of the tree: something the user gave cannot be used."""


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
    """Every legal plan needs more memory than a GPU has."""


class MigError(PlanError):
    """Instances of a GPU that cannot stand together, or a state that cannot be read; `problems` holds everything."""


class TableError(PodsimError):
    """A table of measurements with missing columns or unreadable cells."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Text for an unknown name: the closest matches, then what is known."""
    names = sorted(known)
    close = get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}? " if close else ""
    shown = ", ".join(names[:40]) + (", …" if len(names) > 40 else "")
    return f"unknown {kind} {name[:80]!r}: {hint}known: {shown}"
