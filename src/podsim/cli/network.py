"""The commands about networks: `podsim collective`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def collective(
    collective: Annotated[
        str,
        typer.Argument(
            help="all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter."
        ),
    ] = "",
    on: Annotated[str, typer.Option("--on", help="Cluster: dgx-a100:4, selene, or a TOML file.")] = "",
    sizes: Annotated[
        str,
        typer.Option(help="FIRST:LAST:FACTOR (or +STEP), as nccl-tests counts; default to 16G, doubling."),
    ] = "",
    algo: Annotated[
        str,
        typer.Option(
            help="nccl, an algorithm (ring, tree, hierarchical), FILE.xml of MSCCL, FILE.py:FUNCTION."
        ),
    ] = "nccl",
    ranks: Annotated[int | None, typer.Option(help="GPUs that take part; default all.")] = None,
    launch: Annotated[
        str,
        typer.Option(
            help="process (default) or thread for each GPU, or single process; with --against as the log tells."
        ),
    ] = "",
    nccl: Annotated[
        str,
        typer.Option(help="Release of NCCL, 2.4 to 2.30; default 2.18, with --against what the log tells."),
    ] = "",
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Play every transfer on the links, with contention.")
    ] = False,
    compare: Annotated[bool, typer.Option("--compare", help="All algorithms side by side.")] = False,
    topology: Annotated[
        Path | None,
        typer.Option(help="Instead of --on: a server's NCCL topology XML, or nvidia-smi topo -m."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="What nccl-tests printed, or its JSON: predicted against measured.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw time and bandwidth over size: FILE.svg or .png.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as network.bandwidth=100Gb/s. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")] = False,
) -> None:
    """Time a collective, compare its algorithms, or check a log."""
    from podsim.cli.options import drawable, one_format, overrides, print_result
    from podsim.report.collectives import log_report, sweep_report
    from podsim.results.sweep import Sweep
    from podsim.verbs.collective import collective as verb

    one_format(json, csv)
    drawable(plot, "--plot")
    found = verb(
        collective, on=on, sizes=sizes, algo=algo, ranks=ranks, launch=launch, nccl=nccl, simulate=simulate,
        compare=compare, topology=topology, against=against, overrides=overrides(set_),
    )  # fmt: skip
    if plot is not None:
        _draw(found, plot)
    if isinstance(found, Sweep):
        print_result(found, sweep_report, json=json, csv=csv, rows=found.algorithms or found.rows)
    else:
        print_result(found, log_report, json=json, csv=csv, rows=found.rows)


def _draw(found: Any, path: Path) -> None:
    from podsim.report.plot_collectives import sweep_image
    from podsim.report.plots import plot_png, plot_svg
    from podsim.results.sweep import Sweep

    kind = path.suffix.lower()[1:]
    if isinstance(found, Sweep):
        path.write_bytes(sweep_image(found, kind))
    else:
        path.write_bytes(plot_svg(found) if kind == "svg" else plot_png(found))


def print_fabric(name: str, overrides: dict[str, str], svg: Path | None, *, json: bool) -> None:
    """What `podsim show NAME --fabric` prints; the drawing goes to a file if one is named."""
    from podsim.report.data import to_json
    from podsim.report.fabric import fabric_text
    from podsim.verbs.fabric import draw_file, fabric

    drawing = fabric(name, overrides=overrides)
    if svg is not None:
        draw_file(drawing, svg)
    sys.stdout.write(to_json(drawing) + "\n" if json else fabric_text(drawing))


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make this a command, with the decorator that the application gives its own."""
    command(collective)
