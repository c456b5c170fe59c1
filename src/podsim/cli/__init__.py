"""The command line: the same verbs as the library, for a terminal.

Every command is the Python function of the same name with the same arguments; `--set` is `overrides`, and `--json` and
`--csv` only choose how the result is printed.  Heavy imports stay inside functions, so that `podsim --help` is quick.
Exit status: 0 yes, 1 no (does not fit, falls short), 2 misuse, 70 a bug in podsim, 130 interrupted with nothing to show.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from podsim.cli import (
    fleet,
    goodput,
    graph,
    lab,
    launch,
    mig,
    network,
    power,
    simulate,
    storage,
    training,
    verify,
    workers,
)
from podsim.cli.accuracy import register
from podsim.cli.options import one_format, overrides, pairs, print_result
from podsim.errors import PodsimError

__all__ = ["app", "main"]

Verb = TypeVar("Verb", bound=Callable[..., None])

app = typer.Typer(
    help="A working model of an AI supercomputer, and of the training that runs on it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[
    str, typer.Argument(help="A name of any catalog, `software`, a config.json, or a cluster's TOML file.")
]
Model = Annotated[
    str, typer.Argument(help="A name that `podsim models` lists, a config.json, or the folder it is in.")
]
On = Annotated[
    str, typer.Option("--on", help="Cluster: dgx-a100-80gb:64, selene, superpod-a100:2su, or a TOML file.")
]
Gpus = Annotated[int | None, typer.Option(help="GPUs of the job; default the whole cluster.")]
Batch = Annotated[int | None, typer.Option(help="Sequences of a step; default about four million tokens.")]
Sequence = Annotated[int | None, typer.Option(help="Tokens of a sequence; default the model's.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override, as gpu.memory=64GB, network.bandwidth=100Gb/s, model.layers=12. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]
Software = Annotated[str, typer.Option(help="Framework era; `podsim show software` lists them.")]
Precision = Annotated[
    str | None, typer.Option(help="fp32, tf32, fp16, bf16, fp8; default bf16, or fp16 on GPUs without it.")
]
Moments = Annotated[
    str, typer.Option("--optimizer-precision", help="Precision of the Adam moments: fp32, bf16, fp8.")
]
Detail = Annotated[
    str, typer.Option(help="`ops` lists each op, its share of the speed of light, and its source.")
]
Tokens = Annotated[str | None, typer.Option(help="Tokens to train, as 300G: days with and without failures.")]
Price = Annotated[
    str, typer.Option(help="What a GPU hour costs: a name that `podsim cost` lists, or USD, as 2.10.")
]
Save = Annotated[
    Path | None, typer.Option(help="Directory for the plans, the Pareto front and a replay file.")
]


def _guarded(verb: Verb) -> Verb:
    """A command whose mistakes and interruptions end on one screen, without a traceback."""

    @wraps(verb)
    def run(*arguments: Any, **named: Any) -> None:
        try:
            verb(*arguments, **named)
            sys.stdout.flush()
        except PodsimError as error:
            raise typer.Exit(_fail(error)) from None
        except KeyboardInterrupt:
            sys.stderr.write("\npodsim: interrupted\n")
            raise typer.Exit(130) from None
        except BrokenPipeError:  # the reader has seen enough; nothing more may be written, not even at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            what = error.filename or "the result"
            sys.stderr.write(f"podsim: cannot write {what}: {error.strerror or error}\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(2) from None

    return cast("Verb", run)


def _command(verb: Verb, group: typer.Typer = app) -> Verb:
    """A guarded command of the application, or of a group of its commands."""
    group.command()(_guarded(verb))
    return verb


def _fail(error: PodsimError) -> int:
    """Write every problem to standard error; the exit status."""
    from podsim.errors import NoFitError, PlanError, ScheduleError

    lines = error.problems if isinstance(error, (PlanError, ScheduleError)) else (str(error),)
    for line in lines:
        sys.stderr.write(f"podsim: {line}\n")
    return 1 if isinstance(error, NoFitError) else 2


@_command
def show(
    name: Name,
    fabric: Annotated[
        bool,
        typer.Option("--fabric", help="Draw servers and switches instead; NAME may be a topology XML, too."),
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="With --fabric: write the drawing to this file, too.")
    ] = None,
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show the sheet of anything in the catalogs."""
    from podsim.report.sheets import sheet_report
    from podsim.verbs.show import show as verb

    one_format(json, csv)
    if svg is not None and not fabric:
        raise PodsimError("--svg draws a fabric; give --fabric, too")
    if fabric and csv:
        raise PodsimError("--fabric --csv: a drawing is no table; --json gives its parts")
    if fabric:
        network.print_fabric(name, overrides(set_), svg, json=json)
        return
    print_result(verb(name, overrides=overrides(set_)), sheet_report, json=json, csv=csv)


@_command
def models(json: Json = False, csv: Csv = False) -> None:
    """List the models of the catalog."""
    from podsim.report.sheets import models_report
    from podsim.verbs.show import models as verb

    one_format(json, csv)
    print_result(verb(), models_report, json=json, csv=csv)


@_command
def clusters(json: Json = False, csv: Csv = False) -> None:
    """List the systems and clusters of the catalog."""
    from podsim.report.sheets import clusters_report
    from podsim.verbs.show import clusters as verb

    one_format(json, csv)
    print_result(verb(), clusters_report, json=json, csv=csv)


