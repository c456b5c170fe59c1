"""Tables that podsim packages next to the code that uses them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import source_hash
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from podsim.cache_folder import cache_folder

before_loading: list[Callable[[], None]] = []
"""what is called before a large library is loaded, which stops all threads, so that a progress line is printed first"""
_PACKAGE = Path(__file__).parent
_MODEL = "a model of pydantic"


@cache
def packaged_toml(place: str) -> dict[str, Any]:
    """The content of a TOML file by its place in the package, such as "fleet/power.toml"; nobody may change it."""
    content: dict[str, Any] = once_read((place,), import_module("tomllib").loads)
    return content


def once_read(files: tuple[str, ...], read: Callable[[str], Any]) -> Any:
    """What a function makes of the text of a packaged file, the first of `files`; models of pydantic are plain objects.

    The user's cache keeps it while that file and the others, the modules that read it, stay the same: a later process
    loads none of them. What cannot be kept, or is damaged, is read again.
    """
    contents = [(_PACKAGE / file).read_bytes() for file in files]
    folder = cache_folder("tables") or _PACKAGE / "none"  # which nobody makes
    path = folder / f"{files[0].replace('/', '-')}-{source_hash(b''.join(contents)).hex()}"
    with suppress(OSError):
        kept = path.read_bytes()
        if kept[:8] == source_hash(kept[8:]):
            return _restored(json.loads(kept[8:]))
    plain = _plain(read(contents[0].decode("utf-8")))
    with suppress(OSError, TypeError):  # a full disk; a date, which JSON does not know
        packed = json.dumps(plain).encode()
        import_module("podsim.whole_files").write_whole(path, source_hash(packed) + packed)
        plain = json.loads(packed)
    return _restored(plain)


def _plain(value: Any) -> Any:
    """A value whose models are dictionaries with a mark."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return {_MODEL: _plain(dict(value))} if hasattr(value, "model_dump") else value


def _restored(value: Any, *, in_model: bool = False) -> Any:
    """A value whose models are objects, with tuples."""
    if isinstance(value, dict):
        is_model = _MODEL in value
        parts = value[_MODEL] if is_model else value
        parts = {key: _restored(part, in_model=in_model or is_model) for key, part in parts.items()}
        return SimpleNamespace(**parts) if is_model else parts
    if in_model and isinstance(value, list):
        return tuple(_restored(part, in_model=True) for part in value)
    return value


def packaged_csv(place: str) -> list[dict[str, str]]:
    """The rows of a CSV file by its place in the package, plain or with a name that ends in .gz."""
    packed = (_PACKAGE / place).read_bytes()
    text = (gzip.decompress(packed) if place.endswith(".gz") else packed).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def install_hint(extra: str) -> str:
    """The command that installs an extra: in a checkout, or from a package index."""
    return f"pip install '{'.' if _is_checkout() else 'podsim'}[{extra}]'"


@cache
def _is_checkout() -> bool:
    """Whether podsim runs in its repository, or was installed from a folder that has it."""
    if (Path(__file__).parents[2] / "pyproject.toml").is_file():
        return True
    from importlib.metadata import PackageNotFoundError, distribution  # which takes time to load

    try:
        origin = json.loads(distribution("podsim").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return False
    return "dir_info" in origin
