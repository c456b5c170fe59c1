"""The commands about power and money: `podsim power` and `podsim cost`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from podsim.cli.options import print_result

Set = Annotated[list[str] | None, typer.Option("--set", help="Override, as gpu.power=300W. Repeatable.")]
Pue = Annotated[float | None, typer.Option(help="Power of the site over that of the machine.")]
Cap = Annotated[str, typer.Option(help="Power each GPU is held to, as 300W.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]


def power(
    cluster: Annotated[str, typer.Argument(help="Cluster: dgx-a100-80gb:64, selene, or a TOML file.")],
    gpus: Annotated[int | None, typer.Option(help="GPUs of it; default all.")] = None,
    cap: Cap = "",
    pue: Pue = None,
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show what a cluster draws, by load and component."""
    from podsim.cli.options import one_format, overrides
    from podsim.report.expenses import print_power
    from podsim.verbs.power import power as verb

    one_format(json, csv)
    found = verb(cluster, gpus=gpus, cap=cap, pue=pue, overrides=overrides(set_))
    print_result(found, print_power, json=json, csv=csv, rows=found.loads)


def cost(
    cluster: Annotated[str, typer.Argument(help="Cluster: dgx-a100-80gb:64, selene, or a TOML file.")],
    gpu_hours: Annotated[float, typer.Option(help="GPU hours, summed over GPUs.")],
    price: Annotated[
        list[str] | None,
        typer.Option(help="A price of the catalog, or USD for a GPU and an hour; default all. Repeatable."),
    ] = None,
    load: Annotated[str, typer.Option(help="idle, training or peak.")] = "training",
    cap: Cap = "",
    pue: Pue = None,
    carbon: Annotated[
        float | None, typer.Option(help="Carbon dioxide of the electricity, kg for a kWh.")
    ] = None,
    electricity: Annotated[float | None, typer.Option(help="Price of electricity, USD for a kWh.")] = None,
    set_: Set = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Price GPU hours: energy, carbon dioxide, money."""
    from podsim.cli.options import one_format, overrides
    from podsim.report.expenses import print_bill
    from podsim.verbs.power import cost as verb

    one_format(json, csv)
    found = verb(
        cluster, gpu_hours=gpu_hours, price=tuple(price or ()), load=load, cap=cap, pue=pue, carbon=carbon,
        electricity=electricity, overrides=overrides(set_),
    )  # fmt: skip
    print_result(found, print_bill, json=json, csv=csv, rows=found.rows)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make these commands, with the decorator that the application gives its own."""
    command(power)
    command(cost)
