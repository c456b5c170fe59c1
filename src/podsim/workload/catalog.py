"""Models by name, and the user's changes to them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from podsim.errors import CatalogError, ModelError, PodsimError, unknown_name
from podsim.packaged import packaged_toml
from podsim.records import dataclass, fields, replace
from podsim.units import format_quantity, parse_count
from podsim.workload.model import Model
from podsim.workload.model_names import is_repository, known_model, unknown_model
from podsim.workload.specification import Transformer, shown
from podsim.workload.transformer import build

Value = str | int | bool | tuple[int, ...]

_TYPES = {field.name: str(field.type) for field in fields(Transformer)}
_OWN_KEYS = ("published", "aliases", "pattern", "kinds")
_FIXED = ("family", "source", "variations", "extras", "vision", "captured", "assumptions", "doubts")
"""The fields that no override changes."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model of the catalog."""

    specification: Transformer
    published: int | str
    """The published number of parameters: a number is exact, text is rounded to its last digit."""
    aliases: tuple[str, ...] = ()


def load_model(name_or_path: str | Path, overrides: Mapping[str, Value] | None = None) -> Model:
    """A Model by its name in the catalog, or from a config.json (a file, or the folder that holds it).

    Names of the catalog come first; a path is a text that exists as a file, has a slash or ends in .json. `overrides`
    changes fields of the Transformer, as text or as values: {"sequence": "8192", "model.layers": 12}. Raises
    ModelError for an unknown name (with the closest ones), a broken config, or overrides that do not fit. The override
    `force` reads a config.json of which parts are not understood.
    """
    specification = load_specification(name_or_path, overrides)
    is_text = all(isinstance(value, str) for value in (overrides or {}).values())
    return _built(specification) if is_text else build(specification)


_built = lru_cache(maxsize=64)(build)


def load_specification(name_or_path: str | Path, overrides: Mapping[str, Value] | None = None) -> Transformer:
    """The specification of a model; see `load_model`."""
    if not isinstance(name_or_path, (str, Path)):
        raise ModelError(f"cannot load a model from {shown(name_or_path)}: give a name or a path")
    changes = {str(key).removeprefix("model."): value for key, value in (overrides or {}).items()}
    text = str(name_or_path)
    known = _by_any_name()
    entry = known.get(text.lower())
    if entry is not None and isinstance(name_or_path, str):
        spec = entry.specification
    elif isinstance(name_or_path, Path) or _is_path(text):
        from podsim.workload.huggingface import read_specification  # families that the catalog has no need of

        if not Path(text).exists() and (name := known_model(text, known)):
            raise ModelError(f"no file {text[-100:]}; the catalog has {name}").offer(model=name)
        spec = read_specification(name_or_path, forced=_is_forced(changes))
    elif name := known_model(text, known):
        spec = known[name].specification
    elif text.lower() in captured_names():
        raise ModelError(
            f"{text} is a captured network, not a transformer: `podsim predict {text} --on dgx-a100` costs its training "
            f"step, `podsim plan {text} --on dgx-a100` divides it over GPUs, `podsim graph {text} --on a100 --batch 32` "
            f"costs its ops, `podsim serve batches {text} --on a100` its inference"
        )
    else:
        raise unknown_model(text, {**known, **dict.fromkeys(captured_names())})
    return with_overrides(spec, {key: value for key, value in changes.items() if key != "force"})


def _is_forced(changes: Mapping[str, Value]) -> bool:
    """Whether a config is read although parts of it are in doubt."""
    value = changes.get("force", False)
    return _read_flag("force", value) if isinstance(value, str) else bool(value)


def _is_path(text: str) -> bool:
    if text.lower().endswith((".json", "/")) or ("/" in text and not is_repository(text)):
        return True
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def model_names() -> tuple[str, ...]:
    """Names of the catalog, without aliases, in its order."""
    return tuple(entries())


def any_model_names() -> tuple[str, ...]:
    """Names and aliases of the catalog."""
    return tuple(_by_any_name())


def with_overrides(spec: Transformer, changes: Mapping[str, Value]) -> Transformer:
    """The specification with some fields changed; raises ModelError with all that cannot be."""
    problems: list[str] = []
    values: dict[str, Value] = {}
    for key, value in changes.items():
        name = str(key).removeprefix("model.")
        if name not in _TYPES or name in _FIXED:
            problems.append(unknown_name("field", name, (n for n in _TYPES if n not in _FIXED)))
            continue
        try:
            values[name] = _value(name, value)
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ModelError(f"model {shown(spec.name)}: cannot override: " + "; ".join(problems))
    changed: dict[str, Any] = dict(values)
    return replace(spec, **changed) if changed else spec


def _value(name: str, value: Value) -> Value:
    """A value of the field's type; text is read, the rest is left to the rules of the specification."""
    kind = _TYPES[name]
    if kind.startswith("tuple") and isinstance(value, (str, list, int)) and not isinstance(value, bool):
        items = [x for x in value.split(",") if x.strip()] if isinstance(value, str) else value
        return tuple(_read_integer(name, x) for x in (items if isinstance(items, list) else [items]))
    if not isinstance(value, str):
        return value
    if kind == "bool":
        return _read_flag(name, value)
    return _read_integer(name, value) if kind == "int" else value


def _read_flag(name: str, text: str) -> bool:
    known = {
        "true": True,
        "yes": True,
        "1": True,
        "on": True,
        "false": False,
        "no": False,
        "0": False,
        "off": False,
    }
    if text.strip().lower() not in known:
        raise ValueError(f"{name}={shown(text)} must be true or false")
    return known[text.strip().lower()]


