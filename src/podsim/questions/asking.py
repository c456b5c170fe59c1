"""One question asks another by its name, which loads it only then."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def ask(name: str, /, *arguments: Any, **options: Any) -> Any:
    """The answer of a public function of podsim, as ask("plan", model, on="selene"); raises what it raises."""
    return getattr(import_module("podsim"), name)(*arguments, **options)
