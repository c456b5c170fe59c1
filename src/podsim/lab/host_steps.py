"""What PyTorch itself spends on a training step, measured on networks too small for anything else to count.

Steps are those of `podsim train`. Two depths of a network give the seconds of a layer, two numbers of micro-batches those
of a micro-batch. The work of a single rank is measured in processor time, as kernels are (podsim.lab.host_rates). Where
ranks wait for each other, the wall clock counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from podsim.lab import usage
from podsim.lab.ranks import Note
from podsim.lab.training.batches import batches_of
from podsim.lab.training.precision_run import Numerics
from podsim.lab.training.rank_layout import make_layout
from podsim.lab.training.steps import Stepper
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Board, Wires

_FIRST, _STEPS = 2, 5
"""steps that are not counted, and those of which the median is kept, as of a training run"""
_KEYS = ("passes", "update")


def small_steps(runs: Mapping[str, Training], wires: Wires, note: Note) -> dict[str, dict[str, float]] | None:
    """s of the passes and of the update of one step, by the name of the run, at rank 0; None at the others.

    What a process has done before shows in how fast it gets memory: like a training run, it should have done nothing.
    """
    board = Board(wires)
    steps = {}
    for name, job in runs.items():
        note(f"a small step, {name}")
        plan = job.plan
        alone = int(plan.tp) == int(plan.pp) == 1 and int(plan.zero) == 0 and wires.backend != "nccl"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about its own ways
            reports = board.gather(_seconds(job, wires, time.process_time if alone else time.perf_counter))
        if reports is None:
            continue
        crowd = usage.crowd(wires.world) if alone else 1.0
        for_all = _mean if alone else max
        steps[name] = {
            key: crowd * median(for_all([row[key] for row in rows]) for rows in zip(*reports, strict=True))
            for key in _KEYS
        }
    return steps if wires.rank == 0 else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _seconds(job: Training, wires: Wires, clock: Callable[[], float]) -> list[dict[str, float]]:
    """This rank's seconds of some steps of a run."""
    network = job.network
    assert network is not None
    batches = batches_of(
        job.data, vocabulary=network.vocab, length=network.sequence, side=0, classes=0, seed=job.seed, images=False
    )  # fmt: skip
    layout = make_layout(job, wires)
    stepper = Stepper(job, wires, layout, batches, Numerics(job, wires, layout))
    rows = []
    for step in range(_FIRST + _STEPS):
        wires.barrier()
        start = clock()
        stepper.gradients(step)
        wires.settle()
        between = clock()
        stepper.update(0)
        wires.settle()
        rows.append(dict(zip(_KEYS, (between - start, clock() - between), strict=True)))
    return rows[_FIRST:]
