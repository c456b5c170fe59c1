"""Panels, causes that ill parts share, and findings that others explain: by hand, on two nodes of four GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.answers.diagnosis import Finding
from podsim.errors import PodsimError
from podsim.monitoring.causes import joined
from podsim.monitoring.exposition import Series, read_metrics
from podsim.monitoring.judgement import _JOBS, _explains
from podsim.monitoring.metric_output import _sample_times
from podsim.monitoring.panels import Panel, grid_of, key_of, make_panel
from podsim.monitoring.peer_scores import UNUSUAL
from podsim.monitoring.roles import Roles, median, part_order
from podsim.monitoring.symptoms import Symptom

GPUS = [(f"node{node}", str(gpu)) for node in (0, 1) for gpu in range(4)]


def series(times: list[float], values: list[float], **labels: str) -> Series:
    return Series(labels=labels, times=times, values=values)


def test_the_times_of_all_samples() -> None:
    known = {"a": [series([3.0, 1.0], [0, 0])], "b": [series([2.0, 3.0, np.nan], [0, 0, 0])]}
    assert grid_of(known).tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(grid_of({"a": [series([np.nan], [1.0])]})).tolist() == [True]
    most = [float(time) for time in range(20_000)]
    assert len(grid_of({"a": [series(most, most)]})) == 20_000
    with pytest.raises(PodsimError, match="20,001 times; 20,000 are read at most"):
        grid_of({"a": [series([*most, 20_000.0], [*most, 0.0])]})


def test_a_panel_has_a_row_for_each_part() -> None:
    rows = [
        series([1.0, 3.0], [10.0, 30.0], Hostname="b:9400", gpu="1", hpc_job="7", modelName="A100"),
        series([2.0], [5.0], Hostname="a", gpu="0"),
        series([2.0], [9.0], Hostname="a", gpu="0", nvlink="3"),
    ]
    panel = make_panel(rows, "gpu", np.array([1.0, 2.0, 3.0]))
    assert panel.keys == (("a", "0"), ("b", "1"))
    assert np.nan_to_num(panel.values, nan=-1).tolist() == [[-1, 5, -1], [10, -1, 30]]
    assert panel.groups["b", "1"] == ["7", "", "7"]
    assert panel.works.tolist() == [[False] * 3, [True, False, True]]
    untimed = make_panel(
        [series([np.nan, np.nan], [1.0, 2.0], Hostname="a", gpu="0")], "gpu", np.array([np.nan])
    )
    assert untimed.values.tolist() == [[2.0]]  # the latest counts
    assert key_of({"Hostname": "a", "gpu": "0", "nvlink": "1"}, "gpu") is None
    assert key_of({"Hostname": "a"}, "gpu") is None
    assert key_of({"job_id": "7", "Hostname": "a"}, "job") == ("", "7")


def ill(part: str, key: tuple[str, str], *times: int, finding: str = "throttled", test: str = "level") -> Any:
    shows = np.isin(np.arange(8), times)
    first, second = (
        Symptom(finding=finding, part=part, metric=name, test=test, says=f"{name} says")
        for name in ("a", "b")
    )
    return part, key, [(first, shows, shows * 2.0), (second, shows, shows * 3.0)]


def roles(*jobs: str) -> Any:
    return SimpleNamespace(by_gpu={gpu: [job] * 8 for gpu, job in zip(GPUS, jobs, strict=True)})


def panels(
    part: str = "gpu", groups: dict[tuple[str, str], list[str]] | None = None
) -> dict[str, list[Panel]]:
    keys = tuple(GPUS) if part == "gpu" else tuple((host, f"mlx5_{gpu}") for host, gpu in GPUS)
    return {part: [Panel(keys=keys, values=np.zeros((8, 8)), groups=groups or {}, models={})]}


def causes(found: list[Any]) -> list[tuple[str, tuple[str, str]]]:
    return [(part, key) for part, key, _ in found]


def test_three_fifths_of_a_job_are_its_own_illness() -> None:
    both = roles("1", "1", "1", "", "1", "1", "", "")
    ills = [ill("gpu", gpu, 0, 1, 2) for gpu in (GPUS[0], GPUS[1], GPUS[4])]
    (found,) = joined(ills, both, panels())  # three of five
    assert found[:2] == ("job", ("", "1"))
    assert found[2][0][0].says == "a says, as 3 parts"
    assert [symptom.metric for symptom, _, _ in found[2]] == ["a", "b"]
    assert causes(joined(ills[:2], both, panels())) == [("gpu", GPUS[0]), ("gpu", GPUS[1])]


def test_a_node_of_which_most_parts_are_ill_at_once() -> None:
    alone = roles(*"12345678")
    times = [(0, 1, 2, 3), (0, 1), (2, 3), (0,)]  # the last is ill for a quarter of the first one's time
    ills = [ill("gpu", gpu, *when) for gpu, when in zip(GPUS, times, strict=False)]
    (node, left) = joined(ills, alone, panels())
    assert node[:2] == ("node", ("node0", ""))
    assert node[2][0][1].tolist() == [True] * 4 + [False] * 4  # at the times of all
    assert left[:2] == ("gpu", GPUS[3])
    other = [ills[0], ills[1], ill("gpu", GPUS[2], 2, 3, finding="idle")]
    assert causes(joined(other, alone, panels())) == [("gpu", gpu) for gpu in GPUS[:3]]  # two of four alike
    missing = [ill("gpu", gpu, 0, test="absent") for gpu in GPUS[:3]]
    assert causes(joined(missing, roles(*["1"] * 4, *["2"] * 4), panels())) == [("node", ("node0", ""))]


def test_ports_share_a_leaf() -> None:
    ports = [(host, f"mlx5_{gpu}") for host, gpu in GPUS]
    groups = {port: [f"leaf{number % 4 // 2}"] * 8 for number, port in enumerate(ports)}
    ills = [ill("port", ports[number], 0) for number in (0, 1, 4)]  # three of the four of leaf0
    assert causes(joined(ills, roles(*[""] * 8), panels("port", groups))) == [("leaf", ("", "leaf0"))]


FINDING = Finding(
    kind="throttled", node="a", part="GPU 0", since=10.0, until=20.0, jobs=("7",), speed=None, remedy="", evidence=(),
    effect=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("part", "cause", "changes", "explained"),
    [
        ("job", {}, {}, True),
        ("job", {"jobs": ("8",)}, {}, False),
        ("job", {"part": "job 7"}, {}, False),
        ("queue", {}, {}, False),
        ("queue", {"part": "node"}, {}, True),
        ("port", {}, {"kind": UNUSUAL}, True),
        ("port", {}, {}, False),  # a symptom names it
        ("port", {"kind": UNUSUAL}, {"kind": UNUSUAL}, False),  # neither is named
        ("port", {"node": "b"}, {"kind": UNUSUAL}, False),
        ("port", {"part": "mlx5_1"}, {"kind": UNUSUAL}, False),
        ("port", {"since": 20.0}, {"kind": UNUSUAL}, True),
        ("port", {"since": 20.5}, {"kind": UNUSUAL}, False),  # later
        ("gpu", {}, {}, False),
        ("gpu", {"part": "storage"}, {}, True),
        ("gpu", {"part": "storage", "jobs": ("8",)}, {}, False),
        ("gpu", {"part": "storage", "since": 21.0}, {}, False),
    ],
)
def test_what_explains_a_finding(
    part: str, cause: dict[str, Any], changes: dict[str, Any], explained: bool
) -> None:
    ills = ill(part, ("a", "x"), 0)
    ills[2][0] = (ills[2][0][0].model_copy(update={"metric": _JOBS[0]}), *ills[2][0][1:])
    known: Any = {_JOBS[0]: SimpleNamespace(peers="job")}
    finding = replace(FINDING, part="it", **changes)
    assert _explains(replace(FINDING, **cause), finding, ills, known) is explained
    assert not _explains(finding, finding, ills, known)


def test_medians_and_orders() -> None:
    middle, spread, count = median(np.array([[1.0, np.nan], [2.0, 4.0], [4.0, np.nan], [9.0, np.nan]]))
    assert (middle.tolist(), spread.tolist(), count.tolist()) == ([3.0, 4.0], [1.5, 0.0], [4, 1])
    ports = [("b", "0"), ("a", "mlx5_10"), ("a", "mlx5_9"), ("a", "ib")]
    assert sorted(ports, key=part_order) == [("a", "ib"), ("a", "mlx5_9"), ("a", "mlx5_10"), ("b", "0")]


def test_as_many_times_as_are_written() -> None:
    source: Any = SimpleNamespace(length=20_000.0, begin=100.0)
    times = _sample_times(source, "1s")
    assert (len(times), times[0], times[-1]) == (20_000, 100.0, 20_099.0)
    with pytest.raises(PodsimError, match="at most 20,000 times"):
        _sample_times(SimpleNamespace(length=20_001.0, begin=0.0), "1s")  # type: ignore[arg-type]


def test_ports_are_active_or_down(ill_day: Path, healthy_day: Path) -> None:
    """IBTA: 1 down and 4 active; 2 polling and 5 link up."""
    names = ("node_infiniband_state_id", "node_infiniband_physical_state_id")
    for day, states in ((healthy_day, ({4.0}, {5.0})), (ill_day, ({1.0, 4.0}, {2.0, 5.0}))):
        known = read_metrics(day, names=names)
        assert tuple({value for each in known[name] for value in each.values} for name in names) == states


def test_gpus_that_work_with_a_part() -> None:
    known: Any = SimpleNamespace(gpus=GPUS, by_gpu={gpu: ["1" if gpu[0] == "node0" else "2"] for gpu in GPUS})
    named = {
        ("gpu", GPUS[1]): [GPUS[1]], ("node", ("node1", "")): GPUS[4:], ("disk", ("node0", "nvme0")): GPUS[:4],
        ("job", ("", "2")): GPUS[4:], ("storage", ("", "storage")): GPUS, ("queue", ("", "queue")): [],
    }  # fmt: skip
    for (part, key), gpus in named.items():
        assert Roles.gpus_of(known, part, key, ()) == gpus
