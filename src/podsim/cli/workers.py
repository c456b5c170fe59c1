"""The command that plays data-parallel workers over many steps: `podsim workers`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def workers(
    model: Annotated[
        str, typer.Argument(help="A name that `podsim models` lists, or a config.json; none: by numbers.")
    ] = "",
    on: Annotated[str, typer.Option("--on", help="Cluster: dgx-a100:4, selene, or a TOML file.")] = "",
    gpus: Annotated[int | None, typer.Option(help="GPUs of the job; default the whole cluster.")] = None,
    batch: Annotated[int | None, typer.Option(help="Sequences of a step of all workers.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel degree of a replica.")] = 1,
    pp: Annotated[int, typer.Option(help="Its pipeline stages.")] = 1,
    micro_batch: Annotated[int, typer.Option(help="Sequences of a micro-batch.")] = 1,
    recompute: Annotated[str, typer.Option(help="none, selective or full.")] = "none",
    precision: Annotated[str | None, typer.Option(help="fp32, tf32, fp16, bf16, fp8.")] = None,
    software: Annotated[
        str, typer.Option(help="Framework era; `podsim show software` lists them.")
    ] = "megatron-core",
    compute: Annotated[str, typer.Option(help="Instead of a model: seconds of a worker's step, 0.2.")] = "",
    gradients: Annotated[str, typer.Option(help="Gradients that a worker sends, 500MB.")] = "",
    weights: Annotated[str, typer.Option(help="Weights that it gets back; default as many bytes.")] = "",
    workers: Annotated[int | None, typer.Option(help="How many workers; default the GPUs of --on.")] = None,
    samples: Annotated[float | None, typer.Option(help="Samples of a worker's step.")] = None,
    bandwidth: Annotated[str, typer.Option(help="Of a worker's adapter, 25GB/s.")] = "",
    latency: Annotated[str, typer.Option(help="Of a push or a pull, 5us.")] = "",
    exchange: Annotated[
        str, typer.Option(help="bsp (all-reduce), ps (servers, in step), ssp (bounded), async.")
    ] = "bsp",
    staleness: Annotated[
        int | None, typer.Option(help="Of ssp: rounds that the fastest may be ahead of the slowest.")
    ] = None,
    servers: Annotated[int | None, typer.Option(help="Parameter servers; default 1.")] = None,
    server_bandwidth: Annotated[str, typer.Option(help="Of one server; default a node's adapters.")] = "",
    beside: Annotated[bool, typer.Option(help="Servers on the workers' machines share adapters.")] = False,
    hierarchical: Annotated[bool, typer.Option(help="Replicas of a node add up first: one worker.")] = False,
    every: Annotated[int, typer.Option(help="Steps between exchanges (local SGD).")] = 1,
    overlap: Annotated[
        float, typer.Option(help="Share of a step's compute beside which its gradients already leave.")
    ] = 0.0,
    jitter: Annotated[float, typer.Option(help="Noise of a step: 0.1 is about 10 %.")] = 0.0,
    slow: Annotated[
        list[str] | None,
        typer.Option(help="A slow worker, as 3=1.5: it takes 1.5 times as long. Repeatable."),
    ] = None,
    slow_link: Annotated[
        list[str] | None, typer.Option(help="A slow adapter, as 3=0.5: half its bandwidth. Repeatable.")
    ] = None,
    throttle: Annotated[
        list[str] | None,
        typer.Option(
            help="A worker that grows hot, as 3=1.3@60s: it tends to 1.3 times as long. Repeatable."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of each worker.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="All-reduce, and bounds of 0, 1, 2, 4, 8 and none.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="With --compare: draw it, FILE.png or .svg.")] = None,
    timeline: Annotated[
        list[Path] | None,
        typer.Option(help="Write it: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as network.bandwidth=100Gb/s. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV: a line for each exchange.")] = False,
) -> None:
    """Play data-parallel workers: idle time against staleness."""
    from podsim.cli.options import one_format, overrides, print_result, throttled
    from podsim.errors import PodsimError
    from podsim.report.workers import exchange_data, exchange_report, tradeoff_report
    from podsim.results.exchanged import Tradeoff
    from podsim.timeline.timelines import suffix_of, write_timeline
    from podsim.verbs.workers import workers as verb

    one_format(json, csv)
    if plot is not None and not compare:
        raise PodsimError("--plot draws a comparison; give --compare, too")
    if timeline and compare:
        raise PodsimError("--timeline is of one exchange; leave --compare out")
    kind = suffix_of(plot, (".png", ".svg"), "plot")[1:] if plot is not None else ""
    found = verb(
        model, on=on, gpus=gpus, batch=batch, tp=tp, pp=pp, micro_batch=micro_batch, recompute=recompute,
        precision=precision, software=software, compute=compute, gradients=gradients, weights=weights,
        workers=workers, samples=samples, bandwidth=bandwidth, latency=latency, exchange=exchange,
        staleness=staleness, servers=servers, server_bandwidth=server_bandwidth, beside=beside,
        hierarchical=hierarchical, every=every, overlap=overlap, jitter=jitter, slow=numbers(slow, "--slow", "3=1.5"),
        slow_link=numbers(slow_link, "--slow-link", "3=0.5"),
        throttle=throttled(throttle, "worker", "3=1.3@60s"), steps=steps, seed=seed,
        compare=compare, overrides=overrides(set_),
    )  # fmt: skip
    if isinstance(found, Tradeoff):
        if plot is not None:
            from podsim.report.plot_workers import tradeoff_image

            plot.write_bytes(tradeoff_image(found, kind))
        rows = [exchange_data(run) for run in found.runs]
        data = {"name": found.name, "runs": rows}
        print_result(data, lambda _: tradeoff_report(found), json=json, csv=csv, rows=rows)
        return
    for path in timeline or []:
        write_timeline(found.timeline, path, title=found.name)
    data = exchange_data(found)
    print_result(data, lambda _: exchange_report(found), json=json, csv=csv, rows=[data])


def _worker(text: str, option: str, example: str) -> int:
    from podsim.errors import PodsimError

    try:
        return int(text)
    except ValueError:
        raise PodsimError(f"{option} {text[:40]}: a worker is a number, such as {example}") from None


def numbers(given: list[str] | None, option: str, example: str) -> dict[int, float]:
    """Workers and factors of a repeatable option."""
    from podsim.cli.options import pairs
    from podsim.units import parse_quantity

    return {
        _worker(worker, option, example): parse_quantity(factor, what=f"{option} {worker[:40]}")
        for worker, factor in pairs(given, option, example).items()
    }


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make the command, with the decorator that the application gives its own."""
    command(workers)
