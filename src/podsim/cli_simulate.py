"""The commands that play things out: `podsim schedule`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

_PICTURES = (".png", ".svg", ".html")


def schedule(
    name: Annotated[
        str,
        typer.Argument(
            help="A schedule, or FILE.csv in the form torch's pipelining reads; none: all of them."
        ),
    ] = "",
    pp: Annotated[int | None, typer.Option(help="Pipeline ranks; default 4.")] = None,
    micro_batches: Annotated[int | None, typer.Option(help="Micro-batches of a step; default 8.")] = None,
    virtual_stages: Annotated[
        int | None, typer.Option(help="Model chunks per rank; default the fewest it can have.")
    ] = None,
    forward: Annotated[float, typer.Option(help="Seconds of a rank's forward pass (or any unit).")] = 1.0,
    input: Annotated[float, typer.Option(help="Of its input gradient.")] = 1.0,
    weight: Annotated[float, typer.Option(help="Of its weight gradient.")] = 1.0,
    send: Annotated[float, typer.Option(help="Of a send between ranks.")] = 0.0,
    overlap: Annotated[
        float, typer.Option(help="Share of the shorter of two overlapped passes that the longer hides.")
    ] = 0.0,
    csv_torch: Annotated[
        Path | None, typer.Option(help="Write the CSV that torch.distributed.pipelining loads.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: FILE.png, .svg or .html.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: a line for each action, or schedule.")
    ] = False,
) -> None:
    """Show a pipeline schedule: its order, its bubble, what its ranks keep."""
    from podsim.cli_options import one_format
    from podsim.errors import PodsimError
    from podsim.report.data import to_csv, to_json
    from podsim.report.schedules import print_schedule, print_schedules
    from podsim.scheduled import ScheduleSheet
    from podsim.verbs.schedule import schedule as verb
    from podsim.verbs.schedule import torch_csv

    one_format(json, csv)
    if plot is not None and plot.suffix.lower() not in _PICTURES:
        raise PodsimError(f"--plot {str(plot)[-80:]}: give a name that ends in .png, .svg or .html")
    if not name and (plot is not None or csv_torch is not None):
        raise PodsimError("--plot and --csv-torch are of one schedule: give its name")
    sizes = {"pp": pp, "micro_batches": micro_batches, "virtual_stages": virtual_stages}
    found = verb(
        name, pp=pp, micro_batches=micro_batches, virtual_stages=virtual_stages, forward=forward, input=input,
        weight=weight, send=send, overlap=overlap,
    )  # fmt: skip
    if csv_torch is not None:
        csv_torch.write_text(torch_csv(name, **sizes), "utf-8")
    if isinstance(found, ScheduleSheet):
        if plot is not None:
            from podsim.report.plot_schedule import schedule_image

            plot.write_bytes(schedule_image(found, plot.suffix.lower()[1:]))
        if json or csv:
            sys.stdout.write(to_json(found) + "\n" if json else to_csv(found.actions))
        else:
            print_schedule(found)
    elif json or csv:
        sys.stdout.write(to_json(found) + "\n" if json else to_csv(found.rows))
    else:
        print_schedules(found)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make these commands, with the decorator that the application gives its own."""
    command(schedule)
