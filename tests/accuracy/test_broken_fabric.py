"""A fabric far below its class is named as broken, with the fault that explains it; a healthy one is not."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from reference.curate_collectives import collective_cells

from podsim.accuracy.broken_fabric import judge_fabric
from podsim.accuracy.price_collectives import Call, call_seconds, read_call
from podsim.hardware.cluster import load_cluster
from podsim.network.collective_settings import CollectiveSettings

_RAW = Path(__file__).parents[2] / "reference/raw/collectives.csv.gz"
_UNSTATED = {"not stated": "8x NDR400 IB", "not printed": "8x NDR400 IB"}
"""Adapters that a source does not state -> those that a user would name with --on dgx-h100:2."""
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


def _sweeps(role: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """(cluster, rows) of each sweep between nodes of clusters with a role, sweeps of Polaris and Sirius left out."""
    sweeps: dict[str, list[dict[str, str]]] = {}
    with gzip.open(_RAW, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            named = row["cluster_id"] and not row["cluster_id"].startswith("alcf")
            if row["role"] == role and named and int(row["nodes"]) > 1:
                sweeps.setdefault(row["id"], []).append(row)
    for rows in sweeps.values():
        yield rows[0]["cluster_id"], rows


def _is_flagged(rows: list[dict[str, str]]) -> bool:
    """Whether the fabric of a sweep is called broken; its label is taken off."""
    calls, measured = {}, {}
    for row in rows:
        nics = _UNSTATED.get(row["nics"], row["nics"])
        gpu = "H100-SXM5-80GB" if row["gpu"].startswith("unknown") else row["gpu"]
        bare = {**row, "nics": nics, "gpu": gpu, "role": "", "state": "", "notes": ""}
        call = read_call({**bare, **collective_cells(bare)})
        assert isinstance(call, Call), call
        calls[row["size_bytes"]], measured[row["size_bytes"]] = call, float(row["time_us"]) * 1e-6
    return judge_fabric(calls, measured).is_broken


def test_every_broken_cluster_is_flagged() -> None:
    flagged: dict[str, bool] = {}
    for cluster, rows in _sweeps("broken"):
        flagged[cluster] = flagged.get(cluster, False) or _is_flagged(rows)
    assert len(flagged) == 11
    assert all(flagged.values()), flagged


@pytest.mark.parametrize("role", ["calibrate", "test"])
def test_no_healthy_cluster_is_flagged(role: str) -> None:
    assert not [cluster for cluster, rows in _sweeps(role) if _is_flagged(rows)]
