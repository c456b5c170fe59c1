"""The command line: the same verbs as the library, for a terminal.

Heavy imports stay inside functions, so that `podsim --help` is quick.  Exit status: 0 yes, 1 no (does not fit, falls
short), 2 misuse.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from podsim.errors import PodsimError

__all__ = ["app", "main"]

app = typer.Typer(
    help="A working model of an AI supercomputer, and of the training that runs on it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

On = Annotated[str, typer.Option("--on", help="Cluster: dgx-a100-80gb:64, selene, superpod-a100:2su, or a TOML file.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of the job; default the whole cluster.")]
Batch = Annotated[int | None, typer.Option(help="Sequences of a step; default about four million tokens.")]
Sequence = Annotated[int | None, typer.Option(help="Tokens of a sequence; default the model's.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override, as gpu.memory=64GB, network.bandwidth=100Gb/s, model.layers=12. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]
Software = Annotated[str, typer.Option(help="Framework era; `podsim show software` lists them.")]
Precision = Annotated[str, typer.Option(help="fp32, tf32, fp16, bf16, fp8.")]
Moments = Annotated[str, typer.Option("--optimizer-precision", help="Precision of the Adam moments: fp32, bf16, fp8.")]
Detail = Annotated[str, typer.Option(help="`ops` lists each op, its share of the speed of light, and its source.")]


def _overrides(pairs: list[str] | None) -> dict[str, str]:
    found = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise PodsimError(f"--set {pair!r}: expected key=value, such as gpu.memory=64GB")
        found[key.strip()] = value.strip()
    return found


def _print(value: Any, *, json: bool, csv: bool, text: Callable[[Any], None]) -> None:
    """Print a result as JSON, CSV or text."""
    from podsim.report import data

    if json and csv:
        raise PodsimError("--json and --csv: choose one")
    if json:
        sys.stdout.write(data.to_json(value) + "\n")
    elif csv:
        sys.stdout.write(data.to_csv(value))
    else:
        text(value)


@app.command()
def show(name: str, set_: Set = None, json: Json = False, csv: Csv = False) -> None:
    """Show the sheet of a GPU, part, system, cluster, model or framework era."""
    from podsim.report.sheets import print_sheet
    from podsim.verbs.show import show as verb

    _print(verb(name, overrides=_overrides(set_)), json=json, csv=csv, text=print_sheet)


@app.command()
def models(json: Json = False, csv: Csv = False) -> None:
    """List the models of the catalog."""
    from podsim.report.sheets import print_models
    from podsim.verbs.show import models as verb

    _print(verb(), json=json, csv=csv, text=print_models)


@app.command()
def clusters(json: Json = False, csv: Csv = False) -> None:
    """List the systems and clusters of the catalog."""
    from podsim.report.sheets import print_clusters
    from podsim.verbs.show import clusters as verb

    _print(verb(), json=json, csv=csv, text=print_clusters)


@app.command()
def predict(
    model: str,
    on: On,
    gpus: Gpus = None,
    batch: Batch = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel degree.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    dp: Annotated[int | None, typer.Option(help="Data-parallel replicas; default what is left.")] = None,
    cp: Annotated[int, typer.Option(help="Context-parallel degree.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel degree.")] = 1,
    virtual_stages: Annotated[int, typer.Option(help="Model chunks per pipeline stage.")] = 1,
    micro_batch: Annotated[int, typer.Option(help="Sequences of a micro-batch.")] = 1,
    schedule: Annotated[str | None, typer.Option(help="gpipe, 1f1b or interleaved.")] = None,
    sequence_parallel: Annotated[bool, typer.Option(help="Divide norms and residuals over the TP group.")] = False,
    zero: Annotated[int, typer.Option(help="ZeRO stage: 1 optimizer, 2 gradients, 3 weights (FSDP).")] = 0,
    shard: Annotated[int, typer.Option(help="Ranks ZeRO divides over; 0 all (fewer: HSDP).")] = 0,
    recompute: Annotated[str, typer.Option(help="none, selective or full.")] = "none",
    recompute_layers: Annotated[int, typer.Option(help="Layers of a stage under full; 0 all.")] = 0,
    flash: Annotated[bool | None, typer.Option(help="Fused attention.")] = None,
    overlap_grad: Annotated[bool | None, typer.Option(help="Reduce gradients beside the backward pass.")] = None,
    overlap_param: Annotated[bool | None, typer.Option(help="Gather weights beside the forward pass.")] = None,
    overlap_tp: Annotated[bool, typer.Option(help="Run tensor-parallel collectives beside GEMMs.")] = False,
    precision: Precision = "bf16",
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    sequence: Sequence = None,
    set_: Set = None,
    detail: Detail = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict step time and memory of one plan. Exit status 1: it does not fit."""
    from podsim.report.predictions import print_prediction
    from podsim.verbs.predict import predict as verb

    result = verb(
        model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software, sequence=sequence,
        overrides=_overrides(set_), detail=detail,
    )  # fmt: skip
    _print(result, json=json, csv=csv, text=print_prediction)
    if not result.fits:
        raise typer.Exit(1)


@app.command()
def plan(
    model: str,
    on: On,
    gpus: Gpus = None,
    batch: Batch = None,
    sequence: Sequence = None,
    precision: Precision = "bf16",
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    objective: Annotated[str, typer.Option(help="time or memory.")] = "time",
    top: Annotated[int, typer.Option(help="Layouts to show.")] = 5,
    limit: Annotated[
        list[str] | None, typer.Option(help="Restrict a field, as tp=4,8 or zero=1. Repeatable.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Directory for the plans, the Pareto front and a replay file.")] = None,
    set_: Set = None,
    detail: Detail = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Find the best plans among every legal one. Exit status 1: none fits."""
    arguments: dict[str, Any] = {
        "model": model, "on": on, "gpus": gpus, "batch": batch, "sequence": sequence, "precision": precision,
        "optimizer_precision": optimizer_precision, "software": software, "objective": objective, "top": top,
        "limit": _limits(limit), "overrides": _overrides(set_),
    }  # fmt: skip
    _plan(arguments, save, detail, json=json, csv=csv)


@app.command()
def replay(
    experiment: Path,
    save: Annotated[Path | None, typer.Option(help="Directory for the results.")] = None,
    detail: Detail = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Run the search of an experiment file that `podsim plan --save` wrote."""
    from podsim.verbs.save import read_experiment

    _plan(read_experiment(experiment), save, detail, json=json, csv=csv)


def _plan(arguments: dict[str, Any], save: Path | None, detail: str, *, json: bool, csv: bool) -> None:
    from podsim.report.predictions import print_plans
    from podsim.report.progress import bar
    from podsim.verbs.plan import plan as verb
    from podsim.verbs.save import save_plans

    with bar("searching plans") as progress:
        result = verb(**arguments, detail=detail, progress=progress)
    if save is not None:
        save_plans(result, save)
    _print(result, json=json, csv=csv, text=print_plans)


def _limits(pairs: list[str] | None) -> dict[str, tuple[int, ...]]:
    from podsim.verbs.save import limit_values

    return {key: limit_values(key, value) for key, value in _overrides(pairs).items()}


def _fail(error: Exception) -> NoReturn:
    from podsim.errors import PlanError

    lines = error.problems if isinstance(error, PlanError) else (str(error),)
    for line in lines:
        sys.stderr.write(f"podsim: {line}\n")
    sys.exit(2)


def main() -> None:
    """Run the command line."""
    try:
        app(standalone_mode=True)
    except PodsimError as error:
        _fail(error)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
