"""The command that writes and reads what one runs: `podsim launch`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer


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
    software: Annotated[str | None, typer.Option(help="Framework era; default the tool's own.")] = None,
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
    **options: Any,
) -> None:
    """Write what starts a plan, or read what others start. Exit status 1: the plan that was read does not fit."""
    from podsim.cli.options import one_format, overrides, print_result
    from podsim.report.launches import launch_report
    from podsim.results.launched import PlanRead
    from podsim.verbs.launch import launch as verb

    one_format(json, csv)
    found = verb(
        model, on=on, tool=tool, read=read, software=software, overrides=overrides(set_), image=image,
        mount=tuple(mount or ()), partition=partition, time_limit=time_limit, **options,
    )  # fmt: skip
    print_result(found, launch_report, json=json, csv=csv)
    if isinstance(found, PlanRead):
        if found.prediction is not None and not found.prediction.fits:
            raise typer.Exit(1)
    elif not (json or csv):
        sys.stderr.writelines(f"podsim: note: {note}\n" for note in found.notes)


def register(
    command: Callable[[Callable[..., None]], Callable[..., None]], predict: Callable[..., None]
) -> None:
    """Make this a command, with the decorator that the application gives its own.

    It takes the options of `predict` about the plan.
    """
    from podsim.cli.options import OF_A_PREDICTION, also_taking

    command(also_taking(launch, predict, without=OF_A_PREDICTION))
