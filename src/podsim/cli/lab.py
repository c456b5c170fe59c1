"""The commands about the real thing: `podsim measure`, `podsim emulate` and `podsim compare`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import lab_storage
from podsim.cli.options import print_result

Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override, as network.bandwidth=100Gb/s. Repeatable.")
]


@contextmanager
def first_rank_speaks() -> Iterator[None]:
    """Every rank of a job was given the same; what is wrong with it, the first alone says. Runs that broke off, all."""
    from podsim.errors import LabError, PodsimError

    try:
        yield
    except LabError:
        raise
    except PodsimError:
        if os.environ.get("RANK", "0") == "0":
            raise
        raise typer.Exit(2) from None


def collective(
    collective: Annotated[
        str,
        typer.Argument(
            help="all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter."
        ),
    ] = "all-reduce",
    ranks: Annotated[int | None, typer.Option(help="Processes; default 4, under torchrun its own.")] = None,
    local: Annotated[int | None, typer.Option(help="Ranks of a server; default up to 8.")] = None,
    algo: Annotated[
        str, typer.Option(help="all, library, or names with commas: ring,tree,FILE.xml,FILE.py:FUNCTION.")
    ] = "all",
    sizes: Annotated[str, typer.Option(help="FIRST:LAST:FACTOR (or +STEP), as nccl-tests.")] = "64K:1M:4",
    iters: Annotated[int, typer.Option(help="Calls that are timed, one after the other.")] = 20,
    warmup: Annotated[int, typer.Option(help="Calls before; the first is checked.")] = 1,
    limit: Annotated[
        float, typer.Option(help="Seconds that timed calls may take; fewer are made then.")
    ] = 10.0,
    in_place: Annotated[bool, typer.Option(help="Within one buffer, too.")] = True,
    apart: Annotated[
        bool, typer.Option("--apart", help="One call at a time, ranks starting together; for podsim compare.")
    ] = False,
    backend: Annotated[str, typer.Option(help="auto, gloo or nccl.")] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank is given up.")] = 60.0,
    save: Annotated[Path | None, typer.Option(help="File that keeps the run, for podsim compare.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Run a collective for real, checked and timed. Exit status 1: wrong results."""
    from podsim.cli.options import one_format
    from podsim.report.collectives import measured_report
    from podsim.verbs.measure import measure_collective as verb

    one_format(json, csv)
    with first_rank_speaks():
        found = verb(
            collective, ranks=ranks, local=local, algo=algo, sizes=sizes, iters=iters, warmup=warmup, limit=limit,
            in_place=in_place, apart=apart, backend=backend, timeout=timeout, save=save,
        )  # fmt: skip
    if found is None:  # another rank has the result
        return
    print_result(found, measured_report, json=json, csv=csv, rows=found.rows)
    if any(row.wrong or row.in_place_wrong for row in found.rows):
        raise typer.Exit(1)


