"""Tables that podsim packages next to the code that uses them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any


@cache
def packaged_toml(place: str) -> dict[str, Any]:
    """The content of a TOML file by its place in the package, such as "fleet/power.toml"; nobody may change it."""
    return tomllib.loads(files("podsim").joinpath(place).read_text("utf-8"))


def packaged_csv(place: str) -> list[dict[str, str]]:
    """The rows of a CSV file by its place in the package, plain or with a name that ends in .gz."""
    packed = files("podsim").joinpath(place).read_bytes()
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
