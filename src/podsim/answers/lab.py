"""The lab's measurements, with their machine and their predictions. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.records import dataclass, field
from podsim.units import format_quantity

_IN_TURN = (
    "one after the other: one may have begun before the last had ended everywhere; a prediction is of one call: measure "
    "with --apart"
)


def cores_used(row: Any) -> str:
    """The share of the processors that ranks and other programs used."""
    return f"{row.cpu + row.others:.1%}"


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A cluster scaled down to network namespaces: which links every rank has, and what shapes them."""

    cluster: str
    """The cluster that it emulates."""
    scale: float
    """share. The share of the cluster's bandwidths that its links have."""
    servers: int
    local: int
    """The number of ranks of a server."""
    inside: float
    """B/s. The bandwidth of a rank's link in its server, in one direction."""
    between: float
    """B/s. The bandwidth of one adapter, in one direction; 0 with one server."""
    nics: int
    """The number of adapters of a server; a rank uses one, and several ranks may share it."""
    inside_burst: float
    """B. The bytes that a rank's link passes at once after a pause, to or from one other rank."""
    between_burst: float
    """B. The bytes that an adapter passes at once after a pause, to or from one other rank."""

    @property
    def pause(self) -> float:
        """Seconds after which every link lets a whole burst pass again for each rank at its other end."""
        inside = self.inside_burst * (self.local - 1) / self.inside
        away = self.ranks - self.local
        return max(inside, self.between_burst * away / self.between if away else 0.0)

    @property
    def ranks(self) -> int:
        """Ranks of all servers."""
        return self.servers * self.local


@dataclass(frozen=True, kw_only=True)
class MeasuredCollective:
    """One algorithm at one size, as nccl-tests would report it, and whether the cores kept up."""

    algorithm: str
    """The name of the table; "library" is the library's own algorithm."""
    size: float
    """B. The size, as nccl-tests counts it."""
    count: int
    """The number of elements of 4 B, as nccl-tests counts: of one rank's part if the buffer is divided."""
    iterations: int
    """The number of timed calls, one after the other."""
    seconds: float
    """s. The time of one call into another buffer, as a mean over calls and ranks."""
    slowest: float
    """s. The time of one such call on the slowest rank; the median over calls that were made one at a time."""
    wrong: int
    """The number of wrong elements of all ranks, out of place."""
    in_place: float | None
    """s. The time of one call within one buffer, as a mean over calls and ranks; None if not measured."""
    in_place_wrong: int | None
    """The number of wrong elements of all ranks, in place."""
    algorithm_bandwidth: float
    """B/s. The size over the time."""
    bus_bandwidth: float
    """B/s. The bus bandwidth, as nccl-tests counts it."""
    messages: int
    """The number of messages of all ranks in one call; 0 if the library does not tell."""
    cpu: float
    """share. The share of the busiest machine's processor time that the ranks used."""
    others: float
    """share. The share of the busiest machine's processor time that other programs used."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCollectives(Answer, view=View(report="report.collectives:measured_report", rows="rows")):
    """A collective run for real: several algorithms over sizes."""

    collective: str
    ranks: int
    local: int
    """The number of ranks of a server."""
    backend: str
    """The backend: gloo or nccl."""
    device: str
    """The device of the data: the GPU's name, or CPU."""
    software: str
    """The versions of the software."""
    hosts: tuple[str, ...]
    """The machine of each rank, by name."""
    processes: tuple[int, ...]
    """The process id of each rank."""
    cores: int
    """The number of processor cores of the smallest machine."""
    emulated: Emulated | None
    """The shaped links; None for links as they are."""
    apart: bool
    """Whether calls were made one at a time; otherwise one after the other, as in nccl-tests."""
    warmup: int
    """The number of calls before those that were timed."""
    message: float
    """s. The time from sending 4 B to receiving them, between ranks 0 and 1: half of a round trip, median."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[MeasuredCollective, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The algorithms that were not run, with the reason."""
    message_work: float = 0.0
    """s. The time of all cores of the machine for a message, if every rank sends to all; 0 if not measured."""
    byte_work: float = 0.0
    """s. The time of all cores for each byte sent and received; 0 if not measured."""
    add_work: float = 0.0
    """s. The time of all cores for each byte added to another; 0 if not measured."""
    stopped: bool = False
    """Whether a signal ended it before the last row."""


