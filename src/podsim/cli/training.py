"""The command that trains for real: `podsim train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from podsim.cli.lab import first_rank_speaks
from podsim.cli.options import also_taking, one_format, overrides, print_result
from podsim.cli.workers import numbers

_TAKEN = (
    "tp", "pp", "dp", "virtual_stages", "schedule", "sequence_parallel", "zero", "shard", "recompute", "overlap_grad",
    "sequence",
)  # fmt: skip
"""options of `predict` that training for real takes, too"""


def _train(
    model: Annotated[
        str,
        typer.Argument(help="gpt-tiny, another GPT of `podsim models` or a config.json; resnet-8, -18, -20."),
    ] = "gpt-tiny",
    ranks: Annotated[
        int | None, typer.Option(help="Processes; default what the plan needs, under torchrun its own.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Samples of a step of all replicas.")] = 16,
    micro_batch: Annotated[
        int | None, typer.Option(help="Samples of a micro-batch; default a replica's, or 2 x pp of them.")
    ] = None,
    all_reduce: Annotated[
        str, typer.Option(help="What adds gradients up: library, ring, tree, FILE.xml, FILE.py:FUNCTION.")
    ] = "library",
    exchange: Annotated[
        str, typer.Option(help="bsp (all-reduce), ps (server, in step), ssp (bounded), async.")
    ] = "bsp",
    staleness: Annotated[
        int | None, typer.Option(help="Of ssp: steps that the fastest may be ahead of the slowest.")
    ] = None,
    slow: Annotated[
        list[str] | None,
        typer.Option(help="A slow replica, as 3=1.5: it takes 1.5 times as long. Repeatable."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps in all, with those before a resumption.")] = 20,
    rate: Annotated[float, typer.Option(help="Learning rate of AdamW.")] = 3e-3,
    seed: Annotated[int, typer.Option(help="Of the first weights and of the data.")] = 0,
    data: Annotated[
        str, typer.Option(help="synthetic; a text file; a folder of images with a folder for each class.")
    ] = "synthetic",
    image: Annotated[int, typer.Option(help="Pixels of a side of an image.")] = 32,
    classes: Annotated[int, typer.Option(help="Classes of synthetic images.")] = 10,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder of checkpoints.")] = None,
    every: Annotated[int, typer.Option(help="Steps between checkpoints; 0: one at the end.")] = 0,
    keep: Annotated[int, typer.Option(help="Checkpoints that are kept; 0: all.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")
    ] = False,
    backend: Annotated[str, typer.Option(help="auto, gloo or nccl.")] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank is given up.")] = 60.0,
    save: Annotated[Path | None, typer.Option(help="File that keeps the run, for podsim compare.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the losses, FILE.png or .svg.")] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="A saved run to lay the losses beside, and to draw. Repeatable.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a line for each step.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as model.layers=4. Repeatable.")
    ] = None,
    **layout: Any,
) -> None:
    """Train a small network for real under a plan."""
    from podsim.errors import PodsimError
    from podsim.lab.options import no_folder
    from podsim.report.lab import training_report
    from podsim.report.plot_losses import loss_image
    from podsim.report.progress import bar
    from podsim.timeline.timelines import suffix_of
    from podsim.verbs.train import read_trained
    from podsim.verbs.train import train as verb

    one_format(json, csv)
    with first_rank_speaks():
        others = {path.name: read_trained(path) for path in against or []}
        kind = suffix_of(plot, (".png", ".svg"), "plot")[1:] if plot is not None else ""
        if lost := no_folder(plot, "--plot"):
            raise PodsimError(*lost)
        with bar("training") as progress:
            found = verb(
                model, ranks=ranks, batch=batch, all_reduce=all_reduce, exchange=exchange,
                staleness=staleness, slow=numbers(slow, "--slow", "3=1.5"), steps=steps, rate=rate, seed=seed, data=data,
                image=image, classes=classes, checkpoint=checkpoint, every=every, keep=keep, resume=resume,
                backend=backend, timeout=timeout, save=save, overrides=overrides(set_),
                progress=progress, micro_batch=micro_batch, **layout,
            )  # fmt: skip
    if found is None:  # another rank has the result
        return
    if plot is not None:
        plot.write_bytes(loss_image([found, *others.values()], kind))
    print_result(found, lambda run: training_report(run, others), json=json, csv=csv, rows=found.rows)


def register(
    command: Callable[[Callable[..., None]], Callable[..., None]], predict: Callable[..., None]
) -> None:
    """Make the command, with the decorator of the application; a plan's options are those of `predict`."""
    from inspect import signature

    made = also_taking(
        _train, predict, [name for name in signature(predict).parameters if name not in _TAKEN]
    )
    made.__name__ = "train"
    command(made)
