"""Names that the documents of version 0.1 imported still work, and say where they are now."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from podsim.moved import MOVED

NAMES = [(old, name, home) for old, names in MOVED.items() for name, home in names.items()]


@pytest.mark.parametrize(("old", "name", "home"), NAMES)
def test_old_names_are_the_new_ones(old: str, name: str, home: str) -> None:
    module = import_module(old)
    with pytest.warns(DeprecationWarning, match=re.escape(f"is now {home}.{name}")):
        value = getattr(module, name)
    assert value is getattr(import_module(home), name)


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="spiral"):
        import_module("podsim.verify").spiral  # noqa: B018


def test_import_statements_find_them() -> None:
    with pytest.warns(DeprecationWarning, match="is now podsim.accuracy.tables.load"):
        from podsim.verify.tables import load
    assert load("korthikanti")
