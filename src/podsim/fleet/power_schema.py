"""The schema of packaged figures of power and of prices. Files that break it are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from podsim.errors import CatalogError

Share = Annotated[float, Field(gt=0, le=2)]
Positive = Annotated[float, Field(gt=0, lt=1e12, allow_inf_nan=False)]


class _Sourced(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    source: str = Field(min_length=3)
    date: str = Field(min_length=4)


class _Table(_Sourced):
    confirmed: str = Field(pattern="^(yes|no)$")


class _Gpu(_Table):
    idle: Share
    training: Share
    peak: Share


class _Server(_Table):
    idle: Share
    busy: Share
    peak: Share


class _Switch(_Table):
    watts: Positive


class _Cap(_Table):
    exponent: Share


class _Value(_Table):
    value: Annotated[float, Field(ge=0, le=10)]


class _Hpl(_Table):
    memory: Share
    multiply: Share


class Figures(BaseModel):
    """The power of parts, as shares of the limits in their data sheets."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    gpu: _Gpu
    server: _Server
    switch: _Switch
    cap: _Cap
    pue: _Value
    carbon: _Value
    """The carbon intensity of electricity, in kg per kWh."""
    electricity: _Value
    """The price of electricity, in USD per kWh."""
    hpl: _Hpl


class PriceEntry(_Sourced):
    """A price: `low` (and `high`) per GPU-hour, or a `purchase`. The kind of an owner's cost begins with "own"."""

    provider: str = Field(min_length=2)
    offer: str = Field(min_length=2)
    gpus: tuple[str, ...] = Field(min_length=1)
    kind: str = Field(min_length=3)
    low: Positive | None = None
    high: Positive | None = None
    purchase: Positive | None = None
    per: Annotated[int, Field(ge=1)] = 1
    """The number of GPUs of the purchase."""
    years: Positive = 4.0
    power: Positive | None = None
    """W. The power of a GPU with its part of server, network and building."""

    @model_validator(mode="after")
    def _check_price(self) -> PriceEntry:
        if (self.low is None) == (self.purchase is None):
            raise ValueError("give low (and high), or purchase")
        if self.high is not None and (self.low is None or self.high < self.low):
            raise ValueError("high must be at least low")
        return self


def parse_figures(raw: Mapping[str, Any], _: str) -> Figures:
    """The figures of power of a file."""
    return Figures.model_validate(raw)


def parse_prices(raw: Mapping[str, Any], file: str) -> dict[str, PriceEntry]:
    """The prices of a file by name. Raises CatalogError with all problems of the file."""
    entries: dict[str, PriceEntry] = {}
    problems: list[str] = []
    for name, entry in raw.items():
        try:
            entries[name] = PriceEntry.model_validate(entry)
        except ValidationError as error:
            problems += [
                f"[{name}] {'.'.join(map(str, e['loc']))}: {e['msg'].removeprefix('Value error, ')} "
                f"(given: {str(e['input'])[:60]!r})"
                for e in error.errors(include_url=False)
            ]
    if problems:
        raise CatalogError(f"{file}: {'; '.join(problems)}")
    return entries


class ListPrices(_Sourced):
    """Prices of one accelerator of each kind, as makers or clouds list them. Only their ratios count."""

    usd: dict[str, Positive]


def parse_list_prices(raw: Mapping[str, Any], _: str) -> dict[str, ListPrices]:
    """The tables of list prices of a file, by name."""
    return {name: ListPrices.model_validate(table) for name, table in raw.items()}
