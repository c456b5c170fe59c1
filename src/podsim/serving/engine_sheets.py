"""Sheets of the engines of language models: `podsim show engines`, `podsim show vllm`."""

from __future__ import annotations

from dataclasses import fields

from podsim.hardware.catalog import load_gpu
from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.serving.language_engines import LanguageEngine, language_engine_names, load_language_engine
from podsim.units import format_quantity

_GPUS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200")
"""GPUs whose limits a sheet shows; others have those of one of them"""
_WORDS = ("name", "title", "source", "evidence", "also")
_UNITS = {"step": "s", "request": "s", "launch": "s", "memory": "B"}


def all_engines_sheet() -> Sheet:
    """A line for each engine."""
    engines = [load_language_engine(name, load_gpu(_GPUS[1])) for name in language_engine_names()]
    rows = tuple(Row(each.name, None, "", "", each.title, each.source) for each in engines)
    return Sheet(
        name="engines", kind="engines", title="Engines of language models", sections=(Section("Engines", rows),)
    )  # fmt: skip


def engine_sheet(name: str) -> Sheet:
    """The constants and defaults of one engine, by GPU where they differ. Raises CatalogError for an unknown name."""
    engines = {gpu: load_language_engine(name, load_gpu(gpu)) for gpu in _GPUS}
    first = engines[_GPUS[0]]
    rows = [_row(field.name, engines) for field in fields(LanguageEngine) if field.name not in _WORDS]
    rows.append(Row("evidence", None, "", "", first.evidence, first.source))
    return Sheet(
        name=first.name, kind="engine", title=f"{first.name}: {first.title}",
        sections=(Section("Constants and defaults", tuple(rows)),),
    )  # fmt: skip


def _row(field: str, engines: dict[str, LanguageEngine]) -> Row:
    """A field of an engine, with the GPUs on which it differs."""
    texts = {gpu: _text(field, getattr(engine, field)) for gpu, engine in engines.items()}
    value = getattr(next(iter(engines.values())), field)
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    differs = len(set(texts.values())) > 1
    how = ", ".join(f"{text} on {gpu}" for gpu, text in texts.items()) if differs else ""
    source = next(iter(engines.values())).source
    return Row(
        field,
        None if differs else number,
        _UNITS.get(field, ""),
        "" if differs else texts[_GPUS[0]],
        how,
        source,
    )


def _text(field: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "-"
    return (
        format_quantity(value, _UNITS[field])
        if field in _UNITS and isinstance(value, float)
        else str(value) or "-"
    )
