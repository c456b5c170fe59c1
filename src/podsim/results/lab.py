"""What the lab measured, on what machine, and how predictions compare with it. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """A cluster scaled down to network namespaces: which links every rank has, and what shapes them."""

    cluster: str
    """the cluster it stands for"""
    scale: float
    """share of the cluster's bandwidths that its links have"""
    servers: int
    local: int
    """ranks of a server"""
    inside: float
    """B/s of a rank's link in its server, one direction"""
    between: float
    """B/s of one adapter, one direction; 0 with one server"""
    nics: int
    """adapters of a server; a rank uses one, several ranks may share it"""
    inside_burst: float
    """B that a rank's link lets pass at once after a pause, to or from one other rank"""
    between_burst: float
    """B that an adapter lets pass at once after a pause, to or from one other rank"""

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
    """name of the table; "library" is the library's own"""
    size: float
    """B, as nccl-tests counts"""
    count: int
    """elements of 4 B, as nccl-tests counts: of one rank's part where the buffer is divided"""
    iterations: int
    """calls that were timed, one after the other"""
    seconds: float
    """s of one call into another buffer, mean over calls and ranks"""
    slowest: float
    """s of one such call on the rank that took longest; median over calls if they were made one at a time"""
    wrong: int
    """elements of all ranks that are not what they must be, out of place"""
    in_place: float | None
    """s of one call within one buffer, mean over calls and ranks; None if it was left out"""
    in_place_wrong: int | None
    """elements of all ranks that are not what they must be, in place"""
    algorithm_bandwidth: float
    """B/s, size over seconds"""
    bus_bandwidth: float
    """B/s, as nccl-tests counts"""
    messages: int
    """messages that all ranks sent in one call; 0 where the library does not tell"""
    cpu: float
    """share of the busiest machine's processor time that the ranks used"""
    others: float
    """share of the busiest machine's processor time that went to other programs"""


@dataclass(frozen=True, kw_only=True)
class MeasuredCollectives:
    """A collective run for real: several algorithms over sizes."""

    collective: str
    ranks: int
    local: int
    """ranks of a server"""
    backend: str
    """gloo or nccl"""
    device: str
    """what held the data: the GPU's name, or CPU"""
    software: str
    """versions of what ran it"""
    hosts: tuple[str, ...]
    """name of the machine of each rank"""
    processes: tuple[int, ...]
    """process id of each rank"""
    cores: int
    """processor cores of the smallest machine"""
    emulated: Emulated | None
    """the links, if they were shaped; None on links as they are"""
    apart: bool
    """calls were made one at a time; else one after the other, as nccl-tests makes them"""
    warmup: int
    """calls before those that were timed"""
    message: float
    """s from sending 4 B to receiving them, between ranks 0 and 1, half of a round trip, median"""
    started: str
    """date and time in UTC, ISO 8601"""
    rows: tuple[MeasuredCollective, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """algorithms that were not run, and why"""
    message_work: float = 0.0
    """s of all cores of the machine that a message costs where every rank sends to all; 0 if not measured"""
    byte_work: float = 0.0
    """s of all cores for each B sent and received, 0 if not measured"""
    add_work: float = 0.0
    """s of all cores for each B added to another, 0 if not measured"""


@dataclass(frozen=True, kw_only=True)
class ComparedCollective:
    """One measured row beside its prediction, and what the difference is made of."""

    algorithm: str
    size: float
    """B, as nccl-tests counts"""
    measured: float
    """s of one call"""
    predicted: float
    """s of one call"""
    difference: float
    """share, predicted over measured less one"""
    parts: Mapping[str, float]
    """s by kind: links, messages, burst and processors make up the prediction; rest is measured less predicted"""
    cpu: float
    """share of processor time that the ranks used"""
    others: float
    """share of processor time that went to other programs"""
    verdict: str
    """comparable; or not comparable, and why: CPU-limited, too short, wrong result"""


@dataclass(frozen=True, kw_only=True)
class ComparedCollectives:
    """A measured run beside its predictions."""

    run: str
    """name of its file"""
    collective: str
    ranks: int
    machine: str
    """what was run on, in words"""
    cluster: str
    """what was predicted for, in words"""
    apart: bool
    """calls were made one at a time, as a prediction takes them"""
    rows: tuple[ComparedCollective, ...]
    mean: float | None
    """share, mean of the absolute differences of comparable rows; None without any"""
    worst: float | None
    """share, largest absolute difference of comparable rows; None without any"""
    not_predicted: Mapping[str, str] = field(default_factory=dict)
    """rows without a prediction, and why"""
