"""Tables that podsim packages next to the code that uses them."""

from __future__ import annotations

import csv
import gzip
import io
import tomllib
from functools import cache
from importlib.resources import files
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