def _read_integer(name: str, value: object) -> int:
    if type(value) is int:
        return value
    text = value.strip().replace("_", "").removeprefix("+") if isinstance(value, str) else ""
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise ValueError(f"{name}={shown(value)} must be a whole number")
    return int(text)


@cache
def captured_names() -> frozenset[str]:
    """Names of the networks that are captured op by op, whose tables stand with their graphs."""
    tables = (Path(__file__).parents[1] / "graphs" / "networks").glob("*.toml")
    return frozenset(name for table in tables for name in packaged_toml(f"graphs/networks/{table.name}"))


def is_captured(model: object) -> bool:
    """Whether a name is that of a captured network."""
    return isinstance(model, str) and model.lower() in captured_names()


@cache
def entries() -> dict[str, Entry]:
    """The models of the catalog by name."""
    return _made(packaged_toml("workload/catalog/models.toml"))


@cache
def _by_any_name() -> dict[str, Entry]:
    known = entries()
    return known | {alias: entry for entry in known.values() for alias in entry.aliases}


def read_catalog(text: str) -> dict[str, Entry]:
    """Entries of a catalog in TOML: tables `defaults.FAMILY` and `models.NAME`.

    Raises CatalogError with every entry that lacks its family, source or published size, or has unknown keys,
    and with names given twice.
    """
    try:
        return _made(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CatalogError(f"catalog of models: {error}") from error


def _made(tables: Mapping[str, Any]) -> dict[str, Entry]:
    """The entries of a parsed catalog."""
    defaults, models = tables.get("defaults", {}), tables.get("models", {})
    problems = [f"unknown table {name!r}" for name in tables if name not in ("defaults", "models")]
    made: dict[str, Entry] = {}
    names: set[str] = set()
    for name, table in models.items():
        given = {**defaults.get(table.get("family"), {}), **table}
        flaws = _flaws(name, given)
        if not flaws:
            made[name] = _entry(name, given)
            flaws = [f"{n} is named twice" for n in (name, *made[name].aliases) if n in names]
            names.update((name, *made[name].aliases))
        problems += flaws
    if problems:
        raise CatalogError("catalog of models: " + "; ".join(problems))
    return made


def _flaws(name: str, table: Mapping[str, Any]) -> list[str]:
    needed = ("family", "source", "published", "layers", "hidden", "heads", "vocab", "sequence")
    missing = [f"{name} lacks {key}" for key in needed if not table.get(key)]
    unknown = [f"{name}: unknown key {key!r}" for key in table if key not in _TYPES and key not in _OWN_KEYS]
    return missing + unknown


def _entry(name: str, table: Mapping[str, Any]) -> Entry:
    own = {key: value for key, value in table.items() if key not in _OWN_KEYS}
    given: dict[str, Any] = {key: _frozen(x) for key, x in own.items()}
    if "pattern" in table:  # a letter a layer, and what layers of that letter have otherwise
        kinds = {
            letter: tuple((key, _frozen(x)) for key, x in kind.items())
            for letter, kind in table["kinds"].items()
        }
        given["variations"] = tuple(kinds[letter] for letter in table["pattern"])
    return Entry(
        specification=Transformer(name=name, **given),
        published=table["published"],
        aliases=tuple(table.get("aliases", ())),
    )


def _frozen(value: Any) -> Any:
    """A list of TOML as a tuple, to its depth."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def network_size(
    model: str | Path, counts: str, overrides: Mapping[str, str] | None = None
) -> tuple[str, float, list[str]]:
    """(name, parameters that a law of the loss counts, remarks) of a model, or of a number of parameters.

    `counts` is what the law counts: all that work on a token, or those without
    embeddings and the head's matrix ("non-embedding"), as Kaplan et al. 2020, section 2.1, count them.
    """
    if isinstance(model, str) and model[:1].isdecimal() and not Path(model).exists():
        try:
            return f"{model} parameters", parse_count(model, "parameters"), []
        except PodsimError:
            pass
    network = load_model(model, overrides)
    total, active = float(network.parameters), float(network.active_parameters)
    remarks = []
    if active < total:
        working = f"{format_quantity(active, '')} of {format_quantity(total, '')} parameters work on a token"
        remarks.append(f"{working}: the loss of a dense network of these; the other experts lower it further")
    spec = load_specification(model, overrides)
    if spec.bidirectional or spec.encoder_layers:
        remarks.append(
            f"{network.name} is no decoder: the law is of the next token, so take sizes from it, not losses"
        )
    ends = (*network.embedding.ops, *network.head.ops)
    tables = float(sum(op.weight for op in ends if op.kind == "embedding" or op.split == "vocab"))
    return network.name, active - tables if counts == "non-embedding" else active, remarks


_OTHER_FAMILY = "other"
"""the entry of trained_lengths.toml for families without one"""


class TrainedLength(NamedTuple):
    """Tokens of a sequence in most of the pre-training."""

    tokens: int
    source: str


@cache
def _trained_lengths() -> dict[str, TrainedLength]:
    """By family, as in a config's model_type."""
    return {
        name: TrainedLength(int(entry["tokens"]), str(entry["source"]))
        for name, entry in packaged_toml("workload/catalog/trained_lengths.toml").items()
    }


def trained_length(model: Model) -> TrainedLength:
    """The trained length of a model, never more than its context window.

    A model of the catalog states its own; for a config.json the family decides.
    """
    known = entries().get(model.name)
    if known is not None and known.specification.source == model.source:
        return TrainedLength(model.sequence, model.source)
    family = model.family.removesuffix("_text")
    entry = _trained_lengths().get(family) or _trained_lengths()[_OTHER_FAMILY]
    if model.sequence <= entry.tokens:
        return TrainedLength(model.sequence, model.source)
    return entry
