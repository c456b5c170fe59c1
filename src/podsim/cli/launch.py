"""The command that writes and reads what one runs: `podsim launch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

__all__ = ["register"]


def launch(
    model: Annotated[
        str, typer.Argument(help="A model, as for predict; with --read only if the file names none.")
    ] = "",
    on: Annotated[str, typer.Option("--on", help="Cluster, as for predict.")] = "",
    tool: Annotated[
        str,
        typer.Option(
            "--for", help="megatron (default), torchtitan, deepspeed, torchrun, slurm or kubernetes."
        ),
    ] = "",
    read: Annotated[
        str, typer.Option(help="Instead: read the plan of this file, or of standard input (-).")
    ] = "",
    gpus: Annotated[int | None, typer.Option(help="GPUs of the job; default the whole cluster.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Sequences of a step; default about four million tokens.")
    ] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel degree.")] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 1,
    dp: Annotated[int | None, typer.Option(help="Data-parallel replicas; default what is left.")] = None,
    cp: Annotated[int, typer.Option(help="Context-parallel degree.")] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel degree.")] = 1,
    virtual_stages: Annotated[int, typer.Option(help="Model chunks per pipeline stage.")] = 1,
    micro_batch: Annotated[int, typer.Option(help="Sequences of a micro-batch.")] = 1,
    schedule: Annotated[str | None, typer.Option(help="gpipe, 1f1b or interleaved.")] = None,
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
    precision: Annotated[str | None, typer.Option(help="fp32, fp16, bf16, fp8; default bf16.")] = None,
    optimizer_precision: Annotated[str, typer.Option(help="Precision of the Adam moments.")] = "fp32",
    software: Annotated[str | None, typer.Option(help="Framework era; default the tool's own.")] = None,
    sequence: Annotated[int | None, typer.Option(help="Tokens of a sequence; default the model's.")] = None,
    image: Annotated[
        str | None, typer.Option(help="Container image, REGISTRY#IMAGE:TAG; empty for none.")
    ] = None,
    mount: Annotated[
        list[str] | None, typer.Option(help="Container mount, /SOURCE:/TARGET. Repeatable.")
    ] = None,
    partition: Annotated[str, typer.Option(help="Partition of the scheduler.")] = "",
    time_limit: Annotated[str, typer.Option(help="Time limit of the scheduler, as 4h.")] = "1 d",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as gpu.memory=64GB. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")] = False,
) -> None:
    """Write what starts a plan, or read what others start. Exit status 1: the plan that was read does not fit."""
    from podsim.cli.options import one_format, overrides
    from podsim.report.data import to_csv, to_json
    from podsim.report.launches import print_read, print_recipe
    from podsim.results.launched import PlanRead
    from podsim.verbs.launch import launch as verb

    one_format(json, csv)
    found = verb(
        model, on=on, tool=tool, read=read, gpus=gpus, batch=batch, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep,
        virtual_stages=virtual_stages, micro_batch=micro_batch, schedule=schedule,
        sequence_parallel=sequence_parallel, zero=zero, shard=shard, recompute=recompute,
        recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad, overlap_param=overlap_param,
        overlap_tp=overlap_tp, precision=precision, optimizer_precision=optimizer_precision, software=software,
        sequence=sequence, overrides=overrides(set_), image=image, mount=tuple(mount or ()), partition=partition,
        time_limit=time_limit,
    )  # fmt: skip
    if json or csv:
        sys.stdout.write(to_json(found) + "\n" if json else to_csv(found))
    elif isinstance(found, PlanRead):
        print_read(found)
    else:
        print_recipe(found)
    if isinstance(found, PlanRead) and found.prediction is not None and not found.prediction.fits:
        raise typer.Exit(1)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make this a command, with the decorator that the application gives its own."""
    command(launch)
