"""The power of a machine, and the energy and money of a run: plain values that name no formula. Money is in USD."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.fields import shown
from podsim.records import dataclass
from podsim.units import format_quantity

HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A price of a GPU."""

    name: str = shown("price")
    provider: str = shown(drop=1)
    kind: str = shown("how")
    date: str
    source: str
    low: float = shown("USD/GPU h", lambda price: f"{price * HOUR:.2f}")
    """USD/s. The price of one GPU."""
    high: float = shown("to", lambda price: f"{price * HOUR:.2f}")
    """USD/s. The price of one GPU at the high end; equal to `low` if it is no range."""
    least: float = shown(is_hidden=True)
    """USD/s. The lowest rent of the GPU in the last year of the catalog; `low` where the price is not the default."""
    most: float = shown(is_hidden=True)
    """USD/s. The highest rent of it; `high` where the price is not the default."""

    @property
    def hourly(self) -> str:
        """The price per GPU-hour (USD), or its range."""
        return _range(self.low, self.high)

    @property
    def origin(self) -> str:
        """The source of the price, with its date."""
        return f"price {self.name}, {self.date}: {self.source}"

    @property
    def words(self) -> str:
        """The price per GPU-hour with its name, its date, and the range of rents."""
        rents = (
            ""
            if (self.least, self.most) == (self.low, self.high)
            else f"; rents {_range(self.least, self.most)}"
        )
        return f"{self.hourly} USD per GPU-hour ({self.name}, {self.date}{rents})"


def _range(low: float, high: float) -> str:
    ends = f"{low * HOUR:.2f}", f"{high * HOUR:.2f}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


@dataclass(frozen=True, kw_only=True)
class LoadPower:
    """What a cluster draws under a load, by component."""

    load: str
    gpu_power: float = shown("GPUs")
    """W. The power of all GPUs."""
    server_power: float = shown("servers' rest", drop=1)
    """W. The power of the rest of all servers."""
    switch_power: float = shown("switches", drop=2)
    """W. The power of the switches of its fabric."""
    total: float = shown("machine")
    """W. The power of all of them."""
    node: float = shown("one server")
    """W. The power of one server with its GPUs."""
    site: float = shown("at the meter")
    """W. The power at the meter, with cooling and losses of the building."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """High-Performance Linpack on a cluster."""

    rate: float = shown("predicted rate")
    """FLOP/s. The rate of the whole cluster."""
    size: int = shown("rows")
    """The number of rows of the matrix."""
    busy: float = shown(format=":.0%")
    """share. The share of the time in which GPUs multiply."""
    power: float = shown("predicted power")
    """W. The power while it runs, without the building."""
    efficiency: float = shown("rate per watt")
    """FLOP/s. The rate per watt."""
    published_rate: float | None = shown(default=None, of_row=lambda run: run.listed_rate)
    """FLOP/s. The listed rate."""
    published_power: float | None = shown(default=None, of_row=lambda run: run.listed_power)
    """W. The listed power."""
    remarks: tuple[str, ...] = ()
    """The reasons why prediction and list differ."""

    @property
    def listed_rate(self) -> str:
        """The listed rate as text, and how much more this one is."""
        listed = self.published_rate
        return f"{format_quantity(listed, 'FLOP/s')} ({self.rate / listed - 1:+.1%} here)" if listed else "-"

    @property
    def listed_power(self) -> str:
        """The listed power as text, how much more this one is, and the listed rate per watt."""
        rate, power = self.published_rate, self.published_power
        if not power:
            return "-"
        more = f"{format_quantity(power, 'W')} ({self.power / power - 1:+.1%} here)"
        return f"{more}, {format_quantity(rate / power, 'FLOP/s')} per watt" if rate else more


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
