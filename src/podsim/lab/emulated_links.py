"""The links of an emulated cluster: its bandwidths scaled down, and how its ranks learn them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from podsim.answers.lab import Emulated
from podsim.answers.saved_run import emulated_of
from podsim.errors import ClusterError, LabError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.lab import usage
from podsim.lab.links import burst_bytes

EMULATED = "PODSIM_EMULATED"
"""environment variable that tells a rank its shaped links: the JSON of Emulated"""
PER_CORE = 250e6
"""B/s of all senders together that one core keeps up with"""
_LEAST = 12_500.0
"""B/s of the slowest link worth shaping: 100 kbit/s"""


def emulated_links(environment: Mapping[str, str]) -> Emulated | None:
    """The links that `podsim emulate` gave this rank; None where it gave none."""
    text = environment.get(EMULATED)
    if not text:
        return None
    try:
        return emulated_of(json.loads(text))
    except ValueError as problem:  # a LabError is one, too
        raise LabError(f"{EMULATED} in the environment is not what podsim emulate sets: {problem}") from None


def emulated_cluster(
    cluster: str, *, scale: str = "1/1000", per: str = "gpu", overrides: Mapping[str, str] | None = None
) -> Emulated:
    """The links that a cluster gets when it is emulated. Raises ClusterError for one that cannot be emulated."""
    share = _share(scale)
    if per not in ("gpu", "server"):
        raise PodsimError(f"--per {per[:40]!r}; it is gpu or server")
    full = load_cluster(cluster, overrides)
    local = full.gpus_per_node if per == "gpu" else 1
    nics = min(full.nics, local)
    inside = full.nvlink.bandwidth * share
    between = full.node_bandwidth / nics * share if nics and full.nodes > 1 else 0.0
    if per == "server":
        inside = max(inside, between)
    if full.nodes * local < 2:
        raise ClusterError(f"{full.name}: {full.nodes} x {local} processes; emulating needs two or more")
    if slow := [rate for rate in (inside, between) if 0 < rate < _LEAST]:
        raise ClusterError(
            f"--scale {scale}: a link of {slow[0] * 8:.3g} b/s; 100 kb/s is the slowest worth shaping: take a larger one"
        )
    return Emulated(
        cluster=full.name, scale=share, servers=full.nodes, local=local, inside=inside, between=between, nics=nics,
        inside_burst=burst_bytes(inside), between_burst=burst_bytes(between),
    )  # fmt: skip


def warnings_of(made: Emulated) -> tuple[str, ...]:
    """What will not work well on this machine: rates that its cores do not keep up with."""
    cores = usage.cores()
    each, where = (made.inside, " inside a server") if made.local > 1 else (made.between, "")
    rate, room = made.ranks * each, PER_CORE * cores
    if rate <= room:
        return ()
    return (
        f"{made.ranks} ranks at {each * 8e-9:.3g} Gb/s are {rate * 8e-9:.3g} Gb/s; {cores} cores keep up with "
        f"about {room * 8e-9:.3g}: where all send at once{where}, processors will be the limit; --scale "
        f"1/{rate / made.scale / room:.0f} would not be",
    )


def _share(text: str) -> float:
    """A scale as a number: "1/500", "0.002"."""
    above, _, below = text.partition("/")
    try:
        share = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise PodsimError(
            f"--scale {text[:40]!r}; expected a share above 0, at most 1, such as 1/500 or 0.002"
        )
    return share