def ddp(
    ranks: Annotated[int | None, typer.Option(help="Processes; default 4, under torchrun its own.")] = None,
    layers: Annotated[int, typer.Option(help="Layers of the network.")] = 8,
    size: Annotated[str, typer.Option(help="Gradients of a layer, a bucket of its own.")] = "2.1MB",
    forward: Annotated[str, typer.Option(help="Pause that stands for a layer's forward pass.")] = "10ms",
    backward: Annotated[str, typer.Option(help="Pause that stands for its backward pass.")] = "20ms",
    overlap: Annotated[bool, typer.Option(help="Add gradients up beside the backward pass.")] = True,
    all_reduce: Annotated[
        str, typer.Option(help="What adds them up: library, ring, FILE.xml, FILE.py:FUNCTION.")
    ] = "library",
    steps: Annotated[int, typer.Option(help="Steps that are timed.")] = 5,
    backend: Annotated[str, typer.Option(help="auto, gloo or nccl.")] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank is given up.")] = 60.0,
    save: Annotated[Path | None, typer.Option(help="File that keeps the run, for podsim compare.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Time torch's DistributedDataParallel with real communication and compute as pauses."""
    from podsim.cli.options import one_format
    from podsim.report.lab import ddp_report
    from podsim.verbs.measure_ddp import measure_ddp as verb

    one_format(json, csv)
    with first_rank_speaks():
        found = verb(
            ranks=ranks, layers=layers, size=size, forward=forward, backward=backward, overlap=overlap,
            all_reduce=all_reduce, steps=steps, backend=backend, timeout=timeout, save=save,
        )  # fmt: skip
    if found is not None:
        print_result(found, ddp_report, json=json, csv=csv, rows=found.rows)


def host(
    ranks: Annotated[
        int | None, typer.Option(help="Processes busy at once; default one a GPU, else 8.")
    ] = None,
    name: Annotated[str, typer.Option(help="Of the entry; default the machine's own.")] = "",
    folder: Annotated[Path, typer.Option(help="Folder on the disk that is measured.")] = Path(),
    size: Annotated[str, typer.Option(help="Of fio's file, as fio writes it.")] = "1G",
    seconds: Annotated[float, typer.Option(help="Of each kernel.")] = 0.3,
    disk: Annotated[bool, typer.Option(help="Measure the disk with fio.")] = True,
    images: Annotated[bool, typer.Option(help="Train ResNet-50, too, for podsim verify.")] = True,
    backend: Annotated[str, typer.Option(help="auto, gloo or nccl.")] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank is given up.")] = 300.0,
    save: Annotated[Path | None, typer.Option(help="Write the catalog entry to this .toml file.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Measure this machine, and make a catalog entry of it."""
    from podsim.cli.options import one_format
    from podsim.report.lab import host_report
    from podsim.report.progress import doing
    from podsim.verbs.measure_host import measure_host as verb

    one_format(json, csv)
    with doing() as progress:
        found = verb(
            ranks=ranks, name=name, folder=folder, size=size, seconds=seconds, disk=disk, images=images, backend=backend,
            timeout=timeout, save=save, progress=progress,
        )  # fmt: skip
    print_result(found, host_report, json=json, csv=csv, rows=found.kernels)


def _emulate_of(app: typer.Typer) -> Callable[..., None]:
    """The command `podsim emulate`; a command of podsim that it is given runs in the ranks' processes as they are."""

    def own(words: Sequence[str]) -> int:
        try:
            app(args=list(words[1:]), prog_name="podsim")
        except SystemExit as ending:
            return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        return 0

    def emulate(
        cluster: Annotated[str, typer.Argument(help="Cluster: dgx-a100:2, or a TOML file.")],
        command: Annotated[
            list[str],
            typer.Argument(
                help="After --: what every rank runs, as under torchrun.", metavar="-- COMMAND..."
            ),
        ],
        scale: Annotated[str, typer.Option(help="Share of the cluster's bandwidths: 1/500.")] = "1/1000",
        per: Annotated[str, typer.Option(help="gpu or server: what is one process.")] = "gpu",
        set_: Set = None,
    ) -> None:
        """Run a command on a cluster of network namespaces. Exit status: the command's."""
        from podsim.cli.options import overrides
        from podsim.verbs.emulate import emulate as verb
        from podsim.verbs.emulate import emulated_cluster, warnings_of

        given = overrides(set_)
        for warning in warnings_of(emulated_cluster(cluster, scale=scale, per=per, overrides=given)):
            sys.stderr.write(f"podsim: {warning}\n")
        status = verb(cluster, command, scale=scale, per=per, overrides=given, own=own)
        if status:
            raise typer.Exit(status)

    return emulate


def compare(
    run: Annotated[Path, typer.Argument(help="A file that --save of podsim measure or train wrote.")],
    on: Annotated[
        str,
        typer.Option(
            "--on", help="Cluster it ran on (an emulated run knows its own), or storage; a TOML file, too."
        ),
    ] = "",
    cache_on: Annotated[
        str, typer.Option("--cache-on", help="Storage that a loader's cache is on; default local-nvme.")
    ] = "",
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Lay a measured run beside its prediction. Exit status 1: no row can be compared."""
    from podsim.cli.options import one_format, overrides
    from podsim.report.lab import (
        collectives_report,
        compared_ddp_report,
        compared_training_report,
        storage_report,
    )
    from podsim.results.lab import ComparedCollectives
    from podsim.results.trained import ComparedDdp, ComparedTraining
    from podsim.verbs.compare import compare as verb

    one_format(json, csv)
    found = verb(run, on=on, cache_on=cache_on, overrides=overrides(set_))
    if isinstance(found, (ComparedTraining, ComparedDdp)):
        text = compared_training_report if isinstance(found, ComparedTraining) else compared_ddp_report
        print_result(found, text, json=json, csv=csv, rows=[found])
        if found.verdict != "comparable":
            raise typer.Exit(1)
        return
    if isinstance(found, ComparedCollectives):
        print_result(found, collectives_report, json=json, csv=csv, rows=found.rows)
    else:
        print_result(found, storage_report, json=json, csv=csv, rows=found.rows)
    if found.mean is None:
        raise typer.Exit(1)


def register(
    app: typer.Typer,
    guarded: Callable[[Callable[..., None]], Callable[..., None]],
    command: Callable[[Callable[..., None]], Callable[..., None]],
) -> None:
    """Add these commands, each wrapped as the application wraps its own."""
    room = typer.Typer(
        help="Run things for real and time them.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    for one in (collective, ddp, host, lab_storage.checkpoint, lab_storage.loader):
        room.command()(guarded(one))
    app.add_typer(room, name="measure")
    command(_emulate_of(app))
    command(compare)
