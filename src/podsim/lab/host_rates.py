"""What one rank reaches while all others are busy, too: products, streams, parts of a training step, collectives.

Every rank measures the same thing at the same time. On processors a kernel is called over and over for a fixed time, so
that ranks which share cores do so throughout; on GPUs a fixed number of calls lies between two CUDA events (written
from PyTorch's documentation, and not tried on a GPU).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from podsim.lab import usage
from podsim.lab.host_parts import PARTS, linear
from podsim.lab.library import named_as
from podsim.lab.ranks import Note
from podsim.lab.wires import Board, Wires

PRODUCTS = (
    (64, 256, 256), (256, 256, 256), (256, 1024, 256), (512, 512, 512), (512, 2048, 512), (1024, 1024, 1024),
    (1024, 3072, 768),
)  # fmt: skip
"""m, n, k of single products: the rates that are reported"""
LINEARS = (
    (64, 256, 256), (512, 64, 64), (256, 256, 256), (256, 1024, 256), (512, 256, 1024), (512, 512, 512), (512, 1536, 512),
    (512, 2048, 512), (512, 512, 2048), (128, 768, 768), (1024, 768, 3072), (512, 4096, 256),
)  # fmt: skip
"""tokens, outputs, inputs of linear layers, forward and backward: what the law is fitted to"""
STREAMS = tuple(1 << power for power in (10, 14, 16, 17, 18, 19, 20, 22))
"""elements that are added to others and written: three times as many bytes each as in memory"""
COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv",
)  # fmt: skip
_SIZES = (1 << 12, 1 << 18, 1 << 22, 1 << 24)
"""B, as nccl-tests counts"""
_FLOAT = 4
_CALLS = 3
_LONGEST = 1.0
"""s of a call, or what is asked for each kernel, beyond which it is made once"""
_TRIES = 2
"""the faster of two counts: another program that runs for a moment slows one of them"""


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """How long, and of which types."""

    seconds: float
    """s. The time for each kernel."""
    precisions: tuple[str, ...]
    parts: bool = True
    """Whether parts of a training step are measured, too."""


def measure_ranks(job: Measuring, wires: Wires, note: Note) -> dict[str, Any] | None:
    """Kernels, exchanges and links of all ranks as plain values at rank 0; None at the others."""
    board, before = Board(wires), usage.mark()
    kernels: list[dict[str, Any]] = []
    each = len(PRODUCTS) + len(LINEARS)
    count = each * len(job.precisions) + len(STREAMS) + 1 + len(PARTS) * job.parts
    for number, (kind, precision, shape, call) in enumerate(_kernels(job, wires), 1):
        note(f"kernel {number} of {count}: {kind} of {' x '.join(map(str, shape))}, {precision}")
        tries = [board.gather(timed(wires, call, job.seconds / _TRIES)) for _ in range(_TRIES)]
        seconds = min((each for each in tries if each is not None), key=sum, default=None)
        if seconds is not None:
            mean = sum(seconds) / len(seconds)
            row = {"name": kind, "precision": precision, "shape": list(shape), "seconds": mean}
            kernels.append(row | {"spread": max(seconds) / mean - 1})
    sends = list(_sends(wires, board, note, max(_LONGEST, job.seconds))) if wires.world > 1 else []
    used = board.gather(usage.since(before))
    if used is None:
        return None
    return {
        "kernels": kernels, "sends": sends, "used": used, "cores": usage.cores(), "device": _device(wires),
    }  # fmt: skip


def _device(wires: Wires) -> dict[str, Any]:
    if wires.backend != "nccl":
        return {"name": "CPU", "capability": 0.0, "memory": 0.0, "cache": 0.0}
    of = wires.torch.cuda.get_device_properties(wires.device)
    return {
        "name": str(of.name), "capability": of.major + of.minor / 10, "memory": float(of.total_memory),
        "cache": float(getattr(of, "L2_cache_size", 0)),
    }  # fmt: skip


Made = tuple[str, str, tuple[int, ...], Callable[[], None]]


def _kernels(job: Measuring, wires: Wires) -> Iterator[Made]:
    """(kind, precision, shape, the call) of everything that one rank does alone; each is made when it is its turn."""
    torch = wires.torch
    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

    def product(m: int, n: int, k: int, kind: Any) -> Callable[[], None]:
        a = torch.randn(m, k, device=wires.device).to(kind)
        b = torch.randn(k, n, device=wires.device).to(kind)
        out = torch.empty(m, n, dtype=kind, device=wires.device)

        def call() -> None:
            torch.mm(a, b, out=out)

        return call

    def stream(count: int) -> Callable[[], None]:
        a, b = (torch.ones(count, device=wires.device) for _ in range(2))
        out = torch.empty_like(a)

        def call() -> None:
            torch.add(a, b, out=out)

        return call

    for precision in job.precisions:
        for m, n, k in PRODUCTS:
            yield "product", precision, (m, n, k), product(m, n, k, types[precision])
        for shape in LINEARS:
            yield "linear", precision, shape, linear(torch, wires.device, shape, types[precision])
    for count in STREAMS:
        yield "stream", "fp32", (count,), stream(count)
    yield "launch", "fp32", (1,), stream(1)
    for part in PARTS if job.parts else ():
        yield part.kind, "fp32", part.shape, part.make(torch, wires.device, part.shape)


def timed(wires: Wires, call: Callable[[], None], seconds: float) -> float:
    """s of one call, while all ranks call it.

    On processors that is the processor time of a call, times the ranks that share a core: what the clock on the wall
    would say if no other program ran. Ranks are on one machine here. A call that takes longer than `seconds`, or 1 s, is
    made once.
    """
    first, begun = time.process_time(), time.perf_counter()
    call()
    alone, took = time.process_time() - first, time.perf_counter() - begun
    wires.barrier()
    if wires.backend == "nccl":
        return _timed_on_gpu(wires, call, seconds)
    crowd = usage.crowd(wires.world)
    if took > max(_LONGEST, seconds):  # one call has to do
        return alone * crowd
    count, start, end = 0, time.process_time(), time.perf_counter() + seconds
    while not count or time.perf_counter() < end:
        call()
        count += 1
    return (time.process_time() - start) / count * crowd


def _timed_on_gpu(wires: Wires, call: Callable[[], None], seconds: float) -> float:
    start = time.perf_counter()
    call()
    wires.settle()
    count = max(_CALLS, int(seconds / max(time.perf_counter() - start, 1e-6)))
    first, last = (wires.torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(count):
        call()
    last.record()
    wires.settle()
    return float(first.elapsed_time(last)) * 1e-3 / count


def _sends(wires: Wires, board: Board, note: Note, longest: float) -> Iterator[dict[str, Any]]:
    """Collectives of 2, 4, … and all ranks, every rank in some group; then 4 B and more from rank to rank."""
    distributed = wires.torch.distributed
    counts = sorted(
        {*(1 << p for p in range(1, wires.world.bit_length()) if wires.world % (1 << p) == 0), wires.world}
    )
    for count in counts:
        groups = [
            distributed.new_group(list(range(first, first + count))) for first in range(0, wires.world, count)
        ]
        group = groups[wires.rank // count]
        for collective in COLLECTIVES:
            for size in _SIZES:
                at = counts.index(count) * len(COLLECTIVES) + COLLECTIVES.index(collective) + 1
                note(
                    f"collective {at} of {len(counts) * len(COLLECTIVES)}: {collective} of {size:,} B on {count} ranks"
                )
                call = _call(wires, collective, size // _FLOAT, count, group)
                times = board.gather(_many(wires, board, call, longest))
                if times is not None:
                    seconds = sum(times) / len(times)
                    yield {"collective": collective, "ranks": count, "size": float(size), "seconds": seconds}


def _many(wires: Wires, board: Board, call: Callable[[], None], longest: float) -> float:
    """s of one call of a collective; the faster of some tries, or the first where it takes longer than `longest` s."""
    wires.barrier()
    start = time.perf_counter()
    call()
    wires.settle()
    first = time.perf_counter() - start
    if board.tell(first) > longest:
        return first
    times = []
    for _ in range(_TRIES):
        wires.barrier()
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        wires.settle()
        times.append((time.perf_counter() - start) / _CALLS)
    return min(times)


def _call(wires: Wires, collective: str, elements: int, ranks: int, group: Any) -> Callable[[], None]:
    """One collective of a group, sizes as nccl-tests counts them."""
    distributed = wires.torch.distributed
    first = wires.rank // ranks * ranks
    part = max(elements // ranks, 1)
    buffer, piece = wires.empty(part * ranks).zero_(), wires.empty(part).zero_()
    other = wires.empty(part * ranks).zero_()

    def pair() -> None:
        """The lower half sends to the upper half."""
        near, half = wires.rank - first, ranks // 2
        if near < half:
            distributed.send(buffer, first + near + half, group=group)
        elif near < 2 * half:
            distributed.recv(buffer, first + near - half, group=group)

    gather = named_as(distributed, "all_gather_single", "all_gather_into_tensor")
    scatter = named_as(distributed, "reduce_scatter_single", "reduce_scatter_tensor")
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: distributed.all_reduce(buffer, group=group),
        "all_gather": lambda: gather(buffer, piece, group=group),
        "reduce_scatter": lambda: scatter(piece, buffer, group=group),
        "broadcast": lambda: distributed.broadcast(buffer, first, group=group),
        "reduce": lambda: distributed.reduce(buffer, first, group=group),
        "all_to_all": lambda: distributed.all_to_all_single(other, buffer, group=group),
        "send_recv": pair,
    }  # fmt: skip
    return calls[collective]
