"""The tokens of a sequence that a model was trained with, where its config gives only the context window."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from podsim.workload.catalog import entries
from podsim.workload.model import Model

_ANY = "other"


class TrainedLength(NamedTuple):
    """Tokens of a sequence in most of the pre-training."""

    tokens: int
    source: str


@cache
def _lengths() -> dict[str, TrainedLength]:
    """By family, as in a config's model_type."""
    text = (files("podsim.workload") / "catalog" / "trained_lengths.toml").read_text("utf-8")
    return {
        name: TrainedLength(int(entry["tokens"]), str(entry["source"]))
        for name, entry in tomllib.loads(text).items()
    }


def trained_length(model: Model) -> TrainedLength:
    """The trained length of a model, never more than its context window.

    A model of the catalog states its own; for a config.json the family decides.
    """
    known = entries().get(model.name)
    if known is not None and known.specification.source == model.source:
        return TrainedLength(model.sequence, model.source)
    family = model.family.removesuffix("_text")
    entry = _lengths().get(family) or _lengths()[_ANY]
    if model.sequence <= entry.tokens:
        return TrainedLength(model.sequence, model.source)
    return entry
