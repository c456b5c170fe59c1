"""How commands about machines print what a column table cannot say: verify, collective, emulate, mig and show."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from podsim.cli import app
from podsim.cli.command import print_answer
from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.fabrics.describe import Drawing
from podsim.hardware.mig.profiles import slicing_of
from podsim.lab.emulated_links import emulated_cluster, warnings_of
from podsim.options.output_options import DrawOutput, MigPlanOutput, Output, ShowOutput, VerifyOutput
from podsim.report.acceptance import acceptance_report
from podsim.report.browser import print_pdf
from podsim.report.collectives import log_report, sweep_report
from podsim.report.fabric import fabric_text
from podsim.report.mig import configs_report, layout_report, plan_report, states_report
from podsim.report.mig_drawing import mig_image
from podsim.report.pages import acceptance_page
from podsim.report.plot_collectives import sweep_image
from podsim.report.plots import plot_png, plot_svg
from podsim.report.screen import Paragraph, Report
from podsim.report.sheets import sheet_report
from podsim.results.acceptance import Acceptance
from podsim.results.sweep import Sweep
from podsim.verbs.emulate import emulate
from podsim.verbs.fabric import draw_file, fabric
from podsim.verbs.mig_plan import save_plan
from podsim.verbs.show import show


def check_pages(output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for pages that cannot be written, before minutes of work."""
    for path in (output.html, output.pdf):
        if path is not None and not path.parent.is_dir():
            raise PodsimError(f"{path}: there is no folder {path.parent}")


def show_acceptance(acceptance: Acceptance, output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Print the checks, and write the pages."""
    print_answer(acceptance, output, acceptance_report, rows=acceptance.checks)
    page = acceptance_page(acceptance) if output.html or output.pdf else ""
    if output.html is not None:
        output.html.write_text(page, "utf-8")
    if output.pdf is not None:
        print_pdf(page, output.pdf)


def collective_rows(answer: Any) -> Any:
    """What CSV shows: the algorithms side by side, or the sizes."""
    return answer.algorithms or answer.rows if isinstance(answer, Sweep) else answer.rows


def collective_image(answer: Any, kind: str) -> bytes:
    """A picture, "svg" or "png"."""
    if isinstance(answer, Sweep):
        return sweep_image(answer, kind)
    return plot_svg(answer) if kind == "svg" else plot_png(answer)


def collective_report(answer: Any) -> Report:
    """The report of either."""
    return sweep_report(answer) if isinstance(answer, Sweep) else log_report(answer)


def emulated_status(options: Mapping[str, Any], output: object) -> int:
    """The exit status of the command; what this machine will not keep up with is said before."""
    links = {name: options[name] for name in ("cluster", "scale", "per", "overrides")}
    for warning in warnings_of(emulated_cluster(**links)):
        sys.stderr.write(f"podsim: {warning}\n")
    return int(emulate(**options, own=_run_here))


def _run_here(words: Sequence[str]) -> int:
    """The exit status of a command of podsim, run in this process."""
    try:
        app(args=list(words[1:]), prog_name="podsim")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


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
    _draw(sheet.slicing, [(options["gpu"], sheet.layout, ())], f"{sheet.gpu}: {sheet.layout}", output)
    rows = [
        {
            "instance": str(instance), "sms": gpu.sms, "memory": gpu.memory,
            "memory_bandwidth": gpu.memory_bandwidth, "l2": gpu.l2, "peaks": dict(gpu.peaks),
        }
        for instance, gpu in zip(sheet.layout.instances, sheet.slices, strict=True)
    ]  # fmt: skip
    print_answer(sheet, output, layout_report, rows=rows)


def show_plan(plan: Any, output: MigPlanOutput, options: Mapping[str, Any]) -> None:
    """Print what GPUs become, write the files that divide them, and draw them."""
    if output.save is not None:
        save_plan(plan, output.save)
    drawn = [
        (f"GPU {gpu.index}" if plan.nodes == 1 else f"{gpu.node}.{gpu.index}", gpu.layout, gpu.jobs)
        for gpu in plan.gpus
    ]
    _draw(plan.slicing, drawn, f"{plan.on}: {plan.devices} devices", output)
    rows = [
        {
            "node": gpu.node, "gpu": gpu.index, "mode": gpu.mode, "layout": "" if gpu.layout is None else str(gpu.layout),
            "jobs": " ".join(gpu.jobs), "speeds": " ".join(f"{speed:g}" for speed in gpu.speeds),
        }
        for gpu in plan.gpus
    ]  # fmt: skip
    print_answer(plan, output, plan_report, rows=rows)


def show_states(states: Sequence[Any], output: DrawOutput, options: Mapping[str, Any]) -> None:
    """Print what nvidia-smi showed, and draw it."""
    drawn = [(f"GPU {state.index}", state.layout, ()) for state in states]
    _draw(states[0].slicing, drawn, f"{states[0].name}, as nvidia-smi shows it", output)
    rows = [
        {
            "gpu": state.index, "instance": str(instance), "uuid": uuid, "start": instance.start,
            "size": instance.size,
        }
        for state in states
        for instance, uuid in zip(state.layout.instances, state.uuids, strict=True)
    ]  # fmt: skip
    print_answer(list(states), output, states_report, rows=rows)


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


def _draw(slicing: Any, gpus: Sequence[Any], title: str, output: DrawOutput) -> None:
    """Write a picture of the slices, if it is wanted."""
    if output.draw is not None:
        output.draw.write_bytes(mig_image(slicing, gpus, title=title, kind=output.draw.suffix.lower()[1:]))


def check_sheet(output: ShowOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for forms that there are not."""
    if output.svg is not None and not output.fabric:
        raise PodsimError("--svg draws a fabric; give --fabric, too")
    if output.fabric and output.csv:
        raise PodsimError("--fabric --csv: a drawing is no table; --json gives its parts")


def sheet_or_fabric(options: Mapping[str, Any], output: ShowOutput) -> Any:
    """The sheet, or the drawing, which is written to a file if one is named."""
    if not output.fabric:
        return show(**options)
    drawing = fabric(**options)
    if output.svg is not None:
        draw_file(drawing, output.svg)
    return drawing


def sheet_or_fabric_report(answer: Any) -> Report:
    """The report of either."""
    if isinstance(answer, Drawing):
        return [Paragraph(fabric_text(answer), is_wrapped=False)]
    return sheet_report(answer)
