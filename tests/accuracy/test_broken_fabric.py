"""A fabric far below its class is named as broken, with the fault that explains it; a healthy one is not."""

from __future__ import annotations

from dataclasses import replace

from podsim.accuracy.broken_fabric import judge_fabric
from podsim.accuracy.price_collectives import Call, call_seconds
from podsim.hardware.cluster import load_cluster
from podsim.network.collective_settings import CollectiveSettings

_SIZES = [2.0**power for power in range(20, 34)]


def _calls(**settings: object) -> dict[str, Call]:
    stated = CollectiveSettings(release="2.18", launch="process", **settings)  # type: ignore[arg-type]
    cluster = load_cluster("dgx-a100:4")
    return {
        str(size): Call(
            cluster=cluster, collective="all_reduce", nodes=4, gpus=32, size=size, settings=stated
        )
        for size in _SIZES
    }


def test_a_fault_is_recognised() -> None:
    for name, fault in (
        ("quarter-rate", {"nic_bandwidth": 6.25e9}),
        ("ll", {"protocol": "ll"}),
        ("sockets", {"network": "sockets"}),
    ):
        measured, _ = call_seconds(_calls(**fault))
        verdict = judge_fabric(_calls(), measured)
        assert verdict.is_broken
        near = [each.fault for each in verdict.explanations if each.misfit < 0.01]
        assert name in near


def test_a_stated_fault_comes_first() -> None:
    calls = _calls(gpudirect=False)
    measured, _ = call_seconds(_calls(nic_bandwidth=6.25e9))
    verdict = judge_fabric(calls, measured)
    assert verdict.explanations[0].fault == "no-gpudirect"
    assert verdict.explanations[0].is_stated


def test_a_healthy_fabric_is_not_broken() -> None:
    calls = _calls()
    seconds, _ = call_seconds(calls)
    verdict = judge_fabric(calls, {id: 1.3 * value for id, value in seconds.items()})
    assert not verdict.is_broken
    assert not verdict.explanations


def test_one_node_is_not_judged() -> None:
    calls = {id: replace(call, nodes=1, gpus=8) for id, call in _calls().items()}
    seconds, _ = call_seconds(calls)
    assert judge_fabric(calls, {id: 10.0 * value for id, value in seconds.items()}).size == 0.0
