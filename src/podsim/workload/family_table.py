"""Which keys of a config.json mean which field of a Transformer: the table families.toml, and its reader.

A value of the table is a constant, or names keys:

    "$a|b"      the first of the keys a, b that the config has
    "$a=0"      with a default; without one the key is required
    ["$a", "$b", 2]    their product; a list of such lists is the sum of the products

A key of `qk_norm` is a flag: with it there is a norm of each head.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

from podsim.packaged import packaged_toml
from podsim.workload.config_json import Config
from podsim.workload.specification import LIMITS, Transformer, shown

Fields = dict[str, Any]
_TYPES: Mapping[str, str] = Transformer.__annotations__  # texts, as its module postpones them


@dataclass(frozen=True, kw_only=True)
class Family:
    """A row of the table: the families that it takes over, then its own fields."""

    name: str
    fields: Mapping[str, Any]
    """The fields of a Transformer, as constants or keys."""
    layers: Mapping[str, Mapping[str, Any]]
    """The fields that layers of a kind (full, sliding, linear, dense, sparse) have otherwise."""
    state: str = ""
    """The kind of scan in its linear layers, a function of `state_keys`."""
    assumes: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    """The keys that its layers have no need of, and those, as key=value, that they take to have one value."""


def families() -> dict[str, Family]:
    """The families of language models by model_type."""
    return read_table("families.toml")


@cache
def read_table(file: str) -> dict[str, Family]:
    """The families of a table of the catalog by model_type."""
    table = packaged_toml(f"workload/catalog/{file}")
    made: dict[str, Family] = {}
    for name, row in table.items():
        above = made[row["like"]] if "like" in row else None
        own = {
            key: value
            for key, value in row.items()
            if key not in ("like", "kinds", "state", "names", "assumes", "ignores")
        }
        family = Family(
            name=name,
            fields={**(above.fields if above else {}), **own},
            layers={**(above.layers if above else {}), **row.get("kinds", {})},
            state=row.get("state", above.state if above else ""),
            assumes=tuple(row.get("assumes", above.assumes if above else ())),
            ignores=(*row.get("ignores", ()), *(above.ignores if above else ())),
        )
        for other in (name, *row.get("names", ())):
            made[other] = family
    return made


@cache
def class_defaults() -> dict[str, dict[str, Any]]:
    """What the config class of a model_type in transformers takes for keys that a file leaves out."""
    text = (files("podsim.workload") / "catalog" / "class_defaults.json").read_text(encoding="utf-8")
    defaults: dict[str, dict[str, Any]] = json.loads(text)
    return defaults


def read_fields(c: Config, rules: Mapping[str, Any]) -> Fields:
    """The fields of a row, with their values in a config."""
    return {name: read_value(c, name, rule) for name, rule in rules.items() if name in _TYPES}


def pass_over(c: Config, family: Family) -> None:
    """Mark the keys that a family's layers have no need of as read; complain of values that they do not have."""
    for text in family.ignores:
        key, equals, known = text.partition("=")
        value = c.value(key)
        c.read.add(f"{c.prefix}{key}.")
        if equals and value is not None and str(value).lower() != known:
            c.complain(
                f"{c.prefix}{key}={shown(value)}: layers of {family.name} are known with {known} alone"
            )


def read_value(c: Config, name: str, rule: Any) -> Any:
    """The value of one field of the table in a config; see the module."""
    if name == "extras":
        sizes = (tuple(int(read_value(c, "ffn", size)) for size in entry[1:]) for entry in rule)
        return tuple((entry[0], *pair) for entry, pair in zip(rule, sizes, strict=True) if all(pair))
    if isinstance(rule, list) and rule and isinstance(rule[0], list):
        return sum(int(read_value(c, name, term)) for term in rule)
    if isinstance(rule, list):
        product = prod(int(read_value(c, name, factor)) for factor in rule)
        return min(product, LIMITS.get(name, product))
    return _key_value(c, name, rule[1:]) if isinstance(rule, str) and rule.startswith("$") else rule


def _key_value(c: Config, name: str, rule: str) -> int | bool | str:
    """The value that keys state, by the type of the field."""
    keys, equals, default = rule.partition("=")
    names = tuple(keys.split("|"))
    if name == "qk_norm":
        return "head" if c.flag(*names, default=False) else default
    kind = _TYPES[name]
    if kind == "bool":
        return c.flag(*names, default=default == "true")
    if kind == "int":
        return c.integer(name, *names, default=int(default), least=0) if equals else c.integer(name, *names)
    return c.text(*names, default=default)
