"""A layout drawn: each GPU as its memory slices above its compute slices, instances over both. Needs podsim[report]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing
from podsim.hardware.mig.results import GpuState, LayoutSheet, MigPlan
from podsim.report.chart_marks import INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_COLOURS = {1: "#9ecae1", 2: "#a1d99b", 3: "#fdae6b", 4: "#fc9272", 7: "#bcbddc"}
"""by compute slices of the instance"""
_FREE = "#f3f4f6"
_ROW = 1.25
"""inches of one GPU"""
_MOST = 24
"""GPUs drawn; a fleet has more than fit a page"""


def mig_image(
    slicing: Slicing,
    gpus: Sequence[tuple[str, Layout | None, Sequence[str]]],
    *,
    title: str,
    kind: str,
    dpi: int = 130,
) -> bytes:
    """Bytes of a figure, "svg" or "png", of (label, layout or None for a whole GPU, jobs of its instances).

    Memory slices stand above compute slices. Compute slices fill from the left, as their places are not published.
    What no instance has is grey.
    """
    matplotlib = load_matplotlib()
    shown = list(gpus)[:_MOST]
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        height = 0.55 + _ROW * len(shown) + (0.25 if len(gpus) > _MOST else 0.0)
        figure = Figure(figsize=(9.2, height))
        figure.text(0.015, 1 - 0.24 / height, title[:120], fontsize=11, fontweight="bold", va="center")
        for row, (label, layout, jobs) in enumerate(shown):
            bottom = (height - 0.5 - _ROW * (row + 1) + 0.1) / height
            axes = figure.add_axes((0.015, bottom, 0.97, (_ROW - 0.14) / height))
            _gpu(axes, slicing, label, layout, jobs)
        if len(gpus) > _MOST:
            figure.text(0.015, 0.1 / height, f"… and {len(gpus) - _MOST} GPUs more", fontsize=9)
        return figure_image(figure, kind, dpi=dpi)


def _gpu(axes: Axes, slicing: Slicing, label: str, layout: Layout | None, jobs: Sequence[str]) -> None:
    """One GPU: 8 units of memory slices above, as wide as 7 of compute slices below."""
    axes.set(xlim=(-1.55, 8.0), ylim=(-0.05, 2.05))
    axes.axis("off")
    wide_m, wide_c = 8.0 / slicing.memory_slices, 8.0 / slicing.compute_slices
    axes.text(-1.52, 1.72, label, fontsize=9.5, fontweight="bold", va="center", color=INK)
    axes.text(-0.08, 1.35, "memory", fontsize=8, va="center", ha="right", color=MUTED)
    axes.text(-0.08, 0.35, "compute", fontsize=8, va="center", ha="right", color=MUTED)
    if layout is None:
        name = jobs[0] if jobs else "idle"
        _box(
            axes,
            0.0,
            0.82,
            8.0,
            1.1,
            _FREE if not jobs else "#d9d9d9",
            f"whole GPU: {name}" if jobs else "idle",
        )
        _box(axes, 0.0, 0.05, 8.0, 0.62, _FREE if not jobs else "#d9d9d9", "")
        return
    for at in range(slicing.memory_slices):
        _box(axes, at * wide_m, 0.82, wide_m, 1.1, _FREE, "")
    for at in range(slicing.compute_slices):
        _box(axes, at * wide_c, 0.05, wide_c, 0.62, _FREE, "")
    compute = 0
    for index, instance in enumerate(layout.instances):
        colour = _COLOURS.get(instance.compute, "#bcbddc")
        job = jobs[index] if index < len(jobs) else ""
        text = instance.profile + (f"\n{job}" if job else "")
        _box(axes, instance.start * wide_m, 0.82, instance.size * wide_m, 1.1, colour, text)
        _box(
            axes,
            compute * wide_c,
            0.05,
            instance.compute * wide_c,
            0.62,
            colour,
            instance.profile.partition(".")[0],
        )
        compute += instance.compute
    for at in range(slicing.memory_slices):
        axes.text(at * wide_m + 0.07, 1.8, str(at), fontsize=6, va="center", color=MUTED)


def _box(axes: Axes, x: float, y: float, width: float, height: float, colour: str, text: str) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x + 0.02, y), width - 0.04, height, facecolor=colour, edgecolor=INK, lw=0.7))
    axes.text(
        x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=7.6, color=INK, clip_on=True
    )


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
