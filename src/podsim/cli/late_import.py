"""Imports that wait until a command needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """What MODULE:NAME of podsim is, or a public NAME of podsim: the one place where commands import what they need."""
    module, colon, attribute = name.rpartition(":")
    return getattr(import_module(f"podsim.{module}" if colon else "podsim"), attribute)
