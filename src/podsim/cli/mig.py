"""The commands about divided GPUs and inference: `podsim mig …`, `podsim serve`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from podsim.cli.options import drawable, print_result

Json = Annotated[bool, typer.Option("--json", help="Print JSON, numbers in SI.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, numbers in SI.")]
Gpu = Annotated[str, typer.Argument(help="A GPU with MIG: a100-40gb, a100-80gb, a30, h100, h200.")]
Draw = Annotated[Path | None, typer.Option(help="Draw the slices: FILE.svg or .png.")]
On = Annotated[
    str,
    typer.Option(
        "--on", help="GPU or instances: a100-40gb, a100-40gb/1g.5gb, a100-40gb/7x1g.5gb, dgx-a100-40gb/7x1g."
    ),
]


def layouts(
    gpu: Gpu,
    every: Annotated[
        bool, typer.Option("--every", help="All profiles, 1g with more memory and +me, too.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Layouts to which something can be added, too.")
    ] = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """List the layouts of a GPU: the maximal ones, or all."""
    from podsim.report.mig import layouts_report
    from podsim.verbs.mig import mig_layouts

    table = mig_layouts(gpu, every=every, partial=partial)
    rows = [
        {"number": one.number, "layout": str(one.layout), "instances": one.instances, "compute": one.compute,
         "memory": one.memory, "maximal": one.maximal}
        for one in table.rows
    ]  # fmt: skip
    print_result(table, layouts_report, json=json, csv=csv, rows=rows)


def show(
    gpu: Gpu,
    layout: Annotated[
        str, typer.Argument(help="Instances: 4g,2g,1g or 7x1g.5gb, with places 3g.20gb@4,1g.5gb@0.")
    ],
    draw: Draw = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Show one layout: its instances as GPUs, and what makes it."""
    from podsim.report.mig import layout_report
    from podsim.verbs.mig import mig_show

    _check(draw, json, csv)
    sheet = mig_show(gpu, layout)
    if draw is not None:
        _draw(sheet.slicing, [(gpu, sheet.layout, ())], f"{sheet.gpu}: {sheet.layout}", draw)
    rows = [
        {"instance": str(place), "sms": one.sms, "memory": one.memory, "memory_bandwidth": one.memory_bandwidth,
         "l2": one.l2, "peaks": dict(one.peaks)}
        for place, one in zip(sheet.layout.instances, sheet.slices, strict=True)
    ]  # fmt: skip
    print_result(sheet, layout_report, json=json, csv=csv, rows=rows)


def plan(
    on: Annotated[
        str, typer.Argument(help="Node, cluster or GPU: dgx-a100-40gb, dgx-a100-40gb:4, a100-40gb.")
    ],
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            help="NAME:4xgpu, NAME:14x1g.5gb, NAME:5x8GB, NAME:5x8GB@0.4 (share no slice shrinks). Repeatable.",
        ),
    ] = None,
    objective: Annotated[str, typer.Option(help="throughput or slowest: what is made large.")] = "throughput",
    save: Annotated[
        Path | None, typer.Option(help="Directory for commands.sh, mig-parted.yaml, kubernetes.yaml.")
    ] = None,
    draw: Draw = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Divide a node's GPUs for a mix of jobs. Exit status 1: they do not fit."""
    from podsim.report.mig import plan_report
    from podsim.verbs.mig_plan import mig_plan, save_plan

    _check(draw, json, csv)
    made = mig_plan(on, jobs=job or [], objective=objective)
    if save is not None:
        save_plan(made, save)
    if draw is not None:
        gpus = [(f"GPU {one.index}" if made.nodes == 1 else f"{one.node}.{one.index}", one.layout, one.jobs)
                for one in made.gpus]  # fmt: skip
        _draw(made.slicing, gpus, f"{made.on}: {made.devices} devices", draw)
    rows = [
        {"node": one.node, "gpu": one.index, "mode": one.mode, "layout": "" if one.layout is None else str(one.layout),
         "jobs": " ".join(one.jobs), "speeds": " ".join(f"{speed:g}" for speed in one.speeds)}
        for one in made.gpus
    ]  # fmt: skip
    print_result(made, plan_report, json=json, csv=csv, rows=rows)


