"""Tables as the compute-only CSV that torch.distributed.pipelining reads: one line a rank, "0F0,1F0,0B0".

F forward, B whole backward, I input gradient, W weight gradient; a number before it is the stage, after it the
micro-batch; "(0F4;1B2)OVERLAP_F_B" runs both side by side. PyTorch 2.13 loads it with
`_PipelineScheduleRuntime._load_csv(file)`, which adds sends and receives itself. An empty cell is a pause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from podsim.axes import Ints
from podsim.errors import ScheduleError
from podsim.schedules.actions import LETTERS, ScheduleTable, action_text

_ACTION = re.compile(r"(\d{1,9})([FBIW])(\d{1,9})")
_BESIDE = re.compile(r"\(([^()]*)\)OVERLAP_F_B")


def to_csv(table: ScheduleTable) -> str:
    """CSV text, ranks in order."""
    return "".join(",".join(_cells(table, rank)) + "\n" for rank in range(table.ranks))


def _cells(table: ScheduleTable, rank: int) -> list[str]:
    """Actions of a rank as cells; simultaneous ones share a cell."""
    groups: list[list[str]] = []
    for action in range(table.row(rank).start, table.row(rank).stop):
        if table.beside[action] and groups:
            groups[-1].append(action_text(table, action))
        else:
            groups.append([action_text(table, action)])
    return [group[0] if len(group) == 1 else f"({';'.join(group)})OVERLAP_F_B" for group in groups]


def torch_problems(table: ScheduleTable) -> list[str]:
    """Why torch's runtime cannot run a table that it can read; empty if it can."""
    problems = []
    if not table.flush:
        problems.append(
            f"{table.name} is asynchronous; torch's runtime has one version of the weights and flushes every step"
        )
    stages = np.arange(table.stages)
    if table.stages != table.parts or (table.stage_part != stages).any():
        problems.append(
            f"{table.name} gives each part of the model to several ranks; torch's runtime sends every micro-batch "
            "through all stages in order"
        )
    return problems


def read_csv(text: str, *, like: ScheduleTable | None = None, name: str = "csv") -> ScheduleTable:
    """The table of a CSV; ScheduleError with all cells that cannot be read.

    Stages are one chain in their order, unless a table is given whose stages these are. The table is as it stands in
    the file: `check_schedule` says whether it can run.
    """
    lines = [line for line in text.splitlines() if line.strip(", \t")]
    if not lines:
        raise ScheduleError(["the CSV has no actions; a line for each rank reads 0F0,0F1,0B0,0B1"])
    problems: list[str] = []
    rows = [_read_line(rank, line, problems) for rank, line in enumerate(lines)]
    if problems:
        shown = problems[:10] + ([f"and {len(problems) - 10} more cells"] if len(problems) > 10 else [])
        raise ScheduleError(shown)
    table = np.array([action for row in rows for action in row], np.int64).reshape(-1, 4)
    work, stage, micro, beside = table.T
    pointer = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    rank = np.repeat(np.arange(len(rows)), np.diff(pointer))
    if int(micro.max()) >= len(table):
        raise ScheduleError(
            [
                f"micro-batch {micro.max()} in a CSV of {len(table)} actions; micro-batches count from 0 without gaps"
            ]
        )
    shape = like or _chain(name, stage, rank, len(rows))
    return ScheduleTable(
        name=name if like is None else like.name,
        ranks=len(rows),
        micro_batches=int(micro.max()) + 1,
        parts=shape.parts,
        stage_rank=shape.stage_rank,
        stage_part=shape.stage_part,
        stage_before=shape.stage_before,
        stage_after=shape.stage_after,
        pointer=pointer,
        work=work,
        stage=stage,
        micro=micro,
        beside=beside.astype(bool),
    )


def _chain(name: str, stage: Ints, rank: Ints, ranks: int) -> ScheduleTable:
    """Stages in one chain, each on the rank that runs it first; one that nobody runs on rank 0, for the check to find."""
    stages = int(stage.max()) + 1
    limit = len(stage)
    if stages > limit:
        raise ScheduleError(
            [f"stage {stages - 1} in a CSV of {limit} actions; stages count from 0 without gaps"]
        )
    home = np.zeros(stages, np.int64)
    home[stage[::-1]] = rank[::-1]
    part = np.arange(stages)
    none = np.empty(0, np.int64)
    return ScheduleTable(
        name=name, ranks=ranks, micro_batches=1, parts=stages, stage_rank=home, stage_part=part,
        stage_before=part - 1, stage_after=np.append(part[1:], -1), pointer=np.zeros(ranks + 1, np.int64),
        work=none, stage=none, micro=none, beside=none.astype(bool),
    )  # fmt: skip


def _read_line(rank: int, line: str, problems: list[str]) -> list[tuple[int, int, int, int]]:
    """(work, stage, micro, beside) of each action of a line."""
    out = []
    for column, cell in enumerate(line.split(",")):
        text = cell.strip().strip('"')
        if not text:
            continue
        pair = _BESIDE.fullmatch(text)
        words: Sequence[str] = [w.strip() for w in pair[1].split(";")] if pair else [text]
        for position, word in enumerate(words):
            match = _ACTION.fullmatch(word)
            if match is None:
                problems.append(
                    f"rank {rank}, cell {column}: {text[:40]!r} is no action; 3F0 is the forward of micro-batch 0 on "
                    "stage 3, and B, I, W are its whole backward, input and weight gradient"
                )
                break
            out.append((LETTERS.index(match[2]), int(match[1]), int(match[3]), int(position > 0)))
    return out
