"""Faults that no table lists, written by hand into the telemetry of a healthy day, are named with their part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.monitoring.mutations import KINDS, Day, change, copied, drawn, drop, names_part, part_of

import podsim
from podsim.answers.diagnosis import Diagnosis
from podsim.monitoring.exposition import Series, read_metrics
from podsim.monitoring.judgement import judge, metric_names
from podsim.monitoring.metric_table import ENTITIES, metrics_of

BEGIN = 1767571200
HOURS = (BEGIN + 2 * 3600, BEGIN + 5 * 3600)
COUNTERS = {metric.name for metric in metrics_of(*ENTITIES) if metric.type == "counter"}


@pytest.fixture(scope="session")
def telemetry(healthy_day: Path) -> Day:
    return read_metrics(healthy_day, metric_names())


def write(day: Day, metric: str, part: str, how: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change a metric, of counters what they grow by in 5 min, of all parts whose name begins so, for three hours."""
    assert change(
        day, metric, lambda series: part_of(series).startswith(part), *HOURS, lambda values, _: how(values),
        metric in COUNTERS,
    )  # fmt: skip


def fixed(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.full_like(values, value)


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values * factor


def hung(day: Day) -> None:
    write(day, "DCGM_FI_DEV_GPU_UTIL", "node0002", fixed(100))
    write(day, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "node0002", fixed(0))
    write(day, "DCGM_FI_DEV_POWER_USAGE", "node0002", fixed(120))


def slow_storage(day: Day) -> None:
    write(day, "node_disk_read_time_seconds_total", "node", times(8))
    for metric in (
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "DCGM_FI_PROF_SM_ACTIVE",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    ):
        write(day, metric, "node", times(0.6))
    write(day, "podsim_job_mfu_ratio", " job", times(0.6))


def slow_clock(part: str, share: float, speed: float) -> Callable[[Day], None]:
    def apply(day: Day) -> None:
        write(day, "DCGM_FI_DEV_SM_CLOCK", part, times(share))
        write(
            day, "podsim_job_mfu_ratio", " job 1" if part.startswith("node0002") else " job 0", times(speed)
        )

    return apply


def sick_leaf(day: Day) -> None:
    for node in range(3):
        write(day, "node_infiniband_symbol_error_total", f"node000{node} mlx5_2", fixed(60))


def overruns(day: Day) -> None:
    every = [
        Series(labels=dict(each.labels), times=[*each.times], values=[0.0] * len(each.times))
        for each in day["node_infiniband_symbol_error_total"]
    ]
    day["node_infiniband_excessive_buffer_overrun_errors_total"] = every  # type: ignore[index]
    write(day, "node_infiniband_excessive_buffer_overrun_errors_total", "node0001 mlx5_4", fixed(1))


def silent_sensor(day: Day) -> None:
    assert drop(day, "DCGM_FI_DEV_POWER_USAGE", lambda each: part_of(each) == "node0001 GPU 2", *HOURS)


def simply(metric: str, part: str, how: Callable[[np.ndarray], np.ndarray]) -> Callable[[Day], None]:
    return lambda day: write(day, metric, part, how)


UNSEEN: dict[str, tuple[Callable[[Day], None], str]] = {
    "hung job": (hung, " job 1"),
    "hot memory": (simply("DCGM_FI_DEV_MEMORY_TEMP", "node0000 GPU 2", fixed(103)), "node0000 GPU 2"),
    "remap pending": (simply("DCGM_FI_DEV_ROW_REMAP_PENDING", "node0001 GPU 4", fixed(1)), "node0001 GPU 4"),
    "single-bit storm": (simply("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "node0001 GPU 1", fixed(1500)), "node0001 GPU 1"),
    "XID 94": (simply("DCGM_FI_DEV_XID_ERRORS", "node0002 GPU 3", fixed(94)), "node0002 GPU 3"),
    "NVLink CRC": (simply("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "node0000 GPU 7", fixed(20)),
                   "node0000 GPU 7"),
    "PCIe generation 1": (simply("DCGM_FI_DEV_PCIE_LINK_GEN", "node0001 GPU 6", fixed(1)), "node0001 GPU 6"),
    "received errors": (simply("node_infiniband_port_errors_received_total", "node0000 mlx5_3", fixed(30)),
                        "node0000 mlx5_3"),
    "link recoveries": (simply("node_infiniband_link_error_recovery_total", "node0000 mlx5_6", fixed(1)),
                        "node0000 mlx5_6"),
    "drive four times slow": (simply("node_disk_read_time_seconds_total", "node0001", times(4)), "node0001 nvme0n1"),
    "shared storage slow": (slow_storage, " storage"),
    "clock and job": (slow_clock("node0001 GPU 5", 0.7, 0.75), "node0001 GPU 5"),
    "narrow slot": (simply("DCGM_FI_DEV_PCIE_LINK_WIDTH", "node0000 GPU 1", fixed(8)), "node0000 GPU 1"),
    "low power limit": (simply("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "node0002 GPU 0", fixed(300)), "node0002 GPU 0"),
    "memory leak": (simply("DCGM_FI_DEV_FB_USED", "node0000 GPU 3", lambda used: used + 3000), "node0000 GPU 3"),
    "host memory gone": (simply("node_memory_MemAvailable_bytes", "node0001", times(0.2)), "node0001 node"),
    "buffer overruns": (overruns, "node0001 mlx5_4"),
    "sick leaf": (sick_leaf, " unit0-leaf2"),
    "weak power shelf": (simply("DCGM_FI_DEV_SM_CLOCK", "node0000", times(0.8)), "node0000 node"),
    "silent sensor": (silent_sensor, "node0001 GPU 2"),
}  # fmt: skip
CLOCKS = [("node0000 GPU 0", 0.7), ("node0000 GPU 7", 0.85), ("node0001 GPU 3", 0.5), ("node0002 GPU 6", 0.7),
          ("node0002 GPU 1", 0.8)]  # fmt: skip


def diagnosed(telemetry: Day, fault: Callable[[Day], None]) -> Diagnosis:
    day = copied(telemetry)
    fault(day)
    return judge(day, "day", {}, live=False)


@pytest.mark.parametrize(("fault", "part"), UNSEEN.values(), ids=UNSEEN)
def test_an_unseen_fault_is_named_with_its_part(
    telemetry: Day, fault: Callable[[Day], None], part: str
) -> None:
    found = diagnosed(telemetry, fault)
    assert [f"{each.node} {each.part}" for each in found.findings] == [part]
    assert found.findings[0].since == pytest.approx(HOURS[0], abs=1200)


@pytest.mark.parametrize(("part", "share"), CLOCKS)
def test_the_gpu_of_a_slow_clock_is_named(telemetry: Day, part: str, share: float) -> None:
    found = diagnosed(telemetry, slow_clock(part, share, (1 + share) / 2))
    (finding,) = found.findings
    assert (f"{finding.node} {finding.part}", finding.speed) == (
        part,
        pytest.approx((1 + share) / 2, abs=0.02),
    )
    assert finding.evidence[0].startswith(f"{share:.2g} of its peers' SM clock")


def draws(telemetry: Day, count: int, seed: int) -> Iterator[tuple[str, str, bool]]:
    rng, drawn_so_far = np.random.default_rng(seed), 0
    while drawn_so_far < count:
        day = copied(telemetry)
        mutation = drawn(day, rng, COUNTERS.__contains__)
        if mutation is not None:
            found = judge(day, "day", {}, live=False)
            drawn_so_far += 1
            yield (
                mutation.kind,
                mutation.metric,
                any(names_part(each.node, each.part, mutation.parts) for each in found.findings),
            )


def test_most_of_a_few_drawn_changes_are_named(telemetry: Day) -> None:
    assert sum(is_named for *_, is_named in draws(telemetry, 10, 5)) >= 8


@pytest.mark.long
@pytest.mark.parametrize("seed", [39, 20261])  # limits were tuned on the first alone
def test_four_of_five_drawn_changes_are_named(telemetry: Day, seed: int) -> None:
    every = list(draws(telemetry, 200, seed))
    for kind in KINDS:
        mine = [is_named for drawn_kind, _, is_named in every if drawn_kind == kind]
        missed = sorted(
            metric for drawn_kind, metric, is_named in every if drawn_kind == kind and not is_named
        )
        print(f"{kind}: {sum(mine)} of {len(mine)}; missed {', '.join(missed) or 'none'}")
    assert sum(is_named for *_, is_named in every) >= 160


@pytest.mark.long
def test_healthy_days_are_quiet(tmp_path: Path) -> None:
    """Twenty days of queues of jobs of all sizes; the bar is one with a finding."""
    ill = 0
    for seed in range(20):
        podsim.exporter("arrivals:120", on="dgx-a100-80gb:4", start="4h", length="8h", every="5min",
                        begin="2026-01-05", seed=seed, write=tmp_path / "day.om")  # fmt: skip
        ill += bool(podsim.diagnose(tmp_path / "day.om").findings)
    assert ill <= 1
