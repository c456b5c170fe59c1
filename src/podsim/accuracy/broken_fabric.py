"""Whether measured collectives are what a fabric of its class gives; if not, which setting or fault would explain them.

    verdict = judge_fabric(calls, seconds)
    verdict.is_broken, verdict.slowdown, verdict.explanations[0].words

A fabric is judged by large messages between nodes, where bandwidth decides: by the median of measured over predicted
seconds in each decade of size from 10 MB on. The limits, and the faults that are tried, are in
hardware/catalog/fabrics/faults.toml. Each fault is priced by the law of podsim.network.nccl; faults do not add up.
Not judged: one node; send-recv, of which one pair may use one adapter or all; clusters whose usual transport is TCP,
which has no rate of its own. A run over sockets, or without GPUDirect, on a fabric with RDMA is judged by what the
fabric would give with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from podsim.accuracy.price_collectives import Call, call_seconds
from podsim.answers.fabric_verdict import Explanation, FabricVerdict
from podsim.errors import ClusterError
from podsim.hardware.fabrics.host_ways import host_way
from podsim.hardware.nvlink import slot_link
from podsim.network.collective_settings import CollectiveSettings, setting_words
from podsim.packaged import packaged_toml

_SHOWN = 4
"""The number of explanations that are given."""
_NEAR = 1e6
"""B. The least size of a row by which explanations are weighed."""


def judge_fabric(calls: Mapping[str, Call], measured: Mapping[str, float]) -> FabricVerdict:
    """The verdict on the fabric of calls with measured seconds, by id; ids without either are left out."""
    calls = {id: call for id, call in calls.items() if id in measured}
    if not calls:
        return FabricVerdict()
    filled = _settings(next(iter(calls.values())))
    verdict = FabricVerdict(settings=setting_words(filled), assumed=filled.assumptions)
    stated = next(iter(calls.values())).settings
    calls = {
        id: replace(call, settings=replace(call.settings, network=None, gpudirect=None))
        for id, call in calls.items()
        if _is_judged(call)
    }  # over the transport of its cluster's class
    ratios = _ratios(calls, measured)
    decades = _decade_ratios(calls, ratios)
    if not decades:
        return verdict
    limits = {float(size): float(entry["value"]) for size, entry in _data()["limits"].items()}
    over = {decade: ratio / limits[min(decade, max(limits))] for decade, ratio in decades.items()}
    worst = max(over, key=lambda decade: over[decade])
    verdict = replace(
        verdict,
        slowdown=decades[worst],
        size=worst,
        is_broken=over[worst] > 1.0,
        misfit=_misfit(calls, ratios),
    )
    return (
        replace(verdict, explanations=_explanations(calls, measured, stated))
        if verdict.is_broken
        else verdict
    )


def _settings(call: Call) -> CollectiveSettings:
    return call.settings.assumed(call.cluster)


def _is_judged(call: Call) -> bool:
    """Whether a call tells of its fabric."""
    usual = CollectiveSettings().assumed(call.cluster).network
    return call.nodes > 1 and call.collective != "send_recv" and usual != "sockets"


def _ratios(calls: Mapping[str, Call], measured: Mapping[str, float]) -> dict[str, float]:
    """Id -> measured over predicted seconds."""
    seconds, _ = call_seconds(calls)
    return {id: measured[id] / value for id, value in seconds.items() if value > 0}


def _decade_ratios(calls: Mapping[str, Call], ratios: Mapping[str, float]) -> dict[float, float]:
    """Least size of a decade -> median ratio over the level of its class, from the least size of a limit on."""
    sizes = sorted(float(size) for size in _data()["limits"])
    groups: dict[float, list[float]] = {}
    for id, ratio in ratios.items():
        decade = 10.0 ** math.floor(math.log10(max(calls[id].size, 1.0)))
        if decade >= sizes[0]:
            groups.setdefault(decade, []).append(ratio / _level(calls[id]))
    return {decade: float(np.median(values)) for decade, values in groups.items()}


def _level(call: Call) -> float:
    """The ratio of healthy clusters of a call's class."""
    levels = _data()["levels"]
    names = (call.cluster.gpu.architecture, str(_settings(call).network))
    return float(max([levels[name]["value"] for name in names if name in levels], default=1.0))


def _misfit(calls: Mapping[str, Call], ratios: Mapping[str, float]) -> float:
    """The typical distance of predictions from measurements, as a share: the median over large messages."""
    logs = [abs(math.log(ratio)) for id, ratio in ratios.items() if calls[id].size >= _NEAR]
    return math.expm1(float(np.median(logs))) if logs else 0.0


def _explanations(
    calls: Mapping[str, Call], measured: Mapping[str, float], stated: CollectiveSettings
) -> tuple[Explanation, ...]:
    """The faults that bring the law nearer to the measurements than it is: those that the log states, then the best."""
    limit = _misfit(calls, _ratios(calls, measured))
    known = []
    for name, fault in _data()["faults"].items():
        changed = {id: faulty for id, call in calls.items() if (faulty := _with_fault(call, fault))}
        ratios = _ratios(changed, measured)
        misfit = _misfit(changed, ratios)
        if ratios and misfit < limit:
            bias = 1.0 / float(np.median(list(ratios.values()))) - 1.0
            known.append(
                Explanation(
                    fault=name, words=fault["words"], misfit=misfit, bias=bias, is_stated=_is_stated(name, stated)
                )
            )  # fmt: skip
    return tuple(sorted(known, key=lambda each: (not each.is_stated, each.misfit))[:_SHOWN])


def _is_stated(fault: str, stated: CollectiveSettings) -> bool:
    """Whether a log states what its cluster's class does without."""
    return (fault == "no-gpudirect" and stated.gpudirect is False) or (
        fault == "sockets" and stated.network == "sockets"
    )


def _with_fault(call: Call, fault: Mapping[str, Any]) -> Call | None:
    """The call under a fault; None where the cluster cannot have it."""
    filled = _settings(call)
    nics, rate = int(filled.nics or 1), float(filled.nic_bandwidth or 0.0)
    changes: dict[str, Any] = dict(fault.get("settings", {}))
    if "nics" in fault:
        changes["nics"] = max(1, int(nics * fault["nics"]))
        if changes["nics"] == nics:
            return None
    if "rate" in fault:
        changes["nic_bandwidth"] = rate * fault["rate"]
    if "way" in fault:
        try:
            reached = host_way(replace(call.cluster, nics=nics), fault["way"]).rate
        except ClusterError:  # all adapters stand at the socket of every GPU
            return None
        changes["nic_bandwidth"] = min(rate, reached)
    cluster = call.cluster
    if "nvlink" in fault:
        cluster = replace(
            cluster, nvlink=replace(cluster.nvlink, bandwidth=slot_link(cluster.system).bandwidth)
        )
    return replace(call, cluster=cluster, settings=replace(call.settings, **changes))


def _data() -> Mapping[str, Any]:
    return packaged_toml("hardware/catalog/fabrics/faults.toml")