@_command
def predict(
    model: Model,
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
    schedule: Annotated[
        str | None, typer.Option(help="gpipe, 1f1b, interleaved, …: `podsim schedule`.")
    ] = None,
    sequence_parallel: Annotated[
        bool, typer.Option(help="Divide norms and residuals over the TP group.")
    ] = False,
    zero: Annotated[int, typer.Option(help="ZeRO stage: 1 optimizer, 2 gradients, 3 weights (FSDP).")] = 0,
    shard: Annotated[int, typer.Option(help="Ranks ZeRO divides over; 0 all (fewer: HSDP).")] = 0,
    recompute: Annotated[str, typer.Option(help="none, selective or full.")] = "none",
    recompute_layers: Annotated[int, typer.Option(help="Layers of a stage under full; 0 all.")] = 0,
    flash: Annotated[bool | None, typer.Option(help="Fused attention.")] = None,
    overlap_grad: Annotated[
        bool | None, typer.Option(help="Reduce gradients beside the backward pass.")
    ] = None,
    overlap_param: Annotated[
        bool | None, typer.Option(help="Gather weights beside the forward pass.")
    ] = None,
    overlap_tp: Annotated[bool, typer.Option(help="Run tensor-parallel collectives beside GEMMs.")] = False,
    precision: Precision = None,
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    sequence: Sequence = None,
    tokens: Tokens = None,
    set_: Set = None,
    detail: Detail = "",
    price: Price = "",
    pue: Annotated[float | None, typer.Option(help="Power of the site over that of the machine.")] = None,
    carbon: Annotated[float | None, typer.Option(help="Carbon dioxide of electricity, kg for a kWh.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict step time and memory of one plan. Exit status 1: it does not fit."""
    from podsim.report.predictions import prediction_report
    from podsim.verbs.predict import predict as verb

    one_format(json, csv)
    result = verb(
        model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software, sequence=sequence,
        tokens=tokens, overrides=overrides(set_), detail=detail, price=price, pue=pue, carbon=carbon,
    )  # fmt: skip
    print_result(result, prediction_report, json=json, csv=csv)
    if not result.fits:
        raise typer.Exit(1)


@_command
def plan(
    model: Model,
    on: On,
    gpus: Gpus = None,
    batch: Batch = None,
    sequence: Sequence = None,
    precision: Precision = None,
    optimizer_precision: Moments = "fp32",
    software: Software = "megatron-core",
    objective: Annotated[str, typer.Option(help="time, memory, cost or energy.")] = "time",
    top: Annotated[int, typer.Option(help="Layouts to show.")] = 5,
    limit: Annotated[
        list[str] | None, typer.Option(help="Restrict a field, as tp=4,8 or zero=1. Repeatable.")
    ] = None,
    save: Save = None,
    tokens: Tokens = None,
    simulate: Annotated[
        bool, typer.Option(help="Play the plans that are shown, and rank them by that.")
    ] = False,
    set_: Set = None,
    detail: Detail = "",
    price: Price = "",
    pue: Annotated[float | None, typer.Option(help="Power of the site over that of the machine.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Find the best plans among every legal one. Exit status 1: none fits."""
    from podsim.report.predictions import plans_report
    from podsim.report.progress import bar
    from podsim.verbs.plan import plan as verb

    one_format(json, csv)
    with bar("searching plans") as progress:
        result = verb(
            model, on=on, gpus=gpus, batch=batch, sequence=sequence, precision=precision,
            optimizer_precision=optimizer_precision, software=software, objective=objective, top=top,
            limit=pairs(limit, "--limit", "tp=4,8"), save=save, tokens=tokens, simulate=simulate,
            overrides=overrides(set_), detail=detail, price=price, pue=pue, progress=progress,
        )  # fmt: skip
    print_result(result, plans_report, json=json, csv=csv)


@_command
def replay(
    experiment: Annotated[Path, typer.Argument(help="An experiment.toml that `podsim plan --save` wrote.")],
    save: Save = None,
    detail: Detail = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Run a saved search again. Exit status 1: no plan fits."""
    from podsim.report.predictions import plans_report
    from podsim.report.progress import bar
    from podsim.verbs.plan import replay as verb

    one_format(json, csv)
    with bar("searching plans") as progress:
        result = verb(experiment, save=save, detail=detail, progress=progress)
    print_result(result, plans_report, json=json, csv=csv)


register(_command)
network.register(_command)
simulate.register(_command, predict)
workers.register(_command)
graph.register(_command)
storage.register(app, _guarded)
goodput.register(_command)
mig.register(_command, app)
launch.register(_command, predict)
power.register(_command)
fleet.register(_command)
lab.register(app, _guarded, _command)
training.register(_command, predict)
verify.register(app, _guarded)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal without these characters shows "?", not a traceback
            stream.reconfigure(errors="replace" if stream is sys.stdout else "backslashreplace")
    try:
        app()
    except SystemExit as end:
        if (
            end.code == 130
        ):  # Python would still end by the signal if that came while a dataclass was being made
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        raise
    except Exception as error:
        if os.environ.get("PODSIM_TRACEBACK"):
            raise
        sys.stderr.write(_bug_report(error))
        raise SystemExit(70) from None


def _bug_report(error: Exception) -> str:
    """What is said of an error that no user can have made."""
    from traceback import extract_tb

    from podsim import __version__

    if isinstance(error, MemoryError):
        return "podsim: this takes more memory than there is; ask for less at once\n"
    frames = [frame for frame in extract_tb(error.__traceback__) if "podsim" in Path(frame.filename).parts]
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = " ".join(str(error).split())[:200]
    return (
        f"podsim: a bug in podsim {__version__}: {type(error).__name__}: {what}{where}\n"
        "podsim: please report it with the command and what it prints under PODSIM_TRACEBACK=1\n"
    )