def state(
    file: Annotated[
        Path, typer.Argument(help="Output of nvidia-smi -L, mig -lgi, mig -lgipp, or several in one.")
    ],
    gpu: Annotated[str, typer.Option(help="The GPU, where the text does not name it.")] = "",
    want: Annotated[str, typer.Option(help="A layout that each GPU shall have, as 3g,2g,2g.")] = "",
    add: Annotated[str, typer.Option(help="Instances to create beside those that are there.")] = "",
    busy: Annotated[
        list[str] | None,
        typer.Option(help="Instance that may not be destroyed (its number), or all. Repeatable."),
    ] = None,
    draw: Draw = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Read what nvidia-smi prints; can a layout be reached? Exit status 1: no."""
    from podsim.report.mig import states_report
    from podsim.verbs.mig import mig_state

    _check(draw, json, csv)
    states = mig_state(file, gpu=gpu, want=want, add=add, busy=busy or ())
    if draw is not None:
        gpus = [(f"GPU {one.index}", one.layout, ()) for one in states]
        _draw(states[0].slicing, gpus, f"{states[0].name}, as nvidia-smi shows it", draw)
    rows = [
        {"gpu": one.index, "instance": str(each), "uuid": uuid, "start": each.start, "size": each.size}
        for one in states
        for each, uuid in zip(one.layout.instances, one.uuids, strict=True)
    ]
    print_result(list(states), states_report, json=json, csv=csv, rows=rows)
    if any(one.change is not None and not one.change.reachable for one in states):
        raise typer.Exit(1)


def check(
    file: Annotated[Path, typer.Argument(help="A mig-parted file.")],
    gpu: Annotated[str, typer.Option(help="The GPU it is for: a100-40gb, a100-80gb, a30, h100, h200.")],
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Check that a mig-parted file's configurations can stand on a GPU."""
    from podsim.hardware.catalog import load_gpu
    from podsim.hardware.mig.profiles import slicing_of
    from podsim.report.mig import configs_report
    from podsim.verbs.mig import mig_check

    found = mig_check(file, gpu=gpu)
    rows = [
        {"configuration": one.name, "devices": "all" if one.devices is None else ",".join(map(str, one.devices)),
         "enabled": one.enabled, "layout": "" if one.layout is None else str(one.layout)}
        for one in found
    ]  # fmt: skip
    print_result(
        list(found),
        lambda made: configs_report(made, slicing_of(load_gpu(gpu))),
        json=json,
        csv=csv,
        rows=rows,
    )


def law(json: Json = False, csv: Csv = False) -> None:
    """Hold the laws of slices against what was measured."""
    from podsim.report.mig import law_report
    from podsim.verbs.mig import mig_law

    report = mig_law()
    print_result(report, law_report, json=json, csv=csv, rows=list(report.scores))


def serve(
    model: Annotated[
        str, typer.Argument(help="A model that `podsim models` lists, a config.json, or resnet-50.")
    ] = "",
    on: On = "",
    batch: Annotated[str, typer.Option(help="Batch sizes, as 8 or 1,8,94.")] = "",
    precision: Annotated[
        str | None, typer.Option(help="fp16, bf16, tf32, fp32, fp8, int8; default fp16.")
    ] = None,
    sparse: Annotated[bool, typer.Option("--sparse", help="Weights pruned 2:4.")] = False,
    tokens: Annotated[int | None, typer.Option(help="Of a sequence or prompt; of an image its side.")] = None,
    output: Annotated[int | None, typer.Option(help="Tokens that a language model produces.")] = None,
    latency: Annotated[str, typer.Option(help="Answer each request within this, as 10ms.")] = "",
    engine: Annotated[str, typer.Option(help="tensorrt-2026 or tensorrt-2021.")] = "",
    triton: Annotated[Path | None, typer.Option(help="Model repository for Triton's config.pbtxt.")] = None,
    figure: Annotated[
        int | None, typer.Option(help="Make figure 7 or 12 of the DGX A100 white paper.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override, as gpu.memory=64GB, model.layers=12. Repeatable."),
    ] = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Predict inference by batch on a GPU or MIG slices. Exit status 1: no batch fits, or is in time."""
    from podsim.cli.options import overrides
    from podsim.report.serving import figure_report, served_report
    from podsim.results.served import Figure
    from podsim.verbs.serve import serve as verb

    found = verb(
        model, on=on, batch=batch, precision=precision, sparse=sparse, tokens=tokens, output=output, latency=latency,
        engine=engine, triton=triton, figure=figure, overrides=overrides(set_),
    )  # fmt: skip
    if isinstance(found, Figure):
        print_result(found, figure_report, json=json, csv=csv, rows=list(found.rows))
        return
    print_result(found, served_report, json=json, csv=csv, rows=list(found.rows))
    if found.best is None:
        raise typer.Exit(1)


def _check(draw: Path | None, json: bool, csv: bool) -> None:
    from podsim.cli.options import one_format

    one_format(json, csv)
    drawable(draw, "--draw")


def _draw(slicing: Any, gpus: Sequence[Any], title: str, path: Path) -> None:
    from podsim.report.mig_drawing import mig_image

    path.write_bytes(mig_image(slicing, gpus, title=title, kind=path.suffix.lower()[1:]))


def register(command: Callable[..., Callable[..., None]], app: typer.Typer) -> None:
    """Make these commands, with the decorator that the application gives its own; `mig` is a group of them."""
    group = typer.Typer(
        help="Divide GPUs into MIG instances.", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )  # fmt: skip
    for verb in (layouts, show, plan, state, check, law):
        command(verb, group)
    app.add_typer(group, name="mig")
    command(serve)
