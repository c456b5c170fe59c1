"""What a config.json holds that nothing read, and how its parameters compare with the figures in its name.

A key is read, known to be irrelevant to sizes (`catalog/config_keys.toml`), or it is named. An unread key that may size
a tensor stops the reading: a tensor of another size would be planned without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from podsim.packaged import packaged_toml
from podsim.workload.config_json import Config
from podsim.workload.model import Model
from podsim.workload.specification import shown

_LEAST_SIZE = 16
"""The least whole number that sizes a tensor whatever its key is called."""
_WRONG, _DOUBTFUL = 1.35, 1.1
"""factors. A count this far from that in the name stops, or is said."""
EXACT = 0.01
"""share. How far a model's parameters may be off"""
_MOST_NAMED = 12

_TOTAL = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:[._]\d+)?)([BMT])(?![A-Za-z0-9])", re.IGNORECASE)
_ACTIVE = re.compile(r"(?<![A-Za-z0-9])A(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.IGNORECASE)
_ACTIVE_OF_EXPERTS = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)(B)-\d+E(?![A-Za-z0-9])", re.IGNORECASE)
_UNITS = {"M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What stops the reading of a config, and what is only said."""

    stops: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """One of the lists of config_keys.toml, as a pattern that a whole key must match."""
    groups = packaged_toml("workload/catalog/config_keys.toml")[name]
    return re.compile("|".join(word for words in groups.values() for word in words))


def audit_keys(raw: Mapping[str, Any], c: Config, layers: int) -> Findings:
    """The keys of a file that were not read, after it was read through `c` as so many layers."""
    unread = list(_unread(raw, "", c.read))
    stops = [(path, value) for path, value in unread if _may_size(path, value, layers, c.assumed)]
    remarks = [path for path, value in unread if (path, value) not in stops]
    more = f" and {len(remarks) - _MOST_NAMED} more" if len(remarks) > _MOST_NAMED else ""
    return Findings(
        stops=tuple(
            f"{path}={_text(value)} may size a tensor, and nothing reads it"
            for path, value in stops[:_MOST_NAMED]
        ),
        remarks=(f"keys of the file that nothing reads: {', '.join(remarks[:_MOST_NAMED])}{more}",)
        if remarks
        else (),
    )


def _unread(raw: Mapping[str, Any], prefix: str, read: set[str]) -> Iterator[tuple[str, Any]]:
    """Paths and values of keys that nothing read and no list knows."""
    for key, value in raw.items():
        path = f"{prefix}{key}"
        if value in (None, "", [], {}) or f"{path}." in read or _pattern("irrelevant").fullmatch(str(key)):
            continue
        parts = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
        nested = [part for part in parts if isinstance(part, dict)]
        if nested:
            inner = {pair[0]: pair for part in nested for pair in _unread(part, f"{path}.", read)}
            yield from (pair for pair in inner.values() if not _is_flattened(pair[0], read))
        elif not {path, f"text_config.{path}"} & read:
            yield path, value


def _is_flattened(path: str, read: set[str]) -> bool:
    """Whether a key of a group was read as if it stood outside (DBRX's attn_config)."""
    group, _, name = path.rpartition(".")
    return group in ("attn_config", "ffn_config") and name in read


def _may_size(path: str, value: Any, layers: int, assumed: Mapping[str, object]) -> bool:
    """Whether a value under an unknown key may be the size of a tensor, or say which layers have one."""
    name = path.rpartition(".")[2].lower()
    if _pattern("remarked").fullmatch(name):
        return False
    has_size_name = bool(_pattern("sizing").search(name))
    if isinstance(value, bool):
        other = any(taken is not value for taken in assumed.values() if isinstance(taken, bool))
        return (other or value) and bool(_pattern("flags").search(name))
    if isinstance(value, (int, float)):
        is_open = any(not isinstance(taken, bool) for taken in assumed.values())
        least = 1 if has_size_name or is_open else _LEAST_SIZE
        return value >= least and (isinstance(value, int) or has_size_name)
    if isinstance(value, str):
        return len(value) == layers > 3 or ("pattern" in name and len(value) > 3)
    if isinstance(value, list):
        is_of_layers = len(value) == layers > 3 and not any(type(x) is float for x in value)
        return has_size_name or is_of_layers or all(type(x) is int for x in value)
    return False


def _text(value: Any) -> str:
    return f"a list of {len(value)}" if isinstance(value, list) else shown(value)


def assumed_sizes(c: Config) -> tuple[str, ...]:
    """A line of the sizes that a file leaves out, with what was taken."""
    named = [
        f"{path}={shown(value)}" if value != "" else path
        for path, value in c.assumed.items()
        if value != "" or not path.startswith("vision_config.")
    ]
    return (f"not in the file, so as its class has it: {', '.join(named[:_MOST_NAMED])}",) if named else ()


def audit_name(model: Model, names: tuple[str, ...]) -> Findings:
    """How a model's counts compare with "120B" and "A12B" in the first of its names that has such figures.

    Of several figures the nearest counts. "8x7B" and "E4B" are no counts.
    """
    stops, remarks = [], []
    totals, actives = _stated(names)
    for what, figures, count in (
        ("parameters", totals, model.parameters),
        ("active parameters", actives, model.active_parameters),
    ):
        if not figures:
            continue
        text, figure = min(figures.items(), key=lambda pair: _ratio(count, pair[1]))
        said = f"{count / 1e9:,.4g}G {what} by its keys, {text} by its name: {_ratio(count, figure):.3g} times apart"
        if _ratio(count, figure) > _WRONG:
            stops.append(said)
        elif _ratio(count, figure) > _DOUBTFUL:
            remarks.append(said)
    return Findings(stops=tuple(stops), remarks=tuple(remarks))


def audit_class(model: Model, counted: int) -> tuple[str, ...]:
    """What forbids to trust a model whose class in transformers counts other parameters; 0 is no count."""
    if not counted or _ratio(model.parameters, counted) <= 1 + EXACT:
        return ()
    return (f"{model.parameters:,} parameters by its keys, {counted:,} by its class in transformers",)


def _ratio(count: float, figure: float) -> float:
    return max(count / figure, figure / max(count, 1))


def _stated(names: tuple[str, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """(total, active) parameters that the first name with such figures states, each with its text."""
    for name in names:
        actives = _figures(_ACTIVE, name) | _figures(_ACTIVE_OF_EXPERTS, name)
        totals = {text: size for text, size in _figures(_TOTAL, name).items() if text not in actives}
        billions = {text: size for text, size in totals.items() if text[-1] in "bB"}
        if actives or totals:
            return billions or totals, actives
    return {}, {}


def _figures(pattern: re.Pattern[str], name: str) -> dict[str, float]:
    """Numbers in a name by their text; of 3_3 and 3.3 both are a decimal."""
    return {
        f"{number}{unit}": float(number.replace("_", ".")) * _UNITS[unit.upper()]
        for number, unit in pattern.findall(name)
        if float(number.replace("_", ".")) > 0
    }


def names_of(path: Path | None, raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of a config that may state its size: of its file, its folder, its repository, and in it."""
    names = []
    if path is not None:
        path = path.absolute()
        names = [path.name if path.name != "config.json" else "", path.parent.name]
        names += [part.removeprefix("models--") for part in path.parts if part.startswith("models--")]
    own = raw.get("_name_or_path")
    return tuple(name[:200] for name in (*names, own) if isinstance(name, str))
