"""`podsim measure checkpoint` and `podsim measure loader`: storage, read and written for real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.options import one_format, print_result

Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]
Save = Annotated[Path | None, typer.Option(help="File that keeps the run, for podsim compare.")]


def checkpoint(
    to: Annotated[str, typer.Option("--to", help="Folder, or URL: s3://bucket/folder. Nothing stays in it.")],
    size: Annotated[str, typer.Option(help="Bytes of the whole checkpoint: 2GB.")] = "256MB",
    ranks: Annotated[int | None, typer.Option(help="Processes; default 4, under torchrun its own.")] = None,
    read: Annotated[bool, typer.Option("--read/--no-read", help="Read it back, too.")] = True,
    repeats: Annotated[int, typer.Option(help="How often; the median counts.")] = 3,
    block: Annotated[str, typer.Option(help="Bytes that a rank writes or reads at once.")] = "1MiB",
    writer: Annotated[
        str, typer.Option(help="files (one a rank) or dcp (torch.distributed.checkpoint).")
    ] = "files",
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank is given up.")] = 600.0,
    save: Save = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Write and read a checkpoint for real. Exit status 1: other bytes came back than were written."""
    from podsim.report.lab import checkpoints_report
    from podsim.report.progress import bar
    from podsim.verbs.measure_checkpoint import measure_checkpoint as verb

    one_format(json, csv)
    with bar("checkpoints") as progress:
        found = verb(
            to, size=size, ranks=ranks, read=read, repeats=repeats, block=block, writer=writer, timeout=timeout,
            save=save, progress=progress,
        )  # fmt: skip
    if found is None:  # another rank has the result
        return
    print_result(found, checkpoints_report, json=json, csv=csv, rows=found.rows)
    if any(row.wrong for row in found.rows):
        raise typer.Exit(1)


def loader(
    source: Annotated[str, typer.Argument(help="Folder, or URL: s3://bucket/folder. Each file is a sample.")],
    epochs: Annotated[int, typer.Option(help="Passes over the samples.")] = 3,
    workers: Annotated[int, typer.Option(help="Processes that read.")] = 2,
    cache: Annotated[Path | None, typer.Option(help="Folder that fsspec keeps samples in.")] = None,
    cache_kind: Annotated[str, typer.Option(help="file (whole samples) or block.")] = "file",
    batch: Annotated[int, typer.Option(help="Samples of a step.")] = 32,
    step_time: Annotated[
        str, typer.Option(help="Time of an emulated accelerator's step: 50ms. 0: read only.")
    ] = "0",
    model: Annotated[str, typer.Option(help="resnet: train a small network on the samples.")] = "",
    make: Annotated[str, typer.Option(help="First make samples: 1000x150KB.")] = "",
    keep_page_cache: Annotated[
        bool, typer.Option("--keep-page-cache", help="Else dropped before each epoch.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the order of the samples.")] = 0,
    save: Save = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Read samples for real, epoch after epoch. Ctrl-C keeps what was measured; exit status 130."""
    from podsim.report.lab import loader_report
    from podsim.report.progress import bar
    from podsim.verbs.measure_loader import measure_loader as verb

    one_format(json, csv)
    with bar("reading samples") as progress:
        found = verb(
            source, epochs=epochs, workers=workers, cache=cache, cache_kind=cache_kind, batch=batch,
            step_time=step_time, model=model, make=make, keep_page_cache=keep_page_cache, seed=seed, save=save,
            progress=progress,
        )  # fmt: skip
    print_result(found, loader_report, json=json, csv=csv, rows=found.rows)
    if found.stopped:
        raise typer.Exit(130)
