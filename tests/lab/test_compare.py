"""Runs as files, and beside their predictions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from podsim.acceptance.shaped_links import emulated_fabric
from podsim.answers.lab import Emulated, MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import read_run, write_run
from podsim.errors import LabError
from podsim.questions.operate.compare import compare

MIB = 1 << 20
LINKS = Emulated(
    cluster="lab", scale=0.001, servers=2, local=4, inside=125e6, between=15.625e6, nics=4, inside_burst=131072.0,
    between_burst=131072.0,
)  # fmt: skip
PAYLOAD = 8948 / 9014


def _row(**changes: object) -> MeasuredCollective:
    given = {
        "algorithm": "ring", "size": 4.0 * MIB, "count": MIB, "iterations": 4, "seconds": 0.46, "slowest": 0.47,
        "wrong": 0, "in_place": 0.46, "in_place_wrong": 0, "algorithm_bandwidth": 8.9e6, "bus_bandwidth": 15.6e6,
        "messages": 112, "cpu": 0.2, "others": 0.01,
    }  # fmt: skip
    return MeasuredCollective(**(given | changes))  # type: ignore[arg-type]


def _run(
    *rows: MeasuredCollective, emulated: Emulated | None = LINKS, **changes: object
) -> MeasuredCollectives:
    given = {
        "collective": "all-reduce", "ranks": 8, "local": 4, "backend": "gloo", "device": "CPU", "software": "torch",
        "hosts": ("a",) * 8, "processes": tuple(range(8)), "cores": 2, "emulated": emulated, "apart": False, "warmup": 1,
        "message": 2e-4, "started": "2020-05-14T12:00:00+00:00", "rows": rows or (_row(),),
    }  # fmt: skip
    return MeasuredCollectives(**(given | changes))  # type: ignore[arg-type]


def test_a_run_comes_back_as_it_went(tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    run = _run(
        _row(), _row(algorithm="tree", in_place=None, in_place_wrong=None), left_out={"naive": "too slow"}
    )
    write_run(kept, run)
    assert read_run(kept) == run
    assert [json.loads(line)["version"] for line in kept.read_text().splitlines()[:1]] == [1]
    assert [one.name for one in tmp_path.iterdir()] == ["run.jsonl"], "nothing beside it"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [], 'does not say "format"'),
        (lambda lines: ["nonsense"], "line 1 is no JSON object"),
        (lambda lines: ["[1]"], "line 1 is no JSON object"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 2'), lines[1]], "reads version 1"),
        (
            lambda lines: [lines[0], lines[1].replace('"size": ', '"sise": ')],
            "'sise' is unknown; size is missing",
        ),
        (lambda lines: [lines[0], lines[1].replace('"seconds": 0.46', '"seconds": NaN')], "seconds is 'nan'"),
        (lambda lines: [lines[0], lines[1].replace('"seconds": 0.46', '"seconds": -1')], "seconds is '-1'"),
        (lambda lines: [lines[0], lines[1].replace('"wrong": 0', '"wrong": true', 1)], "wrong is 'True'"),
        (
            lambda lines: [lines[0].replace('"servers": 2', '"servers": "two"'), lines[1]],
            "emulated: servers is 'two'",
        ),
        (
            lambda lines: [
                lines[0].replace('"emulated": {', '"emulated": [{').replace("}, ", "}], ", 1),
                lines[1],
            ],
            "no",
        ),
    ],
)
def test_files_that_are_no_run(tmp_path: Path, change: Callable[[list[str]], list[str]], said: str) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run())
    kept.write_text("\n".join(change(kept.read_text().splitlines())))
    with pytest.raises(LabError, match=said):
        read_run(kept)


def test_places_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="cannot be read"):
        read_run(tmp_path / "none.jsonl")
    with pytest.raises(LabError, match="cannot be written"):
        write_run(tmp_path / "none" / "run.jsonl", _run())


def test_a_ring_by_hand(tmp_path: Path) -> None:
    """Links: 2 (n - 1) / n of the data through the slowest adapter; messages: one latency for each of 14 steps."""
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run())
    (row,) = compare(kept).rows
    links = 14 / 8 * 4 * MIB / (15.625e6 * PAYLOAD)
    assert row.parts["links"] == pytest.approx(links)
    saved = 131072 / (15.625e6 * PAYLOAD) + 55 * 2e-4
    assert row.parts["burst"] == pytest.approx(-saved / 4), (
        "one bucket in four calls, and what 55 latencies give back"
    )
    assert 0 < row.parts["messages"] <= 14 * 2e-4 + 1e-9
    assert row.parts["processors"] == 0, "the file says nothing of them"
    assert row.predicted == pytest.approx(row.parts["links"] + row.parts["messages"] + row.parts["burst"])
    assert row.parts["rest"] == pytest.approx(0.47 - row.predicted)
    assert row.difference == pytest.approx(row.predicted / 0.47 - 1)
    assert row.verdict == "comparable"


def test_calls_apart_have_full_buckets_each(tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run(apart=True))
    found = compare(kept)
    assert found.rows[0].parts["burst"] == pytest.approx(-131072 / (15.625e6 * PAYLOAD) - 13 * 2e-4)
    assert found.apart
    assert LINKS.pause == pytest.approx(4 * 131072 / 15.625e6)


def test_who_used_the_cores_and_what_went_wrong_is_not_compared(tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    rows = (
        _row(),
        _row(size=8.0 * MIB, cpu=0.6),
        _row(size=16.0 * MIB, others=0.2),
        _row(size=32.0 * MIB, wrong=1),
        _row(size=64.0, seconds=0.001),
    )
    write_run(kept, _run(*rows))
    found = compare(kept)
    limited = "CPU-limited, not comparable"
    assert [row.verdict for row in found.rows] == [
        "comparable",
        limited,
        limited,
        "wrong result, not comparable",
        "too short, not comparable",
    ]
    assert found.mean == found.worst == abs(found.rows[0].difference)


def test_the_library_is_a_ring_and_other_things_are_not_known(tmp_path: Path) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run(_row(algorithm="library"), _row(algorithm="mine.py:good")))
    found = compare(kept)
    assert [row.algorithm for row in found.rows] == ["library"]
    assert list(found.not_predicted) == ["mine.py:good of 4,194,304 B"]
    write_run(kept, _run(_row(algorithm="library"), collective="broadcast"))
    assert "is not modelled" in next(iter(compare(kept).not_predicted.values()))


def test_a_run_on_a_real_cluster_needs_its_name(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run(_row(size=2.0**30, slowest=0.02), _row(algorithm="library", size=2.0**30, slowest=0.01),
                         emulated=None, backend="nccl", local=8))  # fmt: skip
    done = podsim("compare", kept)
    assert done.exit_code == 2
    assert "name the cluster with --on" in done.stderr
    done = podsim("compare", kept, "--on", "dgx-a100:1", "--json")
    assert done.exit_code == 0
    ring, library = json.loads(done.stdout)["rows"]
    assert 0.005 < library["predicted"] < 0.015, "what NCCL would do"
    assert ring["parts"]["messages"] == pytest.approx(14 * 2e-4)


def test_the_command_explains_each_difference(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    kept = tmp_path / "run.jsonl"
    write_run(kept, _run(_row(), _row(size=8.0 * MIB, cpu=0.9)))
    done = podsim("compare", kept)
    assert done.exit_code == 0
    for word in (
        "links",
        "messages",
        "burst",
        "rest",
        "CPU-limited, not comparable",
        "of the rows that can be compared",
    ):
        assert word in done.stdout
    write_run(kept, _run(_row(cpu=0.9)))
    done = podsim("compare", kept)
    assert done.exit_code == 1
    assert "no row can be compared" in done.stdout
    assert podsim("compare", kept, "--on", "selene").exit_code == 2
    assert podsim("compare", kept, "--csv").stdout.startswith("algorithm,size,measured,predicted")


def test_adapters_that_ranks_share() -> None:
    """Four ranks on two adapters: ranks 0 and 1 of a server on the first."""
    shared = emulated_fabric(replace(LINKS, nics=2))
    indptr, links = shared.routes(np.array([0, 1, 2, 0]), np.array([4, 5, 6, 1]))
    ways = [tuple(links[a:b]) for a, b in pairwise(indptr)]
    assert ways[0] == ways[1] != ways[2]
    assert ways[3] == (0, 9)
    assert shared.capacity[ways[0][0]] == pytest.approx(15.625e6 * PAYLOAD)
