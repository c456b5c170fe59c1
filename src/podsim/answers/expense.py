"""The power of a machine, and the energy and money of a run: plain values that name no formula. Money is in USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A price of a GPU."""

    name: str
    provider: str
    kind: str
    """The kind of offer."""
    date: str
    source: str
    low: float
    """USD/s. The price of one GPU."""
    high: float
    """USD/s. The price of one GPU at the high end; equal to `low` if it is no range."""


@dataclass(frozen=True, kw_only=True)
class LoadPower:
    """What a cluster draws under a load, by component."""

    load: str
    gpu_power: float
    """W. The power of all GPUs."""
    server_power: float
    """W. The power of the rest of all servers."""
    switch_power: float
    """W. The power of the switches of its fabric."""
    total: float
    """W. The power of all of them."""
    node: float
    """W. The power of one server with its GPUs."""
    site: float
    """W. The power at the meter, with cooling and losses of the building."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """High-Performance Linpack on a cluster."""

    rate: float
    """FLOP/s. The rate of the whole cluster."""
    size: int
    """The number of rows of the matrix."""
    busy: float
    """share. The share of the time in which GPUs multiply."""
    power: float
    """W. The power while it runs, without the building."""
    efficiency: float
    """FLOP/s. The rate per watt."""
    published_rate: float | None = None
    """FLOP/s. The listed rate."""
    published_power: float | None = None
    """W. The listed power."""
    remarks: tuple[str, ...] = ()
    """The reasons why prediction and list differ."""


@dataclass(frozen=True, kw_only=True)
class PowerReport(Answer, view=View(report="report.expenses:power_report", rows="loads")):
    """What a cluster draws: by load and component, against its limit, and in High-Performance Linpack."""

    cluster: str
    nodes: int
    gpus: int
    cap: float
    """W. The power that each GPU may draw."""
    speed: float
    """factor. The speed of arithmetic under that cap, relative to none."""
    limit: float
    """W. The power for which one server is built."""
    pue: float
    """factor. The power of the site over that of the machine."""
    switches: int
    loads: tuple[LoadPower, ...]
    benchmark: Benchmark | None
    """The Linpack result; None: its GPUs have no double-precision tensor peak."""
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Expense:
    """Energy, carbon dioxide and money of a run, or of one step."""

    duration: float
    """s. The duration of the run, or of one step."""
    gpus: int
    power: float
    """W. The power of the machine, as a mean over the run."""
    energy: float
    """J. The energy at the meter of the site."""
    carbon: float
    """kg. The carbon dioxide."""
    offer: Offer | None
    """The price; None: no price was requested."""
    low: float
    """USD. The cost at the low end of the price."""
    high: float
    """USD. The cost at the high end of the price."""
    tokens: float
    """count. The tokens trained; those of one step if no total is given."""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bill(Answer, view=View(report="report.expenses:bill_report", rows="rows")):
    """GPU hours on a cluster: the energy by two accounts, and the money by every price."""

    cluster: str
    gpu_time: float
    """s. The time of one GPU, summed over GPUs."""
    plain_energy: float
    """J. The energy as model cards count it: GPU-hours times the GPU's limit."""
    plain_carbon: float
    """kg. The carbon dioxide of that energy."""
    energy: float
    """J. The energy at the meter of the site: GPUs at the load, servers, switches, building."""
    carbon: float
    """kg. The carbon dioxide of that energy."""
    load: str
    rows: tuple[BillRow, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BillRow:
    """GPU hours at one price."""

    offer: Offer
    low: float
    """USD. The cost at the low end of the price."""
    high: float
    """USD. The cost at the high end of the price."""


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """One plan on a front of time against cost or energy."""

    gpus: int
    step_time: float
    """s. The time of one step."""
    energy: float
    """J. The energy of a step."""
    cost: float | None
    """USD. The cost of a step at the low end of the price; None without one."""
    plan: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Trade:
    """Fronts over plans and numbers of GPUs: nothing is better in both."""

    time_cost: tuple[TradePoint, ...]
    """The plans by time, each cheaper than the ones before; empty without a price."""
    time_energy: tuple[TradePoint, ...]
    """The plans by time, each with less energy than the ones before."""
    offer: Offer | None
    """The price; None: no price was requested."""
    tried: tuple[int, ...]
    """The numbers of GPUs that were tried."""
