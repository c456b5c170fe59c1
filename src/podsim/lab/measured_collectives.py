"""Times collectives as nccl-tests does: checked calls first, then timed calls in a row; out of place and in place.

Every rank runs `measure`; rank 0 gets the result, the others None. What ranks tell each other about the measurement goes
through the job's key-value store, never over what is being measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from podsim.answers.lab import Emulated, MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import plain
from podsim.lab import usage
from podsim.lab.data import input_of, wrong
from podsim.lab.engine import Engine
from podsim.lab.library import library_call
from podsim.lab.ranks import Note, Task
from podsim.lab.wires import Board, Wires
from podsim.lab.work import Work, measure_work
from podsim.network.collectives.program import Program, programs
from podsim.network.collectives.table import Table

FLOAT = 4


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be measured."""

    collective: str
    ranks: int
    local: int
    """The number of ranks of a server."""
    tables: tuple[Table, ...]
    library: bool
    """Whether the library's own collective is run, too."""
    sizes: tuple[int, ...]
    iterations: int
    warmup: int
    limit: float
    """s. The time limit for the timed calls of one line, if more than one is to be made."""
    in_place: bool
    apart: bool
    """Whether calls are made one at a time, with a common start; otherwise one after the other, as in nccl-tests."""
    timeout: float
    """s. The time after which a call gives up."""
    backend: str = "auto"
    emulated: Emulated | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    """factor. The factors of nccl-tests. bus: bus bandwidth over algorithm bandwidth; parts: the parts into which a
    size is divided."""

    @property
    def nodes(self) -> int:
        """Processes: the ranks, and those that play the switches of a table."""
        return max([self.ranks, *(table.nodes for table in self.tables)])


def task_of(job: Job) -> Task:
    """The job as ranks run it; the result is that of `measure`, as plain values."""
    switches = {node: f"the switch that process {node} plays" for node in range(job.ranks, job.nodes)}
    return Task(
        work=partial(measure, job), nodes=job.nodes, names=switches, timeout=job.timeout,
        backend=job.backend,
    )  # fmt: skip


def measure(job: Job, wires: Wires, note: Note = lambda _, **more: None) -> MeasuredCollectives | None:
    """The job's measurements at rank 0, None at the others; `note` hears what is under way."""
    board = Board(wires)
    started = usage.now_text()
    ranks = board.gather(usage.this_process())
    message = message_seconds(wires, board)
    work = measure_work(wires, board, job.emulated.pause) if job.emulated else Work()
    head = None if ranks is None else _without_rows(job, wires, ranks, message, work, started)
    note("the first call", **({} if head is None else {"head": plain(head)}))
    rows = list[MeasuredCollective]()
    for table in (*job.tables, None) if job.library else job.tables:
        for size in job.sizes:
            name = table.name if table is not None else "library"
            note(f"{name} of {size:,} B")
            row = _one(job, table, size, wires, board, ranks)
            if row is not None:
                rows.append(row)
                note(f"{name} of {size:,} B", row=plain(row))
    wires.barrier()
    return None if head is None else replace(head, rows=tuple(rows))


def _without_rows(
    job: Job, wires: Wires, ranks: Sequence[Mapping[str, Any]], message: float, work: Work, started: str
) -> MeasuredCollectives:
    """What is known before the first line."""
    return MeasuredCollectives(
        collective=job.collective, ranks=job.ranks, local=job.local, backend=wires.backend,
        device=device_name(wires), software=wires.software,
        hosts=tuple(each["host"] for each in ranks[: job.ranks]),
        processes=tuple(each["pid"] for each in ranks[: job.ranks]), cores=min(each["cores"] for each in ranks),
        emulated=job.emulated, apart=job.apart, warmup=job.warmup, message=message, started=started,
        rows=(), left_out=job.left_out,
        message_work=work.message, byte_work=work.byte, add_work=work.add,
    )  # fmt: skip


def device_name(wires: Wires) -> str:
    """What holds the data: the GPU's name, or CPU."""
    if wires.backend == "nccl":
        return str(wires.torch.cuda.get_device_name(wires.device))
    return "CPU"


def message_seconds(wires: Wires, board: Board, trips: int = 15) -> float:
    """Half the median round trip of 4 B between ranks 0 and 1, s; 0 with one rank."""
    if wires.world < 2:
        return 0.0
    data = wires.empty(1).fill_(1.0)
    round_trips = [wires.round_trip(data, 0, 1) for _ in range(trips)]
    return float(board.tell(statistics.median(round_trips) / 2))


