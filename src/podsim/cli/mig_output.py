"""The commands of `podsim mig`: layouts and states of divided GPUs as rows, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from podsim.cli.command import Charts, print_answer
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.profiles import slicing_of
from podsim.options.output_options import DrawOutput, MigPlanOutput, Output
from podsim.questions.machine.mig_plan import save_plan
from podsim.report.mig_drawing import mig_image
from podsim.report.mig_tables import configs_report, layout_report, plan_report, states_report
from podsim.report.theme import titled_figure
from podsim.whole_files import write_whole


def layout_rows(table: Any) -> list[dict[str, Any]]:
    """A row for each layout."""
    return [
        {
            "number": row.number, "layout": str(row.layout), "instances": row.instances, "compute": row.compute,
            "memory": row.memory, "maximal": row.maximal,
        }
        for row in table.rows
    ]  # fmt: skip


def show_layout(sheet: Any, output: DrawOutput, options: Mapping[str, Any]) -> None:
    """Print one layout, and draw it."""
    charts = _draw(
        sheet.slicing, [(options["gpu"], sheet.layout, ())], f"{sheet.gpu}: {sheet.layout}", output
    )
    rows = [
        {
            "instance": str(instance), "sms": gpu.sms, "memory": gpu.memory,
            "memory_bandwidth": gpu.memory_bandwidth, "l2": gpu.l2, "peaks": dict(gpu.peaks),
        }
        for instance, gpu in zip(sheet.layout.instances, sheet.slices, strict=True)
    ]  # fmt: skip
    print_answer(sheet, output, layout_report, rows=rows, charts=charts)


def show_plan(plan: Any, output: MigPlanOutput, options: Mapping[str, Any]) -> None:
    """Print what GPUs become, write the files that divide them, and draw them."""
    if output.save is not None:
        save_plan(plan, output.save)
    drawn = [
        (f"GPU {gpu.index}" if plan.nodes == 1 else f"{gpu.node}.{gpu.index}", gpu.layout, gpu.jobs)
        for gpu in plan.gpus
    ]
    charts = _draw(plan.slicing, drawn, f"{plan.on}: {plan.devices} devices", output)
    rows = [
        {
            "node": gpu.node, "gpu": gpu.index, "mode": gpu.mode, "layout": "" if gpu.layout is None else str(gpu.layout),
            "jobs": " ".join(gpu.jobs), "speeds": " ".join(f"{speed:g}" for speed in gpu.speeds),
        }
        for gpu in plan.gpus
    ]  # fmt: skip
    print_answer(plan, output, plan_report, rows=rows, charts=charts)


def show_states(states: Sequence[Any], output: DrawOutput, options: Mapping[str, Any]) -> None:
    """Print what nvidia-smi showed, and draw it."""
    drawn = [(f"GPU {state.index}", state.layout, ()) for state in states]
    charts = _draw(states[0].slicing, drawn, f"{states[0].name}, as nvidia-smi shows it", output)
    rows = [
        {
            "gpu": state.index, "instance": str(instance), "uuid": uuid, "start": instance.start,
            "size": instance.size,
        }
        for state in states
        for instance, uuid in zip(state.layout.instances, state.uuids, strict=True)
    ]  # fmt: skip
    print_answer(list(states), output, states_report, rows=rows, charts=charts)


def show_configurations(configurations: Sequence[Any], output: Output, options: Mapping[str, Any]) -> None:
    """Print the configurations of a mig-parted file."""
    rows = [
        {
            "configuration": each.name,
            "devices": "all" if each.devices is None else ",".join(map(str, each.devices)),
            "enabled": each.enabled, "layout": "" if each.layout is None else str(each.layout),
        }
        for each in configurations
    ]  # fmt: skip
    slicing = slicing_of(load_gpu(options["gpu"]))
    print_answer(list(configurations), output, lambda made: configs_report(made, slicing), rows=rows)


def _draw(slicing: Any, gpus: Sequence[Any], title: str, output: DrawOutput) -> Charts:
    """Write a picture of the slices, if it is wanted; what draws it on a page."""
    draw = partial(mig_image, slicing, gpus, title=title)
    if output.plot is not None:
        write_whole(output.plot, draw(kind=output.plot.suffix.lower()[1:]))
    return lambda: [titled_figure(draw(kind="svg"), "Slices")]
