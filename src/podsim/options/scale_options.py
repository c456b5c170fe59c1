"""Options about scaling laws: the loss of a network by its parameters and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.options.plan_options import JobOptions, SearchOptions, TrainedFields
from podsim.options.question import like, option, overrides_option, pairs

FORMS = ("auto", "coupled", "additive", "kaplan")


@dataclass(frozen=True, kw_only=True)
class ScaleFitOptions:
    """Runs to which a law is fitted."""

    file: Path = option(MISSING, "CSV of finished runs.", argument=True, example="runs.csv")
    params: str = option("", "Column of the parameters, where its name is unusual.", also=("parameters",))
    tokens: str = option("", "Column of the tokens.")
    loss: str = option("", "Column of the losses.")
    unit: str = option("", "Unit of the losses: nats, bits or perplexity; default by names.")
    only: Mapping[str, str] | None = option(
        None, "Rows whose column has a value: source=chinchilla. Repeatable.", read=pairs("source=chinchilla"),
        metavar="COLUMN=VALUE", also=("where", "filter"),
    )  # fmt: skip
    form: str = option("auto", "Form of the law: auto, coupled, additive, kaplan.", choices=FORMS)
    shape: str = option("", "Fit one offset to this law only: podsim, besiroglu, or a saved law.")
    ratio: str = option("5:1000", "Tokens a parameter of the runs that are fitted, LOW:HIGH.")
    hold_out: float = option(0.2, "Share of the runs, by compute, that a check holds out.")
    bootstraps: int = option(200, "Bootstraps of the band.")
    save: Path | None = option(None, "Write the law to this file, for --law.")


@dataclass(frozen=True, kw_only=True)
class ScaleLossOptions:
    """A network whose loss is asked."""

    model: str = option(
        MISSING, "Model of the catalog, a config.json, or parameters: 8B.", argument=True,
        example="llama-3.1-8b", complete="models",
    )  # fmt: skip
    tokens: str | float | None = option(None, "Tokens of training, e.g. 15T.", example="15T", kind=str)
    target: float | None = option(None, "A loss to reach, nats: says how many tokens it takes.", kind=float)
    law: str = option("", "Law: podsim, a name of `podsim scale laws`, or a saved one.")
    unique_tokens: str | float | None = option(None, "Tokens that differ, where they repeat, e.g. 1T.")


@dataclass(frozen=True, kw_only=True)
class ScaleBestOptions:
    """A machine, and the days that it may train."""

    on: str = like(JobOptions, "on")
    gpus: int | None = like(JobOptions, "gpus")
    days: str | float = option(
        MISSING, "Days of training, with failures.", kind=str, example="30", also=("deadline",)
    )
    law: str = like(ScaleLossOptions, "law")
    model: str = option("", "Take this model, and say its loss and the best.", complete="models")
    inference_tokens: str | float | None = option(
        None, "Tokens to infer of the same compute, e.g. 2T: a smaller network, trained longer.", also=("serve-tokens",)
    )  # fmt: skip
    unique_tokens: str | float | None = like(ScaleLossOptions, "unique_tokens")
    batch: int | str | None = like(JobOptions, "batch")
    sequence: int | str | None = like(TrainedFields, "sequence")
    software: Any = like(TrainedFields, "software")
    price: str | float = like(SearchOptions, "price")
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory=64GB, network.bandwidth=100Gb/s")
