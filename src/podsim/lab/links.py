"""The links of an emulated cluster: who has which address, and the commands of ip and tc that make and shape them.

    rank ── eth0 ── bridge of its server               inside a server: the rank's own rate, both ways
    rank ── eth1 ── bridge of all servers              between servers: the rate of its adapter, both ways
    rank ── eth1 ── bridge of an adapter ── bridge of all servers      where several ranks share one

All bridges are in one namespace, each rank in its own. A rank has one address; the way to another server leads through
eth1. Both ends of a link are shaped with htb: a leaf for each rank at the other end with an equal guaranteed rate, all of
it to whoever is alone, which makes the link a max-min fair server; and a small class before them for
acknowledgements, which would otherwise wait behind the data of the other direction. One bucket for all (tbf) holds
the rate as well, but divides it as its queue happens to: where seven ranks send at once it was up to a tenth slower.
Source of the method: tc-htb(8); figures beside the constants were found by measuring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

from podsim.answers.lab import Emulated

MTU = 9000
"""B of a packet; at 1500 headers cost 4 % instead of 1 %, and predictions were 1.5 points further off"""
LEAST_BURST = 128 << 10
"""B that a shaped link may send at once after a pause: two of the largest packets that a kernel passes on whole"""
_BURST_TIME = 0.5e-3
"""s of a link's rate that its burst holds at least: faster links would run dry between two ticks"""
_QUEUE = 1000
"""packets that may wait for a link; windows keep it from filling"""
KEPT = 0.02
"""share of a link's rate that is guaranteed to acknowledgements; data may borrow it"""
_SEGMENT = 2 * MTU
"""B that a kernel passes on as one packet: with 64 KiB, a window of two, each way would wait for the other's packets"""
_SMALL = 128
"""B of a packet that is an acknowledgement rather than data"""
LARGEST = 254
"""servers, and ranks of a server: one byte of an address each"""
NETWORK = "10.77"
NOTHING: Mapping[int, Any] = MappingProxyType({})


def burst_bytes(rate: float) -> float:
    """B that a link of this rate (B/s) lets pass at once after a pause."""
    return float(max(LEAST_BURST, ceil(rate * _BURST_TIME)))


def window(rate: float) -> int:
    """B that a connection may have under way: with less, data wait for acknowledgements behind the other way's data."""
    return 1 << 20 if rate >= 62.5e6 else 512 << 10


def address(made: Emulated, rank: int) -> str:
    """The address of a rank."""
    server, number = divmod(rank, made.local)
    return f"{NETWORK}.{server}.{number + 1}"


def hardware_address(rank: int, device: str) -> str:
    """The MAC address of a rank's device, from the locally administered range."""
    return f"02:00:00:{device[-1]:0>2}:{rank >> 8:02x}:{rank & 255:02x}"


def _adapter(made: Emulated, rank: int) -> int:
    """Which adapter of its server a rank sends through."""
    return rank % made.local * made.nics // made.local


def _sharing(made: Emulated, server: int, nic: int) -> list[int]:
    """The ranks that use an adapter."""
    return [
        server * made.local + p for p in range(made.local) if _adapter(made, server * made.local + p) == nic
    ]


def _shared(made: Emulated) -> bool:
    return made.servers > 1 and made.nics < made.local


def fabric_links(made: Emulated, holds: dict[int, str], swap: Mapping[int, int] = NOTHING) -> Iterator[str]:
    """Commands of ip for the namespace of the bridges; holds: the path of each rank's namespace.

    swap: the rank whose adapter is plugged into the port of another.
    """

    def bridge(name: str) -> Iterator[str]:
        yield f"link add name {name} mtu {MTU} type bridge"
        yield f"link set dev {name} up"

    def port(rank: int, kind: str, master: str) -> Iterator[str]:
        here, there = f"{kind}{rank}", "eth0" if kind == "in" else "eth1"
        end = rank if kind == "in" else swap.get(rank, rank)
        peer = f"name {there} mtu {MTU} address {hardware_address(end, there)} netns {holds[end]}"
        yield f"link add name {here} mtu {MTU} type veth peer {peer}"
        yield f"link set dev {here} master {master}"
        yield f"link set dev {here} up"

    for server in range(made.servers):
        yield from bridge(f"server{server}")
    for rank in range(made.ranks):
        yield from port(rank, "in", f"server{rank // made.local}")
    if made.servers == 1:
        return
    yield from bridge("spine")
    for server in range(made.servers if _shared(made) else 0):
        for nic in range(made.nics):
            name = f"{server}n{nic}"
            yield from bridge(f"nic{name}")
            yield f"link add name up{name} mtu {MTU} type veth peer name dn{name} mtu {MTU}"
            yield f"link set dev up{name} master nic{name}"
            yield f"link set dev dn{name} master spine"
            yield f"link set dev up{name} up"
            yield f"link set dev dn{name} up"
    for rank in range(made.ranks):
        server = rank // made.local
        yield from port(rank, "ex", f"nic{server}n{_adapter(made, rank)}" if _shared(made) else "spine")


