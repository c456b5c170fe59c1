"""The CSV: there and back, what cannot be read, and torch's own reader and schedules."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from podsim.errors import ScheduleError
from podsim.schedules.actions import ScheduleTable
from podsim.schedules.check import check_schedule
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.torch_csv import read_csv, to_csv, torch_problems

SIZES = {"loop": (4, 2, 8), "vee": (4, 2, 9), "two ways": (4, 1, 8)}
COLUMNS = (
    "pointer",
    "work",
    "stage",
    "micro",
    "beside",
    "stage_rank",
    "stage_part",
    "stage_before",
    "stage_after",
)


def example(name: str) -> ScheduleTable:
    p, v, m = SIZES[SCHEDULES[name].placement]
    return build(name, p, 1 if SCHEDULES[name].problems(p, v, m) else v, m)


@pytest.mark.parametrize("name", SCHEDULES)
def test_there_and_back(name: str) -> None:
    table = example(name)
    again = read_csv(to_csv(table), like=table if torch_problems(table) else None)
    for column in COLUMNS:
        assert getattr(again, column).tolist() == getattr(table, column).tolist(), column


def test_pauses_blank_lines_and_quotes_are_read_over() -> None:
    table = read_csv('0F0,,0B0,\n\n,1F0,"1B0"\n')
    check_schedule(table)
    assert to_csv(table) == "0F0,0B0\n1F0,1B0\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no actions"),
        (" ,,\n", "has no actions"),
        ("0F0,0B0\n1F0,1X0\n", "rank 1, cell 1: '1X0' is no action; 3F0 is the forward"),
        ("0F0,(0F1;0Q0)OVERLAP_F_B\n", "rank 0, cell 1"),
        ("0F0,0SEND_F0\n", "'0SEND_F0' is no action"),
        ("0F0,999999F0\n", "stage 999999 in a CSV of 2 actions"),
        ("0B10000000\n", "micro-batch 10000000 in a CSV of 1 actions"),
        ("0F-1\n", "no action"),
        ("x,y,z,x,y,z,x,y,z,x,y,z,x\n", "and 3 more cells"),
    ],
)
def test_what_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read_csv(text)
    assert said in str(caught.value)


def test_what_torch_cannot_run() -> None:
    assert "several ranks" in torch_problems(example("dualpipe"))[0]
    assert "one version of the weights" in torch_problems(example("pipedream"))[0]
    able = {name for name in SCHEDULES if not torch_problems(example(name))}
    assert able == set(SCHEDULES) - {"dualpipe", "pipedream", "pipedream-2bw"}


def torch_schedules() -> Any:
    return pytest.importorskip("torch.distributed.pipelining.schedules")


def stages(table: ScheduleTable, rank: int) -> list[Any]:
    """What torch's schedules want to know of the stages of a rank, without a process group or a model."""
    import torch

    return [
        SimpleNamespace(
            num_stages=table.stages, group_size=table.ranks, group_rank=rank, stage_index=stage, has_backward=True,
            is_first=stage == 0, is_last=stage == table.stages - 1, submod=torch.nn.Identity(), device="cpu",
            stage_index_to_group_rank={},
        )
        for stage in range(table.stages)
        if table.stage_rank[stage] == rank
    ]  # fmt: skip


def as_csv(order: dict[int, list[Any]], kept: str = "FBIW") -> str:
    """torch's order as our CSV: compute only, without pauses."""
    out = io.StringIO()
    for rank in sorted(order):
        names = [str(a) for a in order[rank] if a is not None]
        wanted = [
            n
            for n in names
            if n.endswith("OVERLAP_F_B") or (n.lstrip("0123456789")[0] in kept and "_" not in n)
        ]
        out.write(",".join(wanted) + "\n")
    return out.getvalue()


@pytest.mark.torch
@pytest.mark.parametrize(
    "name", [n for n in SCHEDULES if SCHEDULES[n].placement != "two ways" and SCHEDULES[n].flush]
)
def test_torch_loads_it_and_sees_no_deadlock(name: str, tmp_path: Path) -> None:
    """The runtime checks the order, adds sends and receives, and its own simulator plays them to the end."""
    schedules = torch_schedules()
    table = example(name)
    path = tmp_path / "schedule.csv"
    path.write_text(to_csv(table))
    runtime = schedules._PipelineScheduleRuntime(stages(table, 0), table.micro_batches)
    runtime._load_csv(str(path))
    assert as_csv(runtime.pipeline_order) == to_csv(table)
    assert runtime.stage_index_to_group_rank == dict(enumerate(table.stage_rank.tolist()))
    if table.beside.any():
        return  # torch's simulator knows no overlapped pairs
    known = ["F", "I", "B", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"]  # and nothing of FSDP
    order = {
        rank: [action for action in actions if action.computation_type.value in known]
        for rank, actions in runtime.pipeline_order_with_comms.items()
    }
    played = schedules._simulate_comms_compute(order, lambda s: int(table.stage_rank[s]), table.stages)
    assert sum(a is not None for row in played.values() for a in row) == sum(map(len, order.values()))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "theirs", "p", "v", "m"),
    [
        ("gpipe", "ScheduleGPipe", 4, 1, 6),
        ("1f1b", "Schedule1F1B", 4, 1, 6),
        ("interleaved", "ScheduleInterleaved1F1B", 4, 2, 8),
        ("interleaved", "ScheduleInterleaved1F1B", 2, 3, 6),
        ("breadth-first", "ScheduleLoopedBFS", 4, 2, 6),
        ("zb-h1", "ScheduleInterleavedZeroBubble", 4, 1, 8),
        ("zb-v", "ScheduleZBVZeroBubble", 4, 2, 9),
        ("zb-v", "ScheduleZBVZeroBubble", 4, 2, 5),
        ("dualpipe-v", "ScheduleDualPipeV", 4, 2, 8),
        ("dualpipe-v", "ScheduleDualPipeV", 3, 2, 11),
    ],
)
def test_torch_has_the_same_order(name: str, theirs: str, p: int, v: int, m: int) -> None:
    """Action by action, on every rank.

    torch has no bidirectional DualPipe, no ZB-H2 and nothing asynchronous. With several chunks a rank, its
    InterleavedZeroBubble is a schedule of its own; with one it is ZB-H1.
    """
    schedules = torch_schedules()
    table = build(name, p, v, m)
    kind = getattr(schedules, theirs)
    if theirs in ("ScheduleGPipe", "Schedule1F1B"):
        order = kind(stages(table, 0)[0], m)._get_pipeline_order()
    else:
        order = {rank: kind(stages(table, rank), m).pipeline_order[rank] for rank in range(p)}
    if theirs == "Schedule1F1B":
        # its description of the last rank counts forwards from 1 and names a micro-batch that is not there (2.13); the
        # rank's own loop counts from 0
        order[p - 1] = [a and a._replace(microbatch_index=_from_zero(a)) for a in order[p - 1]]
    assert as_csv(order) == to_csv(table)


def _from_zero(action: Any) -> int:
    index: int = action.microbatch_index
    return index - 1 if action.computation_type.value == "F" else index
