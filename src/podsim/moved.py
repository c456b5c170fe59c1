"""Old places of names that the documents of version 0.1 imported: they still work, with a warning.

Importing this module is what makes them work.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
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
