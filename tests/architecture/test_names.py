"""Public names exist and are documented; docs/nomenclature.md and the dataclasses say the same; names carry no unit."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import pytest

import podsim

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "nomenclature.md").read_text("utf-8")
UNITS = {
    "s",
    "B",
    "B/s",
    "FLOP",
    "FLOP/s",
    "OP/s",
    "W",
    "Hz",
    "1/s",
    "share",
    "count",
    "factor",
    "text",
    "yes/no",
    "SI",
    "-",
    "J",
    "kg",
    "USD",
    "USD/s",
}
SUFFIX = re.compile(
    r"_(s|sec|secs|ms|us|ns|kb|mb|gb|tb|kib|mib|gib|tib|bps|gbps|gflops|tflops|pflops|watts|kw|mw|mhz|ghz|percent|pct)$"
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src" / "podsim").rglob("*.py")
    if path.name != "__init__.py"
)


def _rows() -> dict[str, dict[str, tuple[str, str]]]:
    """(unit, meaning) of every field of every class of the page; the classes by their full name."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    name = full = ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            name = line.split("`")[1]
        elif line.startswith("`podsim."):
            full = f"{line.split('`')[1]}.{name}"
            found[full] = {}
        elif line.startswith("| `"):
            field, unit, meaning = (cell.strip() for cell in line.strip("| ").split(" | ", 2))
            found[full][field.strip("`")] = (unit, meaning)
    return found


ROWS = _rows()


def _class(full: str) -> type:
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def test_public_names_exist_and_are_documented() -> None:
    for name in podsim.__all__:
        value = getattr(podsim, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name
    assert set(podsim.__all__) <= set(dir(podsim))
    with pytest.raises(AttributeError, match="spiral"):
        podsim.spiral  # noqa: B018


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_are_and_only_packages_list_names(module: str) -> None:
    imported = importlib.import_module(module)
    assert (imported.__doc__ or "").strip()
    assert not hasattr(imported, "__all__"), f"{module}: a package's __init__ lists public names"


@pytest.mark.parametrize("full", ROWS)
def test_every_field_has_a_row_and_every_row_a_field(full: str) -> None:
    fields = [field.name for field in dataclasses.fields(_class(full))]
    assert list(ROWS[full]) == fields, "run scripts/nomenclature.py, and read the new rows over"


def test_every_public_dataclass_is_on_the_page() -> None:
    """Every dataclass of a module that has one on the page, and every one that podsim itself exports."""
    named = {full.rpartition(".")[0] for full in ROWS}
    for module in named:
        made = importlib.import_module(module)
        for name, value in vars(made).items():
            here = inspect.isclass(value) and value.__module__ == module and dataclasses.is_dataclass(value)
            assert not here or name.startswith("_") or f"{module}.{name}" in ROWS, f"{module}.{name}"
    for name in podsim.__all__:
        value = getattr(podsim, name)
        if inspect.isclass(value) and dataclasses.is_dataclass(value):
            assert f"{value.__module__}.{name}" in ROWS


def test_units_are_si_and_meanings_said() -> None:
    for full, fields in ROWS.items():
        for field, (unit, meaning) in fields.items():
            assert unit in UNITS, f"{full}.{field}: {unit}"
            assert len(meaning) > 3, f"{full}.{field}"


def test_no_name_carries_a_unit() -> None:
    for full, fields in ROWS.items():
        for field in fields:
            assert not SUFFIX.search(field), f"{full}.{field}"


def test_every_slow_test_exists() -> None:
    """slow.txt names tests that are there, so that a renamed one does not become quick unseen."""
    tests = Path(__file__).parents[1]
    lines = [
        line for line in (tests / "slow.txt").read_text("utf-8").splitlines() if not line.startswith("#")
    ]
    missing = []
    for line in lines:
        path, name = line.split("::")
        file = tests / path
        if not file.exists() or f"def {name.partition('[')[0]}(" not in file.read_text("utf-8"):
            missing.append(line)
    assert not missing
