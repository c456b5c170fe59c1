"""Runs schedules for real: a process a rank, gloo between them, a small model; started by test_torch_run.py.

    python gloo_ranks.py FOLDER RANKS MICRO_BATCHES

FOLDER holds NAME.csv, torch's form, and NAME.json, the rank of each stage. Prints "NAME ok" where every stage's
gradients are those of the whole model in one process.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH = 8


def loss(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2).mean()


def one(path: Path, rank: int, m: int) -> bool:
    """Whether a schedule gives the stages of this rank the gradients that they should have."""
    homes = json.loads(path.with_suffix(".json").read_text())
    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in homes]
    given, wanted = torch.randn(2 * m, WIDTH), torch.randn(2 * m, WIDTH)
    whole = nn.Sequential(*copy.deepcopy(parts))
    for x, y in zip(given.chunk(m), wanted.chunk(m), strict=True):
        (loss(whole(x), y) / m).backward()
    mine = [stage for stage, home in enumerate(homes) if home == rank]
    stages = [PipelineStage(parts[stage], stage, len(homes), torch.device("cpu")) for stage in mine]
    runtime = _PipelineScheduleRuntime(stages, m, loss_fn=loss)
    runtime._load_csv(str(path))
    last = len(homes) - 1 in mine
    runtime.step(
        *([given] if 0 in mine else []), target=wanted if last else None, losses=[] if last else None
    )
    pairs = [
        (a.grad, b.grad)
        for stage in mine
        for a, b in zip(parts[stage].parameters(), whole[stage].parameters(), strict=True)
    ]
    return all(torch.allclose(a, b, atol=1e-6) for a, b in pairs)


def run(folder: Path, rank: int, ranks: int, m: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=ranks)
    for path in sorted(folder.glob("*.csv")):
        right = torch.tensor([int(one(path, rank, m))])
        dist.all_reduce(right, dist.ReduceOp.MIN)
        if rank == 0:
            print(path.stem, "ok" if right.item() else "wrong", flush=True)
    dist.destroy_process_group()


def main() -> None:
    folder, ranks, m = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    children = []
    for rank in range(1, ranks):
        child = os.fork()  # torch is imported once: that is most of the time
        if child == 0:
            run(folder, rank, ranks, m)
            os._exit(0)
        children.append(child)
    run(folder, 0, ranks, m)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
