"""The commands about long runs: `podsim checkpoint` and `podsim goodput`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.options import drawable, print_result

Model = Annotated[
    str, typer.Argument(help="A name that `podsim models` lists, a config.json, or the folder it is in.")
]
On = Annotated[str, typer.Option("--on", help="Cluster: dgx-a100-80gb:64, selene, or a TOML file.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of the job; default the whole cluster.")]
Batch = Annotated[int | None, typer.Option(help="Sequences of a step; default about four million tokens.")]
Sequence = Annotated[int | None, typer.Option(help="Tokens of a sequence; default the model's.")]
Precision = Annotated[str | None, typer.Option(help="fp32, tf32, fp16, bf16, fp8.")]
Moments = Annotated[str, typer.Option("--optimizer-precision", help="Precision of the Adam moments.")]
Software = Annotated[str, typer.Option(help="Framework era; `podsim show software` lists them.")]
Limit = Annotated[
    list[str] | None, typer.Option(help="Restrict the plan, as tp=8 or zero=1. Repeatable; else the fastest.")
]
To = Annotated[str, typer.Option(help="Where checkpoints go: store, neighbour (its memory), local (drives).")]
Store = Annotated[
    str, typer.Option(help="superpod-good, -better, -best, selene, jean-zay, tectonic, or 273GB/s.")
]
Mode = Annotated[str, typer.Option(help="sync, or async: to memory, the rest beside training.")]
Writers = Annotated[
    str, typer.Option(help="Who writes what data-parallel ranks have in common: all, replica.")
]
Interval = Annotated[
    str | None, typer.Option(help="Training between checkpoints, as 30min; default the best.")
]
Failures = Annotated[
    str, typer.Option(help="Failure rate: rsc-1, rsc-jobs, llama-3, bloom, opt-175b, rsc-2, or parts.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override, as network.bandwidth=100Gb/s. Repeatable.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]


def checkpoint(
    model: Model,
    on: On,
    gpus: Gpus = None,
    batch: Batch = None,
    sequence: Sequence = None,
    precision: Precision = None,
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    limit: Limit = None,
    to: To = "store",
    store: Store = "superpod-better",
    mode: Mode = "sync",
    writers: Writers = "all",
    interval: Interval = None,
    failures: Failures = "",
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Size of a checkpoint, its stall, and the time to read it back."""
    from podsim.cli.options import one_format, overrides, pairs
    from podsim.report.runs import checkpoint_report
    from podsim.verbs.checkpoint import checkpoint as verb

    one_format(json, csv)
    found = verb(
        model, on=on, gpus=gpus, batch=batch, sequence=sequence, precision=precision,
        optimizer_precision=optimizer_precision, software=software, limit=pairs(limit, "--limit", "tp=8"), to=to,
        store=store, mode=mode, writers=writers, interval=interval, failures=failures, overrides=overrides(set_),
    )  # fmt: skip
    print_result(found, checkpoint_report, json=json, csv=csv)


def goodput(
    model: Model,
    on: On,
    tokens: Annotated[str, typer.Option(help="Tokens to train, as 300G or 15T.")],
    gpus: Gpus = None,
    batch: Batch = None,
    sequence: Sequence = None,
    precision: Precision = None,
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    limit: Limit = None,
    step: Annotated[str | None, typer.Option(help="A measured step, as 5.2s; default the predicted.")] = None,
    to: To = "store",
    store: Store = "superpod-better",
    mode: Mode = "sync",
    writers: Writers = "all",
    interval: Interval = None,
    failures: Failures = "",
    mtbf: Annotated[
        str | None, typer.Option(help="Mean time between failures of the whole job, as 7.9h.")
    ] = None,
    restart: Annotated[
        str | None, typer.Option(help="A restart, as 10min; default 5 min and reading back.")
    ] = None,
    spares: Annotated[int | None, typer.Option(help="Nodes that stand by; default 5 %.")] = None,
    slow: Annotated[float, typer.Option(help="Share of nodes that are silently slow, as 0.005.")] = 0.0,
    found: Annotated[
        str | None, typer.Option(help="Time until a slow node is found, as 12h; default never.")
    ] = None,
    spread: Annotated[
        float, typer.Option(help="Deviation of the rate's logarithm from run to run, as 0.7.")
    ] = 0.0,
    runs: Annotated[int, typer.Option(help="Runs to simulate.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the random numbers: the same seed, the same result.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw intervals and the days' histogram: FILE.svg or .png.")
    ] = None,
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Days of a run with failures, and where they go."""
    from podsim.cli.options import one_format, overrides, pairs
    from podsim.report.runs import goodput_report
    from podsim.verbs.goodput import goodput as verb

    one_format(json, csv)
    drawable(plot, "--plot")
    result = verb(
        model, on=on, tokens=tokens, gpus=gpus, batch=batch, sequence=sequence, precision=precision,
        optimizer_precision=optimizer_precision, software=software, limit=pairs(limit, "--limit", "tp=8"), step=step,
        to=to, store=store, mode=mode, writers=writers, interval=interval, failures=failures, mtbf=mtbf,
        restart=restart, spares=spares, slow=slow, found=found, spread=spread, runs=runs, seed=seed,
        overrides=overrides(set_),
    )  # fmt: skip
    if plot is not None:
        from podsim.report.plot_runs import goodput_image

        plot.write_bytes(goodput_image(result, plot.suffix.lower()[1:]))
    print_result(result, goodput_report, json=json, csv=csv)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make these commands, with the decorator that the application gives its own."""
    command(checkpoint)
    command(goodput)
