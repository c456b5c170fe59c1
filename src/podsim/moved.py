"""Old places of names that the documents of version 0.1 imported: they still work, with a warning.

Importing this module is what makes them work.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TABLE_NAMES = ("bubble", "build", "check_schedule", "held", "play_table", "unit_seconds")
MOVED: dict[str, dict[str, str]] = {
    "podsim.lab.checkpoints": dict.fromkeys(("opened", "saving"), "podsim.lab.checkpoint_files"),
    "podsim.training.schedules": dict.fromkeys(_TABLE_NAMES, "podsim.schedules"),
    "podsim.verbs.tables_networks": {"price_networks": "podsim.accuracy.price_networks"},
    "podsim.verify": {
        "compare_steps": "podsim.timeline.kineto_compare",
        "read_kineto": "podsim.timeline.kineto",
    },
    "podsim.verify.tables": {"load": "podsim.accuracy.tables"},
}
"""An old module -> its names -> the module that has each of them now."""


class _OldModule(ModuleType):
    """An old place of names."""

    def __getattr__(self, name: str) -> Any:
        home = MOVED[self.__name__].get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        warnings.warn(f"{self.__name__}.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)


sys.modules.update(zip(MOVED, map(_OldModule, MOVED), strict=True))


class _Alias(MetaPathFinder, Loader):
    """Imports a package under its old name while its users are moved."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module under an old name."""
        return ModuleSpec(name, self) if any(name.startswith(old) for old in ALIASES) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        return import_module(new_name(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """The module is made already."""


ALIASES: dict[str, str] = {"podsim.results": "podsim.answers"}


def new_name(name: str) -> str:
    """The name of a module now."""
    old = next(old for old in ALIASES if name.startswith(old))
    return ALIASES[old] + name.removeprefix(old)


sys.meta_path.insert(0, _Alias())
