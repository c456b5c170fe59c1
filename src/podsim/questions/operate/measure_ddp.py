"""`podsim measure ddp`: does DistributedDataParallel hide its all-reduces? Real communication, compute as pauses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.saved_run import keep_run
from podsim.answers.trained import MeasuredDdp
from podsim.errors import raise_all
from podsim.lab.collective_job import ranks_of, sum_table
from podsim.lab.emulated_links import emulated_links
from podsim.lab.options import no_folder, outside, unknown_backend
from podsim.lab.ranks import run_task, started_rank
from podsim.lab.training.ddp import SMALLEST, Ddp, task_of
from podsim.options.measure_options import RanksOptions
from podsim.options.question import factors, option, question
from podsim.units import parse_quantity

MOST_LAYERS, MOST_STEPS = 1000, 100_000


@dataclass(frozen=True, kw_only=True)
class MeasureDdpOptions(RanksOptions):
    """Steps of DistributedDataParallel that are timed."""

    layers: int = option(8, "Layers of the network.")
    size: str | float = option("2.1MB", "Gradients of a layer, a bucket of its own.")
    forward: str | float = option("10ms", "Pause that stands for a layer's forward pass.")
    backward: str | float = option("20ms", "Pause that stands for its backward pass.")
    slow: Mapping[int, float] | None = option(
        None,
        "A slow rank, e.g. 3=1.5: its pauses are 1.5 times as long. Repeatable.",
        read=factors("rank", "3=1.5"),
    )
    overlap: bool = option(True, "Add gradients up during the backward pass.")
    all_reduce: str = option("library", "Collective that adds them up: library, ring, FILE.py:FUNCTION.")
    steps: int = option(5, "Steps that are timed.")


@question(
    MeasureDdpOptions,
    ranked=True,
)
def measure_ddp(options: MeasureDdpOptions) -> MeasuredDdp | None:
    """Seconds of steps of torch's DistributedDataParallel; None on every rank but the first of a job.

    Each layer has its gradients in a bucket of its own. With `overlap` they are added up during the backward pass, as
    DistributedDataParallel does; else after it. Two more steps come before those that are timed; all ranks start each
    step together.

    Raises PodsimError for what makes no sense; LabError, naming the rank, for a run that broke off.
    """
    rank = started_rank(os.environ)
    world, local = ranks_of(rank, options.ranks, None)
    bytes_ = parse_quantity(options.size, "B", what="--size")
    pauses = [
        parse_quantity(text, "s", what=what)
        for what, text in (("--forward", options.forward), ("--backward", options.backward))
    ]
    wrong = outside((
        ("layers", options.layers, 1, MOST_LAYERS), ("steps", options.steps, 1, MOST_STEPS),
        ("timeout", options.timeout, 1, 1e6),
        ("forward", pauses[0], 0, 60), ("backward", pauses[1], 0, 60), ("size", bytes_, SMALLEST + 4, 1 << 31),
    ))  # fmt: skip
    wrong += unknown_backend(options.backend)
    wrong += [
        f"--slow {member}={factor:g}: ranks are 0 to {world - 1}, factors 0.01 to 100"
        for member, factor in (options.slow or {}).items()
        if not (0 <= member < world and 0.01 <= factor <= 100)
    ]
    wrong += ["--ranks 1: one rank has nobody to add gradients up with"] if world < 2 else []
    wrong += no_folder(options.save)
    raise_all(wrong)
    job = Ddp(
        ranks=world, local=local, layers=options.layers, size=int(bytes_) // 4 * 4, forward=pauses[0],
        backward=pauses[1], overlap=options.overlap, table=sum_table(options.all_reduce, world // local, local),
        steps=options.steps, timeout=options.timeout, backend=options.backend, emulated=emulated_links(os.environ),
        slow=dict(options.slow or {}),
    )  # fmt: skip
    return keep_run(run_task(task_of(job), rank), MeasuredDdp, options.save)
