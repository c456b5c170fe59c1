"""The commands about storage: `podsim storage show`, `fio`, `mdtest`, `fail`, `input`, `size` and `validate`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.options import drawable, print_result

On = Annotated[str, typer.Option("--on", help="Storage system and clients: weka-ra:4, local-nvme:2.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override, as servers=4 or client.cores=2. Repeatable.")
]
Client = Annotated[str, typer.Option(help="Another server as client, as dgx-h100; same ports and software.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]


def _overrides(given: list[str] | None) -> dict[str, str]:
    from podsim.cli.options import pairs

    return pairs(given, "--set", "server.read=10GB/s")


def show(
    name: Annotated[str, typer.Argument(help="A storage system; none lists all.")] = "",
    set_: Set = None,
    client: Client = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show what a storage system has and was shown to do."""
    from podsim.report.storage import sheets_report
    from podsim.verbs.storage import storage_show as verb

    found = verb(name, overrides=_overrides(set_), client=client)
    print_result(found, sheets_report, json=json, csv=csv, rows=found if isinstance(found, list) else [found])


def fio(
    on: On,
    rw: Annotated[str, typer.Option("--rw", help="read, write, randread, randwrite, rw, randrw.")] = "",
    bs: Annotated[str, typer.Option("--bs", help="Bytes of an access: 4k, 128k, 1M.")] = "",
    numjobs: Annotated[int | None, typer.Option(help="Jobs of a client; default as wekatester.")] = None,
    iodepth: Annotated[
        int | None, typer.Option(help="Accesses of a job at once; default as wekatester.")
    ] = None,
    rwmixread: Annotated[int, typer.Option(help="Percent of a mixed run that reads.")] = 50,
    runtime: Annotated[float, typer.Option(help="Seconds it would run.")] = 30.0,
    against: Annotated[
        Path | None, typer.Option(help="A JSON file of fio: its job, predicted and measured.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the scaling over clients: FILE.svg or .png.")
    ] = None,
    fio_json: Annotated[
        bool, typer.Option("--fio-json", help="Print the run of all clients in fio's own JSON form.")
    ] = False,
    set_: Set = None,
    client: Client = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict fio for some clients, or check a real run."""
    from podsim.errors import PodsimError
    from podsim.report.storage import fio_report
    from podsim.verbs.storage import storage_fio as verb

    drawable(plot, "--plot")
    if fio_json and (json or csv):
        raise PodsimError("--fio-json, --json and --csv: choose one")
    found = verb(
        on, rw=rw, bs=bs, numjobs=numjobs, iodepth=iodepth, rwmixread=rwmixread, runtime=runtime, against=against,
        overrides=_overrides(set_), client=client,
    )  # fmt: skip
    if plot is not None:
        from podsim.report.plot_storage import fio_image

        plot.write_bytes(fio_image(found, plot.suffix.lower()[1:]))
    if fio_json:
        from podsim.report.fio_json import fio_json as as_fio

        sys.stdout.write(as_fio(found) + "\n")
        return
    print_result(found, fio_report, json=json, csv=csv, rows=found.rows)


def mdtest(
    on: On,
    tasks: Annotated[int | None, typer.Option(help="Tasks of all clients; default 16 a client.")] = None,
    items: Annotated[int, typer.Option(help="Files and directories of each task.")] = 1000,
    write: Annotated[str, typer.Option(help="Bytes of each file, as 4k.")] = "0",
    set_: Set = None,
    client: Client = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict mdtest: operations on names a second."""
    from podsim.report.storage import mdtest_report
    from podsim.verbs.storage import storage_mdtest as verb

    found = verb(on, tasks=tasks, items=items, write=write, overrides=_overrides(set_), client=client)
    print_result(found, mdtest_report, json=json, csv=csv, rows=found.rows)


def fail(
    on: On,
    servers: Annotated[int, typer.Option(help="Servers lost at once, at most.")] = 3,
    fill: Annotated[float, typer.Option(help="Share of the net space in use, for the rebuild.")] = 0.5,
    set_: Set = None,
    client: Client = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Lose servers: reads, writes, rebuild, data loss. Exit status 1: data is lost with the last of them."""
    from podsim.report.storage import fail_report
    from podsim.verbs.storage import storage_fail as verb

    found = verb(on, servers=servers, fill=fill, overrides=_overrides(set_), client=client)
    print_result(found, fail_report, json=json, csv=csv, rows=found.rows)
    if not found.rows[-1].reads:
        raise typer.Exit(1)


def input_(
    workload: Annotated[
        str, typer.Argument(help="resnet50, mlperf-unet3d, mlperf-resnet50, mlperf-cosmoflow, video-1080p.")
    ],
    on: On,
    batch: Annotated[int | None, typer.Option(help="Samples of one accelerator's step.")] = None,
    accelerator: Annotated[str, typer.Option(help="Emulated accelerator: a100 or h100.")] = "",
    accelerators: Annotated[
        int | None, typer.Option(help="Accelerators of a node; default its GPUs.")
    ] = None,
    era: Annotated[str, typer.Option(help="Software that was measured, as mlperf-v1.1.")] = "",
    cache: Annotated[
        str, typer.Option(help="page, nvme or none; default page, none for MLPerf Storage.")
    ] = "",
    cache_size: Annotated[str, typer.Option(help="Of one node, as 500GB.")] = "",
    shuffle: Annotated[str, typer.Option(help="global or shard.")] = "global",
    decode: Annotated[str, typer.Option(help="gpu or cpu.")] = "gpu",
    readers: Annotated[int, typer.Option(help="Reading threads of an accelerator.")] = 4,
    samples: Annotated[int | None, typer.Option(help="Samples of the training data.")] = None,
    cold: Annotated[float, typer.Option(help="Share of the data on the object store only.")] = 0.0,
    lost: Annotated[int, typer.Option(help="Servers of the storage that have failed.")] = 0,
    set_: Set = None,
    client: Client = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict the input pipeline: stages, epochs, what limits."""
    from podsim.report.storage import input_report
    from podsim.verbs.storage_input import storage_input as verb

    found = verb(
        workload, on=on, batch=batch, accelerator=accelerator, accelerators=accelerators, era=era, cache=cache,
        cache_size=cache_size, shuffle=shuffle, decode=decode, readers=readers, samples=samples, cold=cold, lost=lost,
        overrides=_overrides(set_), client=client,
    )  # fmt: skip
    print_result(found, input_report, json=json, csv=csv, rows=found.stages)


def size(
    model: Annotated[str, typer.Argument(help="A workload, or a model as podsim predict takes it.")],
    on: Annotated[str, typer.Option("--on", help="Cluster: dgx-a100:32, superpod-a100:2su, selene.")],
    batch: Annotated[int | None, typer.Option(help="Samples of one accelerator's step.")] = None,
    accelerator: Annotated[str, typer.Option(help="Emulated accelerator: a100 or h100.")] = "",
    era: Annotated[str, typer.Option(help="Software that was measured, as mlperf-v1.1.")] = "",
    tokens: Annotated[str | None, typer.Option(help="Tokens of a language model's data, as 300G.")] = None,
    slower: Annotated[
        float, typer.Option(help="Share by which waiting for storage may make the run longer.")
    ] = 0.05,
    shuffle: Annotated[
        str, typer.Option(help="shard: nodes keep to their part of the samples; or global.")
    ] = "shard",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override of the cluster, as gpus_per_node=4. Repeatable."),
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Say how much storage a cluster needs for a job. Exit status 1: beyond the guidance."""
    from podsim.report.storage import size_report
    from podsim.verbs.storage_size import storage_size as verb

    found = verb(
        model, on=on, batch=batch, accelerator=accelerator, era=era, tokens=tokens, slower=slower, shuffle=shuffle,
        overrides=_overrides(set_),
    )  # fmt: skip
    print_result(found, size_report, json=json, csv=csv, rows=found.needs)
    if found.tier == "beyond":
        raise typer.Exit(1)


def validate(json: Json = False, csv: Csv = False) -> None:
    """Hold predictions of storage against published results. Exit status 1: a bar is not met."""
    from podsim.report.comparisons import summary_report
    from podsim.verbs.storage_validate import storage_validate as verb

    found = verb()
    rows = [row for comparison in found.comparisons for row in comparison.rows]
    print_result(found, summary_report, json=json, csv=csv, rows=rows)
    if not found.met:
        raise typer.Exit(1)


def register(app: typer.Typer, guarded: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Add `podsim storage` with its commands, each wrapped as the application wraps its own."""
    room = typer.Typer(
        help="Predict storage systems and the input pipeline.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    for command in (show, fio, mdtest, fail, input_, size, validate):
        room.command(command.__name__.rstrip("_"))(guarded(command))
    app.add_typer(room, name="storage")
