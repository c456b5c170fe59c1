"""`podsim measure ddp`: does DistributedDataParallel hide its all-reduces? Real communication, compute as pauses."""

from __future__ import annotations

import os

from podsim.errors import PodsimError
from podsim.lab.options import no_folder, outside, unknown_backend
from podsim.lab.ranks import here, run_here, run_joined
from podsim.lab.record import run_of, write_run
from podsim.lab.training.ddp import SMALLEST, Ddp, task_of
from podsim.options.measure_options import MeasureDdpOptions
from podsim.options.question import question
from podsim.results.trained import MeasuredDdp
from podsim.units import parse_quantity
from podsim.verbs.measure import emulated_links, ranks_of, sum_table

MOST_LAYERS, MOST_STEPS = 1000, 100_000


@question(MeasureDdpOptions)
def measure_ddp(options: MeasureDdpOptions) -> MeasuredDdp | None:
    """Seconds of steps of torch's DistributedDataParallel; None on every rank but the first of a job.

    layers    layers, each with gradients of `size` in a bucket of its own, and pauses of `forward` and `backward`
    overlap   add gradients up beside the backward pass, as DistributedDataParallel does; else after it
    all_reduce  what adds them up: library, or the name of a table (or MSCCL's FILE.xml, FILE.py:FUNCTION)
    steps     that are timed, two more come before; all ranks start each together
    ranks, backend, timeout, save  as in `podsim.measure_collective`

    Raises PodsimError for what makes no sense; LabError, naming the rank, for a run that broke off.
    """
    place = here(os.environ)
    world, local = ranks_of(place, options.ranks, None)
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
    wrong += ["--ranks 1: one rank has nobody to add gradients up with"] if world < 2 else []
    wrong += no_folder(options.save)
    if wrong:
        raise PodsimError("; ".join(wrong))
    job = Ddp(
        ranks=world, local=local, layers=options.layers, size=int(bytes_) // 4 * 4, forward=pauses[0],
        backward=pauses[1], overlap=options.overlap, table=sum_table(options.all_reduce, world // local, local),
        steps=options.steps, timeout=options.timeout, backend=options.backend, emulated=emulated_links(os.environ),
    )  # fmt: skip
    task = task_of(job)
    told = run_here(task) if place is None else run_joined(task, place)
    if told is None:
        return None
    found: MeasuredDdp = run_of(told, kind="ddp")
    if options.save is not None:
        write_run(options.save, found)
    return found
