"""`podsim pack`: requests for parts of GPUs, packed onto nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.errors import PodsimError, check_name
from podsim.fleet.openb import read_nodes, read_requests
from podsim.fleet.packing import PACKERS, pack_orders
from podsim.fleet.queue import Progress, part_of
from podsim.fleet.traces import DATA
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question, reworded


@dataclass(frozen=True, kw_only=True)
class PackOptions:
    """Requests for parts of GPUs, and the nodes that they are packed onto."""

    requests: str = option(
        "openb", "openb (Alibaba 2023), or a CSV: cpu_milli, memory_mib, num_gpu, gpu_milli.", argument=True
    )
    nodes: str = option("", "A CSV of nodes: cpu_milli, memory_mib, gpu, model.")
    packer: Sequence[str] = option(
        (), "random, dot-product, clustering, packing, best-fit, fgd. Repeatable; default all."
    )
    load: float = option(1.3, "Requested GPUs over existing GPUs.")
    seeds: int = option(3, "Random orders of arrival.")


@dataclass(frozen=True, kw_only=True)
class PackRow:
    """One packer, mean over seeds."""

    packer: str
    says: str = shown("chooses")
    """The packer in one line."""
    allocated: float = shown("given out", ":.2%")
    """share. The share of all GPUs that is allocated at the end."""
    spread: float = shown(format=":.2%")
    """share. The largest minus the smallest result over seeds."""
    fragmented: float
    """share. The mean share of all GPUs that is free and of no use to a request of the trace."""
    turned_away: float
    """share. The share of the requests that found no room."""
    arrived_A: tuple[float, ...] = shown(is_hidden=True)  # noqa: N815  (a key of --json)
    """share. The requested share of all GPUs at each point of the curve."""
    allocated_A: tuple[float, ...] = shown(is_hidden=True)  # noqa: N815  (a key of --json)
    """share. The allocated share of all GPUs at each point of the curve."""


@dataclass(frozen=True, kw_only=True)
class PackResult(
    Answer,
    view=View(
        rows="rows",
        figure="report.plot_queue:pack_figure",
        chart="Allocated over requested GPUs",
    ),
):
    """Requests for parts of GPUs, packed onto nodes."""

    trace: str
    nodes: int
    gpus: int = shown("GPUs")
    requests: int = shown("kinds of request")
    """The number of kinds of request in the trace."""
    load: float = shown("requested GPUs", ":.0%", remark="of all GPUs")
    """factor. The number of requested GPUs over the number of GPUs."""
    seeds: int = shown("random orders", remark="the mean of them is shown")
    rows: tuple[PackRow, ...]


@question(
    PackOptions,
    output=reworded(PlotOutput, "plot", "Draw allocated over requested GPUs: FILE.svg or .png."),
    progress="packing requests",
)
def pack(options: PackOptions, *, progress: Progress | None = None) -> PackResult:
    """Pack requests for parts of GPUs onto nodes until `load` times the machine's GPUs have been asked for.

    `requests` is `openb` (Alibaba's trace of 2023, in the package, with its nodes), or a CSV of pods with cpu_milli,
    memory_mib, num_gpu, gpu_milli; then `nodes` is a CSV with cpu_milli, memory_mib, gpu, model.  Packers (default all)
    are those of podsim.fleet.packing.PACKERS; each runs over `seeds` random orders of arrival. `progress` is called with
    (orders packed, all), counted over the packers.
    """
    if not 1 <= options.seeds <= 1000 or not 0.01 <= options.load <= 100:
        raise PodsimError(
            f"seeds={options.seeds}, load={options.load:g}; seeds are 1 to 1000, load is 0.01 to 100"
        )
    if options.requests != "openb" and not options.nodes:
        raise PodsimError(
            "nodes: give the CSV of the nodes, too (cpu_milli, memory_mib, gpu, model), or pack openb"
        )
    machine = read_nodes(Path(options.nodes) if options.nodes else DATA / "openb_gpu_nodes.csv.gz")
    asked = read_requests(
        DATA / "openb_pods.csv.gz" if options.requests == "openb" else Path(options.requests), machine.models
    )
    for name in options.packer:
        check_name("packer", name, PACKERS)
    packers = options.packer or tuple(PACKERS)
    rows = tuple(
        PackRow(
            packer=name, says=PACKERS[name],
            **pack_orders(
                asked, machine, name, load=options.load, seeds=options.seeds,
                progress=part_of(progress, index, len(packers)),
            ),
        )
        for index, name in enumerate(packers)
    )  # fmt: skip
    return PackResult(
        trace=options.requests[-200:], nodes=len(machine.gpus), gpus=int(machine.gpus.sum()), requests=len(asked.count),
        load=options.load, seeds=options.seeds, rows=rows,
    )  # fmt: skip
