"""The commands about many jobs: `podsim queue` and `podsim pack`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]


def queue(
    trace: Annotated[
        str,
        typer.Argument(
            help="philly-1 to philly-4, kalos; a CSV, Philly's JSON or sacct -P; arrivals:10000 (jobs=10000,load=0.9)."
        ),
    ],
    on: Annotated[
        str, typer.Option("--on", help="GPUs (64), nodes (8x8), or a cluster: selene, a TOML file.")
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="fifo, fifo-skip, easy (default), conservative, sjf, qssf, srtf, srsf, las, tiresias, themis,"
            " themis-known, slurm. Repeatable."
        ),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="All policies side by side.")] = False,
    where: Annotated[
        list[str] | None, typer.Option(help="Keep rows of the trace, as vc=7f04ca. Repeatable.")
    ] = None,
    together: Annotated[bool, typer.Option("--together", help="Submit all jobs at once.")] = False,
    placement: Annotated[str, typer.Option(help="best-fit, first-fit or spread; fgd for MIG.")] = "best-fit",
    interval: Annotated[str, typer.Option(help="Time between decisions, as 6min; default every event.")] = "",
    start: Annotated[str, typer.Option(help="Time a job needs before its first step, as 2min.")] = "",
    checkpoint: Annotated[str, typer.Option(help="Time a preempted job needs to save.")] = "",
    restart: Annotated[str, typer.Option(help="Time a preempted job needs to load and go on.")] = "",
    depth: Annotated[int | None, typer.Option(help="Jobs that backfill looks at; 0 all.")] = None,
    repartition: Annotated[
        str, typer.Option(help="Time a job waits where a GPU is divided anew for it (MIG), as 10s.")
    ] = "",
    taper: Annotated[
        float, typer.Option(help="Share of a leaf's bandwidth that its uplinks have, for jobs with plans.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of a model of arrivals.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw use over time and completion times: FILE.svg or .png.")
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Run jobs through a queue. Exit status 1: some fit no machine of this size."""
    from podsim.cli.options import drawable, one_format, pairs, print_result
    from podsim.report.progress import bar
    from podsim.report.queue import plain_result, plain_rows, queue_report
    from podsim.verbs.queue import queue as verb

    one_format(json, csv)
    drawable(plot, "--plot")
    with bar("jobs ended") as progress:
        found = verb(
            trace, on=on, policy=tuple(policy or ()), compare=compare, where=pairs(where, "--where", "vc=7f04ca"),
            together=together, placement=placement,
            interval=interval, start=start, checkpoint=checkpoint, restart=restart, depth=depth,
            repartition=repartition, taper=taper, seed=seed,
            timeline=plot is not None, progress=progress,
        )  # fmt: skip
    if plot is not None:
        from podsim.report.plot_queue import queue_image

        plot.write_bytes(queue_image(found, plot.suffix.lower()[1:]))
    print_result(
        plain_result(found), lambda _: queue_report(found), json=json, csv=csv, rows=plain_rows(found)
    )
    if found.too_large:
        raise typer.Exit(1)


def pack(
    requests: Annotated[
        str, typer.Argument(help="openb (Alibaba 2023), or a CSV: cpu_milli, memory_mib, num_gpu, gpu_milli.")
    ] = "openb",
    nodes: Annotated[str, typer.Option(help="A CSV of nodes: cpu_milli, memory_mib, gpu, model.")] = "",
    packer: Annotated[
        list[str] | None,
        typer.Option(
            help="random, dot-product, clustering, packing, best-fit, fgd. Repeatable; default all."
        ),
    ] = None,
    load: Annotated[float, typer.Option(help="GPUs asked for over GPUs there are.")] = 1.3,
    seeds: Annotated[int, typer.Option(help="Random orders of arrival.")] = 3,
    plot: Annotated[
        Path | None, typer.Option(help="Draw given out over asked for: FILE.svg or .png.")
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Pack requests for parts of GPUs onto nodes."""
    from podsim.cli.options import drawable, one_format, print_result
    from podsim.report.queue import pack_report
    from podsim.verbs.queue import pack as verb

    one_format(json, csv)
    drawable(plot, "--plot")
    found = verb(requests, nodes=nodes, packer=tuple(packer or ()), load=load, seeds=seeds)
    if plot is not None:
        from podsim.report.plot_queue import pack_image

        plot.write_bytes(pack_image(found, plot.suffix.lower()[1:]))
    print_result(found, pack_report, json=json, csv=csv, rows=found.rows)


def register(command: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Make these commands, with the decorator that the application gives its own."""
    command(queue)
    command(pack)