def fabric_shapes(made: Emulated, left: Mapping[int, float] = NOTHING) -> Iterator[str]:
    """Commands of tc for the namespace of the bridges: what comes down to the ranks, and shared adapters.

    left: the share that slow adapters have left; with one server, slow links inside it.
    """
    for rank in range(made.ranks):
        near, away = _peers(made, rank)
        inside, between = slow_rates(made, rank, left)
        yield from _htb(f"in{rank}", inside, made.inside_burst, "src", _addresses(made, near))
        if made.servers > 1 and not _shared(made):
            yield from _htb(f"ex{rank}", between, made.between_burst, "src", _addresses(made, away))
    for server in range(made.servers if _shared(made) else 0):
        away = _peers(made, server * made.local)[1]
        for nic in range(made.nics):
            sharing = _sharing(made, server, nic)
            mine = _addresses(made, sharing)
            between = min(slow_rates(made, rank, left)[1] for rank in sharing)
            yield from _htb(f"up{server}n{nic}", between, made.between_burst, "src", mine)
            yield from _htb(f"dn{server}n{nic}", between, made.between_burst, "src", _addresses(made, away))


def slow_rates(made: Emulated, rank: int, left: Mapping[int, float]) -> tuple[float, float]:
    """B/s of a rank's links inside its server and to others."""
    share = left.get(rank, 1.0)
    return (made.inside, made.between * share) if made.servers > 1 else (made.inside * share, made.between)


def _peers(made: Emulated, rank: int) -> tuple[list[int], list[int]]:
    """The other ranks of its server, and those of other servers."""
    server = rank // made.local
    near = [other for other in range(made.ranks) if other // made.local == server and other != rank]
    return near, [other for other in range(made.ranks) if other // made.local != server]


def _addresses(made: Emulated, ranks: list[int]) -> list[str]:
    return [address(made, rank) for rank in ranks]


def rank_links(made: Emulated, rank: int) -> Iterator[str]:
    """Commands of ip for a rank's own namespace.

    Whose address is whose is written down: a kernel keeps what it found out by asking in one small table for all
    namespaces (net.ipv4.neigh.default.gc_thresh3, 1024), in which 32 ranks have no room; its own setting has no effect.
    """
    own = address(made, rank)
    yield "link set dev lo up"
    yield f"addr add {own}/24 dev eth0"
    yield f"link set dev eth0 gso_max_size {_SEGMENT} up"
    if made.servers > 1:
        yield f"link set dev eth1 gso_max_size {_SEGMENT} up"
        yield f"route add {NETWORK}.0.0/16 dev eth1 src {own}"
    for others, device in zip(_peers(made, rank), ("eth0", "eth1"), strict=True):
        for other in others:
            hardware = hardware_address(other, device)
            yield f"neigh add {address(made, other)} lladdr {hardware} dev {device} nud permanent"


def rank_shapes(made: Emulated, rank: int, left: Mapping[int, float] = NOTHING) -> Iterator[str]:
    """Commands of tc for a rank's own namespace: what it sends; left: as for fabric_shapes."""
    near, away = _peers(made, rank)
    inside, between = slow_rates(made, rank, left)
    yield from _htb("eth0", inside, made.inside_burst, "dst", _addresses(made, near))
    if made.servers > 1 and not _shared(made):
        yield from _htb("eth1", between, made.between_burst, "dst", _addresses(made, away))


def _bits(rate: float) -> str:
    return f"{max(round(rate * 8), 8)}bit"


def _htb(device: str, rate: float, burst: float, end: str, others: list[str]) -> Iterator[str]:
    """A link, one way: the same share for each of `others` (its senders, src, or receivers, dst), all of it if alone."""
    full, share = _bits(rate), _bits(rate * (1 - KEPT) / max(len(others), 1))
    most = f"ceil {full} burst {int(burst)} cburst {int(burst)}"
    child = f"class add dev {device} parent 1:1 classid"
    match = f"filter add dev {device} parent 1: protocol ip prio"
    yield f"qdisc add dev {device} root handle 1: htb default 2"
    yield f"class add dev {device} parent 1: classid 1:1 htb rate {full} {most}"
    yield f"{child} 1:2 htb rate {_bits(rate * KEPT)} {most} prio 0"
    yield f"{match} 1 u32 match u16 0x0000 {hex(0x10000 - _SMALL)} at 2 flowid 1:2"
    for number, other in enumerate(others, 16):
        leaf = f"1:{number:x}"
        yield f"{child} {leaf} htb rate {share} {most} prio 1"
        yield f"qdisc add dev {device} parent {leaf} pfifo limit {_QUEUE}"
        yield f"{match} 2 u32 match ip {end} {other}/32 flowid {leaf}"
