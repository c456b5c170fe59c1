"""The commands about graphs of ops: `podsim capture`, `podsim graph`, `podsim chakra`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.options import print_result

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        help="Shape of an input: 8x3x224x224, 8x128:int64; B for the samples: any batch. Repeat for each argument.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]


def capture(
    module: Annotated[
        str,
        typer.Argument(help="FILE.py:FUNCTION; the function gives a torch.nn.Module, or (module, inputs)."),
    ],
    input: Inputs = None,
    out: Annotated[Path | None, typer.Option(help="Write the graph to this JSON file.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Capture a PyTorch module as a graph of ops, computing nothing."""
    from podsim.cli.options import one_format
    from podsim.report.graphs import captured_report
    from podsim.verbs.capture import capture as verb

    one_format(json, csv)
    found = verb(module, input=input, out=out)
    print_result(found, captured_report, json=json, csv=csv, rows=found)


def graph(
    file: Annotated[
        str,
        typer.Argument(
            help="A name of `podsim show networks`, what `podsim capture` wrote, or FILE.py:FUNCTION."
        ),
    ],
    on: Annotated[str, typer.Option("--on", help="A GPU (a100-sxm4-80gb) or a cluster (dgx-a100-80gb:2).")],
    input: Inputs = None,
    batch: Annotated[
        int | None, typer.Option(help="Samples of a step on a GPU, where the graph is one for any batch.")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(help="Replicas, their gradients reduced in buckets; default the whole cluster."),
    ] = None,
    devices: Annotated[int, typer.Option(help="Divide the graph over so many devices.")] = 1,
    tolerance: Annotated[float, typer.Option(help="Share by which a device may exceed the mean work.")] = 0.1,
    precision: Annotated[
        str | None, typer.Option(help="fp32, tf32, fp16, bf16; default bf16, or fp16 on GPUs without it.")
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd (with momentum), adam or none.")] = "sgd",
    software: Annotated[
        str, typer.Option(help="Framework era; `podsim show software` lists them.")
    ] = "dle-pytorch",
    fuse: Annotated[
        str, typer.Option(help="none (eager), attention, chains (element-wise ops), all.")
    ] = "none",
    layout: Annotated[
        str, typer.Option(help="channels-last, or channels-first: convolutions on tensor cores convert then.")
    ] = "channels-last",
    chakra: Annotated[
        Path | None, typer.Option(help="Write a Chakra trace of each replica: PREFIX.RANK.et.")
    ] = None,
    timeline: Annotated[
        list[Path] | None,
        typer.Option(
            help="Play the step, write FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override, as gpu.memory_bandwidth=3TB/s. Repeatable.")
    ] = None,
    detail: Annotated[str, typer.Option(help="`ops` lists every op.")] = "",
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Cost a captured graph, op by op; divide it over devices."""
    from podsim.cli.options import one_format, overrides
    from podsim.report.graphs import graph_report
    from podsim.verbs.graph import graph as verb

    one_format(json, csv)
    found = verb(
        file, on=on, input=input, batch=batch, gpus=gpus, devices=devices, tolerance=tolerance, precision=precision,
        optimizer=optimizer, software=software, fuse=fuse, layout=layout, chakra=chakra, timeline=timeline or (),
        overrides=overrides(set_),
        detail=detail,
    )  # fmt: skip
    print_result(found, lambda found: graph_report(found, detail=detail), json=json, csv=csv, rows=found.ops)


def chakra(
    traces: Annotated[list[Path], typer.Argument(help="Chakra traces, plain or gzip, one for each rank.")],
    out: Annotated[Path | None, typer.Option(help="Write what is left: OUT.RANK.et for each file.")] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Read, mend and rewrite Chakra execution traces."""
    from podsim.cli.options import one_format
    from podsim.report.graphs import traces_report
    from podsim.verbs.chakra import chakra as verb

    one_format(json, csv)
    found = verb(traces, out=out)
    print_result(found, traces_report, json=json, csv=csv, rows=found.files)


def register(command: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Make these commands, with the decorator that the application gives its own."""
    for one in (capture, graph, chakra):
        command(one)