@dataclass(frozen=True, kw_only=True)
class MeasuredPair:
    """Two ranks that send to each other."""

    source: int
    """The lower rank."""
    destination: int
    """The higher rank."""
    bandwidth: float
    """B/s. The bandwidth there and back, one after the other, while other ranks wait."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRanks(Answer, view=View(rows="rows")):
    """Each rank by itself, and each pair of ranks."""

    hosts: tuple[str, ...] = shown(is_hidden=True)
    """The machine of each rank, by name."""
    backend: str
    """The backend: gloo or nccl."""
    software: str
    """The versions of the software."""
    size: float = shown("messages")
    """B. The bytes of a message."""
    started: str
    """The date and time in UTC, ISO 8601."""
    products: tuple[float, ...] = shown(
        title="Products of each rank, and the bandwidth to its peers", of_row=lambda run: run.by_rank
    )
    """FLOP/s. The rate of products of each rank, while all are busy."""
    rows: tuple[MeasuredPair, ...] = shown(is_hidden=True)
    local: int = shown(default=0, hide_if=0)
    """The number of ranks of a server, where links are emulated; 0 if the machines' names tell."""

    @property
    def by_rank(self) -> dict[str, str]:
        """The products of each rank, and the bandwidth of its slowest and its fastest pair."""
        texts = {}
        for rank, (host, product) in enumerate(zip(self.hosts, self.products, strict=True)):
            pairs = sorted(row.bandwidth for row in self.rows if rank in (row.source, row.destination))
            ends = " to ".join(format_quantity(end, "B/s", digits=3) for end in (pairs[0], pairs[-1]))
            texts[f"rank {rank}, {host}"] = f"{format_quantity(product, 'FLOP/s', digits=3)}, {ends}"
        return texts


@dataclass(frozen=True, kw_only=True)
class ComparedCollective:
    """One measured row with its prediction, and the parts of the difference."""

    algorithm: str
    size: float = shown(format="report.columns:size_text")
    """B. The size, as nccl-tests counts it."""
    measured: float
    """s. The measured time of one call."""
    predicted: float
    """s. The predicted time of one call."""
    difference: float = shown("off by", ":+.1%")
    """share. The prediction over the measurement, minus one."""
    parts: Mapping[str, float]
    """s. The time by part: links, messages, burst and processors make up the prediction; rest is measured minus
    predicted."""
    cpu: float = shown("cores", of_row=cores_used)
    """share. The share of processor time that the ranks used."""
    others: float = shown(is_hidden=True)
    """share. The share of processor time that other programs used."""
    verdict: str = shown(hide_if="comparable")
    """The verdict: comparable, or the reason why not: CPU-limited, too short, wrong result."""


@dataclass(frozen=True, kw_only=True)
class ComparedCollectives(Answer, view=View(rows="rows")):
    """A measured run with its predictions."""

    run: str
    """The name of its file."""
    collective: str
    ranks: int
    machine: str
    """The machine of the run, in words."""
    cluster: str
    """The cluster of the prediction, in words."""
    apart: bool = shown("calls", of_row=lambda compared: "" if compared.apart else _IN_TURN)
    """Whether calls were made one at a time, as a prediction assumes."""
    rows: tuple[ComparedCollective, ...]
    mean: float | None = shown(
        "mean error", missing="no row can be compared", remark="of the rows that can be compared"
    )
    """share. The mean absolute difference of comparable rows; None without any."""
    worst: float | None = shown("largest")
    """share. The largest absolute difference of comparable rows; None without any."""
    not_predicted: Mapping[str, str] = field(default_factory=dict)
    """The rows without a prediction, with the reason."""
