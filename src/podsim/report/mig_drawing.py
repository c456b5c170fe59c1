"""A layout in a chart: each GPU as its memory slices above its compute slices, instances over both."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.mig.results import GpuState, LayoutSheet, MigPlan
from podsim.report.chart_marks import Axis, Boxes, Chart, Sheet
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image

_COLOURS = {1: "#9ecae1", 2: "#a1d99b", 3: "#fdae6b", 4: "#fc9272", 7: "#bcbddc"}
"""by compute slices of the instance"""
_FREE, _WHOLE = "#f3f4f6", "#d9d9d9"
_MOST = 24
"""GPUs drawn; a fleet has more than fit a page"""
_Box = tuple[tuple[float, float, float, float], str, str]
"""(left, right, bottom and top; colour; text)"""


def mig_image(
    slicing: Slicing, gpus: Sequence[tuple[str, Layout | None, Sequence[str]]], *, title: str, kind: str
) -> bytes:
    """Bytes of a figure, "svg" or "png", of (label, layout or None for a whole GPU, jobs of its instances).

    Memory slices stand above compute slices. Compute slices fill from the left, as their places are not published.
    What no instance has is grey.
    """
    shown = list(gpus)[:_MOST]
    boxes = [
        box for row, (_, layout, jobs) in enumerate(shown) for box in _gpu(2 * row, slicing, layout, jobs)
    ]
    corners, colours, texts = zip(*boxes, strict=True)
    names = [name for label, _, _ in shown for name in (f"{label}: memory", "compute")]
    ticks = [(at + 0.5) * 8.0 / slicing.memory_slices for at in range(slicing.memory_slices)]
    along = Axis(
        "memory slice",
        text=lambda x: f"{int(x * slicing.memory_slices / 8.0)}",
        ticks=ticks,
        low=0.0,
        high=8.0,
    )
    more = f"… and {len(gpus) - _MOST} GPUs more" if len(gpus) > _MOST else ""
    chart = Chart([Boxes(corners, colours, texts=texts)], x=along, y=Axis(names=names, is_reversed=True))
    return figure_image(draw(Sheet(title, [chart], more, (9.2, 1.2 + 1.1 * len(shown)))), kind)


def _gpu(row: int, slicing: Slicing, layout: Layout | None, jobs: Sequence[str]) -> list[_Box]:
    """One GPU: 8 units of memory slices above, as wide as 7 of compute slices below."""
    if layout is None:
        colour, text = (_WHOLE, f"whole GPU: {jobs[0]}") if jobs else (_FREE, "idle")
        return [_box(row, 0, 1, 1, colour, text), _box(row + 1, 0, 1, 1, colour, "")]
    memory, compute = slicing.memory_slices, slicing.compute_slices
    boxes = [_box(row, at, 1, memory, _FREE, "") for at in range(memory)]
    boxes += [_box(row + 1, at, 1, compute, _FREE, "") for at in range(compute)]
    begin = 0
    for index, instance in enumerate(layout.instances):
        colour = _COLOURS.get(instance.compute, "#bcbddc")
        job = jobs[index] if index < len(jobs) else ""
        text = instance.profile + (f"\n{job}" if job else "")
        boxes.append(_box(row, instance.start, instance.size, memory, colour, text))
        boxes.append(
            _box(row + 1, begin, instance.compute, compute, colour, instance.profile.partition(".")[0])
        )
        begin += instance.compute
    return boxes


def _box(row: int, first: int, count: int, slices: int, colour: str, text: str) -> _Box:
    """Some slices of a row."""
    wide = 8.0 / slices
    return (first * wide, (first + count) * wide, row - 0.42, row + 0.42), colour, text


def layout_image(sheet: LayoutSheet, kind: str) -> bytes:
    """A picture of one layout."""
    return mig_image(
        sheet.slicing, [(sheet.gpu, sheet.layout, ())], title=f"{sheet.gpu}: {sheet.layout}", kind=kind
    )


def plan_image(plan: MigPlan, kind: str) -> bytes:
    """A picture of the GPUs of a plan, with the jobs of their instances."""
    drawn = [
        (f"GPU {gpu.index}" if plan.nodes == 1 else f"{gpu.node}.{gpu.index}", gpu.layout, gpu.jobs)
        for gpu in plan.gpus
    ]
    return mig_image(plan.slicing, drawn, title=f"{plan.on}: {plan.devices} devices", kind=kind)


def states_image(states: Sequence[GpuState], kind: str) -> bytes:
    """A picture of what nvidia-smi showed."""
    drawn = [(f"GPU {state.index}", state.layout, ()) for state in states]
    return mig_image(states[0].slicing, drawn, title=f"{states[0].name}, as nvidia-smi shows it", kind=kind)
