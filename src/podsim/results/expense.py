"""What a machine draws and what a run takes in energy and money: plain values that name no formula. Money is in USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A price of a GPU."""

    name: str
    provider: str
    kind: str
    """how it is sold"""
    date: str
    source: str
    low: float
    """USD/s of one GPU"""
    high: float
    """USD/s of one GPU; as low where it is no range"""


@dataclass(frozen=True, kw_only=True)
class LoadPower:
    """What a cluster draws under a load, by component."""

    load: str
    gpus: float
    """W of all GPUs"""
    servers: float
    """W of the rest of all servers"""
    switches: float
    """W of the switches of its fabric"""
    total: float
    """W of all of them"""
    node: float
    """W of one server with its GPUs"""
    site: float
    """W at the meter, cooling and losses of the building counted"""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """High-Performance Linpack on a cluster."""

    rate: float
    """FLOP/s"""
    size: int
    """rows of the matrix"""
    busy: float
    """share of the time that GPUs multiply"""
    power: float
    """W while it runs, without the building"""
    efficiency: float
    """FLOP/s for a W"""
    published_rate: float | None = None
    """FLOP/s as listed"""
    published_power: float | None = None
    """W as listed"""


@dataclass(frozen=True, kw_only=True)
class PowerReport:
    """What a cluster draws: by load and component, against its limit, and in High-Performance Linpack."""

    cluster: str
    nodes: int
    gpus: int
    cap: float
    """W that each GPU may draw"""
    speed: float
    """speed of arithmetic under that cap, relative to none"""
    limit: float
    """W that one server is built for"""
    pue: float
    """power of the site over that of the machine"""
    switches: int
    loads: tuple[LoadPower, ...]
    benchmark: Benchmark | None
    """None: its GPUs have no double-precision tensor peak"""
    sources: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Expense:
    """Energy, carbon dioxide and money of a run, or of one step."""

    duration: float
    """s"""
    gpus: int
    power: float
    """W of the machine, mean over the run"""
    energy: float
    """J at the meter of the site"""
    carbon: float
    """kg of carbon dioxide"""
    offer: Offer | None
    """None: no price was asked for"""
    low: float
    """USD at the low end of the price"""
    high: float
    """USD at the high end"""
    tokens: float
    """trained; of one step where no total is given"""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bill:
    """GPU hours on a cluster: the energy by two accounts, and the money by every price."""

    cluster: str
    gpu_time: float
    """s of one GPU, summed over GPUs"""
    plain_energy: float
    """J as model cards count: GPU hours times the GPU's limit, nothing else"""
    plain_carbon: float
    """kg of carbon dioxide of that"""
    energy: float
    """J at the meter of the site: GPUs at the load, servers, switches, building"""
    carbon: float
    """kg of carbon dioxide of that"""
    load: str
    rows: tuple[BillRow, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BillRow:
    """GPU hours at one price."""

    offer: Offer
    low: float
    """USD"""
    high: float
    """USD"""


@dataclass(frozen=True, kw_only=True)
class TradePoint:
    """One plan on a front of time against cost or energy."""

    gpus: int
    step_time: float
    """s"""
    energy: float
    """J of a step"""
    cost: float | None
    """USD of a step, at the low end of the price; None without one"""
    plan: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Trade:
    """Fronts over plans and numbers of GPUs: nothing is better in both."""

    time_cost: tuple[TradePoint, ...]
    """plans by time, each cheaper than the ones before; empty without a price"""
    time_energy: tuple[TradePoint, ...]
    """plans by time, each with less energy than the ones before"""
    offer: Offer | None
    """None: no price was asked for"""
    tried: tuple[int, ...]
    """numbers of GPUs"""
