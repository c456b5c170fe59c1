"""Public names are documented; attributes of public dataclasses say their unit and meaning, and carry no unit."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest

import podsim

ROOT = Path(__file__).parents[2]
SUFFIX = re.compile(
    r"_(s|sec|secs|ms|us|ns|kb|mb|gb|tb|kib|mib|gib|tib|bps|gbps|gflops|tflops|pflops|watts|kw|mw|mhz|ghz|percent|pct)$"
)
NOUN_PHRASE = re.compile(r"(The|A|An|One|Each|Whether|\w+'s) \S")
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src" / "podsim").rglob("*.py")
    if path.name != "__init__.py"
)

_SPEC = importlib.util.spec_from_file_location("nomenclature", ROOT / "scripts" / "nomenclature.py")
assert _SPEC is not None
assert _SPEC.loader is not None
nomenclature = importlib.util.module_from_spec(_SPEC)
sys.modules["nomenclature"] = nomenclature
_SPEC.loader.exec_module(nomenclature)
DOCUMENTED = [
    documented for module in nomenclature.modules() for documented in nomenclature.dataclasses_of(module)
]
ATTRIBUTES = [(documented, attribute) for documented in DOCUMENTED for attribute in documented.attributes]


def test_public_names_exist_and_are_documented() -> None:
    for name in podsim.__all__:
        value = getattr(podsim, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name
    assert set(podsim.__all__) <= set(dir(podsim))
    with pytest.raises(AttributeError, match="spiral"):
        podsim.spiral  # noqa: B018


def test_modules_say_what_they_are_and_only_packages_list_names() -> None:
    for module in MODULES:
        imported = importlib.import_module(module)
        assert (imported.__doc__ or "").strip(), module
        assert not hasattr(imported, "__all__"), f"{module}: a package's __init__ lists public names"


def test_every_exported_dataclass_is_documented() -> None:
    known = {f"podsim.{documented.module.replace('/', '.')}.{documented.name}" for documented in DOCUMENTED}
    for name in podsim.__all__:
        value = getattr(podsim, name)
        if inspect.isclass(value) and dataclasses.is_dataclass(value):
            assert f"{value.__module__}.{value.__qualname__}" in known


def test_floats_say_their_unit() -> None:
    """A number's unit begins its docstring; of texts, switches, counts and objects the type says enough."""
    silent = [
        f"{documented.name}.{attribute.name}"
        for documented, attribute in ATTRIBUTES
        if re.search(r"\b(float|Floats)\b", attribute.type) and not attribute.unit
    ]
    assert not silent


def test_meanings_are_noun_phrases() -> None:
    """As "The bandwidth of one port.", in all dataclasses; a docstring may be left out where the name says it all."""
    files = [
        path.relative_to(nomenclature.SOURCE).with_suffix("") for path in nomenclature.SOURCE.rglob("*.py")
    ]
    fragments = [
        f"{documented.name}.{attribute.name}: {attribute.meaning}"
        for file in files
        for documented in nomenclature.dataclasses_of(file.as_posix(), private=True)
        for attribute in documented.attributes
        if attribute.meaning and not (NOUN_PHRASE.match(attribute.meaning) and attribute.meaning[-1] in ".…")
    ]
    assert not fragments


def test_no_name_carries_a_unit() -> None:
    for documented, attribute in ATTRIBUTES:
        assert not SUFFIX.search(attribute.name), f"{documented.name}.{attribute.name}"


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
