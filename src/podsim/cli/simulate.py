"""The commands that play things out: `podsim schedule`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

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
    """Show a pipeline schedule: order, bubble, memory."""
    from podsim.cli.options import drawable, one_format, print_result
    from podsim.errors import PodsimError
    from podsim.report.schedules import schedule_report, schedules_report
    from podsim.results.scheduled import ScheduleSheet
    from podsim.verbs.schedule import schedule as verb
    from podsim.verbs.schedule import torch_csv

    one_format(json, csv)
    drawable(plot, "--plot", _PICTURES)
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
            from podsim.report.pages import schedule_page
            from podsim.report.plot_schedule import schedule_image

            kind = plot.suffix.lower()[1:]
            is_page = kind == "html"
            plot.write_bytes(schedule_page(found).encode() if is_page else schedule_image(found, kind))
        print_result(found, schedule_report, json=json, csv=csv, rows=found.actions)
    else:
        print_result(found, schedules_report, json=json, csv=csv, rows=found.rows)


def simulate(
    model: Annotated[
        str, typer.Argument(help="A name that `podsim models` lists, a config.json, or the folder it is in.")
    ],
    on: Annotated[
        str,
        typer.Option("--on", help="Cluster: dgx-a100-80gb:64, selene, superpod-a100:2su, or a TOML file."),
    ],
    timeline: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write the timeline: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."
        ),
    ] = None,
    links: Annotated[Path | None, typer.Option(help="Draw the busiest links: FILE.png or .svg.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="A PyTorch profile (Kineto JSON) of the real step, to lay beside it.")
    ] = None,
    chakra: Annotated[
        Path | None, typer.Option(help="Write Chakra execution traces, one file a rank, to this directory.")
    ] = None,
    ranks: Annotated[str, typer.Option(help="folded (one of equal ranks), or all.")] = "folded",
    kernels: Annotated[
        bool | None, typer.Option(help="Kernels one by one, or what lies between collectives as one op.")
    ] = None,
    slow: Annotated[
        list[str] | None,
        typer.Option(help="A slow GPU, as RANK=1.2: its kernels take 1.2 times as long. Repeatable."),
    ] = None,
    throttle: Annotated[
        list[str] | None,
        typer.Option(help="A GPU that grows hot, as 5=1.3@2s: it tends to 1.3 times as long. Repeatable."),
    ] = None,
    slow_link: Annotated[
        list[str] | None,
        typer.Option(help="A slow adapter, as RANK=0.5: half its bandwidth is left. Repeatable."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(help="A server with other GPUs, as 1=a100-sxm4-40gb (numbered from 0). Repeatable."),
    ] = None,
    uneven: Annotated[bool, typer.Option(help="Slower replicas get fewer micro-batches.")] = False,
    jitter: Annotated[
        float, typer.Option(help="Noise of kernels: 0.05 is about 5 %. Every rank by itself.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    fail: Annotated[
        list[str] | None,
        typer.Option(help="A GPU that fails, as RANK=0.8: after 0.8 s of the step it does nothing more."),
    ] = None,
    fail_link: Annotated[
        list[str] | None,
        typer.Option(help="An adapter that fails, as RANK=0.8: traffic goes over a neighbour's, or stops."),
    ] = None,
    watchdog: Annotated[
        float | None, typer.Option(help="Seconds a collective may hang before the run ends; default 600.")
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(help="Seconds between checkpoints, half of which a failure costs too.")
    ] = 0.0,
    force: Annotated[bool, typer.Option(help="Play a plan that does not fit the memory.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as network.bandwidth=100Gb/s. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV: the critical path, or who stands still.")
    ] = False,
    **options: Any,
) -> None:
    """Play one training step: timeline, critical path, links. Exit status 1: it does not fit."""
    from podsim.cli.options import one_format, overrides, print_result, throttled
    from podsim.report.simulation import simulated_data, simulated_report
    from podsim.report.steps import against_report
    from podsim.timeline import plot_links, write_timeline
    from podsim.verbs.simulate import simulate as verb

    one_format(json, csv)
    step = verb(
        model, on=on, ranks=ranks, kernels=kernels, slow=_ranks(slow, "--slow", "5=1.2"),
        throttle=throttled(throttle, "rank", "5=1.3@2s"), slow_link=_ranks(slow_link, "--slow-link", "5=0.5"),
        node=_nodes(node), uneven=uneven, jitter=jitter, seed=seed, fail=_ranks(fail, "--fail", "5=0.8"),
        fail_link=_ranks(fail_link, "--fail-link", "5=0.8"), watchdog=watchdog, checkpoint_every=checkpoint_every,
        force=force, chakra=chakra,
        overrides=overrides(set_), **options,
    )  # fmt: skip
    for path in timeline or []:
        write_timeline(step.timeline, path, title=f"{step.model} on {step.cluster}")
    if links is not None:
        plot_links(step, links)
    if against is not None:
        from podsim.accuracy import compare_steps, read_kineto

        compared = compare_steps(read_kineto(against), step)
        print_result(compared, against_report, json=json, csv=csv, rows=compared.rows)
        return
    rows = (step.failure.standing if step.failure else ()) or step.critical
    data = simulated_data(step) if json else {}
    print_result(data, lambda _: simulated_report(step), json=json, csv=csv, rows=rows)


def _ranks(given: list[str] | None, option: str, example: str) -> dict[int, float]:
    """Ranks and factors of a repeatable option."""
    from podsim.cli.options import pairs
    from podsim.errors import PodsimError

    found = {}
    for rank, factor in pairs(given, option, example).items():
        try:
            found[int(rank)] = float(factor)
        except ValueError:
            raise PodsimError(
                f"{option} {rank[:40]}={factor[:40]}: expected RANK=NUMBER, such as {example}"
            ) from None
    return found


def _nodes(given: list[str] | None) -> dict[int, str]:
    """Servers and types of GPU."""
    from podsim.cli.options import pairs
    from podsim.errors import PodsimError

    found = pairs(given, "--node", "1=a100-sxm4-40gb")
    wrong = [number for number in found if not number.isdecimal()]
    if wrong:
        raise PodsimError(f"--node {wrong[0][:40]}={found[wrong[0]][:40]}: servers are numbered from 0")
    return {int(number): gpu for number, gpu in found.items()}


def register(
    command: Callable[[Callable[..., None]], Callable[..., None]], predict: Callable[..., None]
) -> None:
    """Make these commands, with the decorator that the application gives its own.

    `simulate` takes the options of `predict` about the plan.
    """
    from podsim.cli.options import OF_A_PREDICTION, also_taking

    command(schedule)
    command(also_taking(simulate, predict, without=OF_A_PREDICTION))