def _one(
    job: Job,
    table: Table | None,
    size: int,
    wires: Wires,
    board: Board,
    ranks: Sequence[Mapping[str, Any]] | None,
) -> MeasuredCollective | None:
    """One line: an algorithm at a size."""
    elements = size // FLOAT
    places = [
        _place(job, table, elements, wires, board, inside=inside)
        for inside in (False, True)[: 1 + job.in_place]
    ]
    messages = 0
    if table is not None:
        messages = table.transfers
    if ranks is None:
        return None
    outside = places[0]
    assert outside is not None
    inside = places[1] if job.in_place else None
    seconds = outside["seconds"]
    speed = size / seconds if seconds > 0 else 0.0
    cpu, others = usage.busiest(outside["usage"], ranks)
    return MeasuredCollective(
        algorithm=table.name if table is not None else "library", size=float(size),
        count=int(elements // job.factors.get("parts", 1)), iterations=outside["iterations"], seconds=seconds,
        slowest=outside["slowest"], wrong=outside["wrong"], in_place=inside["seconds"] if inside else None,
        in_place_wrong=inside["wrong"] if inside else None, algorithm_bandwidth=speed,
        bus_bandwidth=speed * job.factors.get("bus", 1.0), messages=messages, cpu=cpu, others=others,
    )  # fmt: skip


class _Side:
    """A rank's buffers for one line, and the call that is timed."""

    def __init__(self, job: Job, table: Table | None, elements: int, wires: Wires, inside: bool) -> None:
        self.wires, self.inside = wires, inside
        self.program: Program | None = None
        self.engine: Engine | None = None
        if table is not None:
            if wires.rank >= table.nodes and not table.lockstep:
                return  # it plays the switch of another table; in lockstep it must meet the others between steps
            self.program = programs(table, elements, range(wires.rank, wires.rank + 1))[0]
            self.engine = Engine(self.program, wires)
            self.ranks, self.input, self.output = table.ranks, self.program.input, self.program.output
            self.held = wires.empty(self.program.elements if wires.rank < table.nodes else 0)
        elif wires.rank < job.ranks:
            self.call, self.input, self.output, buffer = library_call(
                job.collective, wires, job.ranks, elements, inside
            )
            self.ranks, self.held = job.ranks, buffer
        else:
            return
        self.source = self.held if inside else wires.empty(len(self.held))
        self.active = True

    active = False

    def fill(self) -> None:
        """Put this rank's data where they belong."""
        if not self.active or self.wires.rank >= self.ranks:
            return
        data = self.wires.torch.from_numpy(input_of(self.wires.rank, len(self.source)))
        for first, last, _ in self.input:
            self.source[first:last] = data[first:last].to(self.source.device)

    def once(self) -> None:
        """One call."""
        if not self.active:
            return
        if self.engine is None or self.program is None:
            self.call(self.source, self.held)
            return
        own = self.source
        if self.wires.rank >= self.ranks:
            self.held.zero_()  # a switch starts every sum from zero
        elif self.inside:
            own = self.held.clone() if self.program.keeps_input else self.held
        else:
            for first, last, _ in self.input:
                self.held[first:last] = self.source[first:last]
        self.engine.run(self.held, own)

    def wrong(self) -> int:
        """Elements that came out wrong here."""
        if not self.active or self.wires.rank >= self.ranks:
            return 0
        self.wires.settle()
        return wrong(self.held.cpu().numpy(), self.output, self.ranks)


def _place(
    job: Job, table: Table | None, elements: int, wires: Wires, board: Board, *, inside: bool
) -> dict[str, Any] | None:
    """Check, then time: out of place, or (inside) within one buffer. What all ranks found, at rank 0."""
    side = _Side(job, table, elements, wires, inside)
    side.fill()
    wires.barrier()
    start = time.perf_counter()
    side.once()
    wires.settle()
    first = time.perf_counter() - start
    bad = side.wrong()
    for _ in range(job.warmup - 1):
        side.once()
    wires.barrier()
    iterations = int(board.tell(max(1, min(job.iterations, int(job.limit / max(first, 1e-9))))))
    before = usage.mark()
    calls = _calls(side, wires, iterations, job)
    used = usage.since(before)
    wires.barrier()
    reports = board.gather({"wrong": bad, "usage": used, "calls": calls})
    if reports is None:
        return None
    each = [report["calls"] for report in reports[: job.ranks]]
    return {
        "iterations": iterations, "seconds": statistics.fmean(map(statistics.fmean, each)),
        "slowest": statistics.median(map(max, zip(*each, strict=True))),
        "wrong": sum(report["wrong"] for report in reports), "usage": [report["usage"] for report in reports],
    }  # fmt: skip


def _calls(side: _Side, wires: Wires, iterations: int, job: Job) -> list[float]:
    """s of each call on this rank; of calls one after the other only their mean."""
    if not job.apart:
        start = time.perf_counter()
        for _ in range(iterations):
            side.once()
        wires.settle()
        return [(time.perf_counter() - start) / iterations]
    times = []
    for _ in range(iterations):
        wires.barrier()
        time.sleep(job.emulated.pause if job.emulated else 0.0)
        wires.barrier()
        start = time.perf_counter()
        side.once()
        wires.settle()
        times.append(time.perf_counter() - start)
    return times
