"""Charts of predictions: where a step goes, memory by stage, and the Pareto front."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup

from podsim.answers.prediction import PARTS, PlanResult, Prediction
from podsim.report.charts import Point, bar_chart, point_chart
from podsim.report.predictions import layout
from podsim.units import format_quantity

_seconds = partial(format_quantity, unit="s", digits=3)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def prediction_charts(prediction: Prediction) -> list[Markup]:
    """The parts of the step, and the memory of each stage against the limit."""
    parts = sorted(prediction.parts.items(), key=lambda part: -part[1])
    stages = prediction.stages
    names = [_stage_name(stage.first, stage.count) for stage in stages]
    kinds = {kind: [stage.kinds[kind] for stage in stages] for kind in prediction.memory_kinds}
    return [
        bar_chart(
            "Where the step goes", ["step"], {PARTS.get(name, name): [seconds] for name, seconds in parts[:8]},
            form=_seconds,
        ),
        bar_chart("Memory by stage", names, kinds, form=_gigabytes, limit=prediction.memory_limit),
    ]  # fmt: skip


def plans_charts(result: PlanResult) -> list[Markup]:
    """The Pareto front of memory against time, then the charts of the first plan."""
    front = [
        Point(
            x=point.step_time, y=point.memory, is_marked=index == 0,
            label=f"{_seconds(point.step_time)}, {_gigabytes(point.memory)}: {layout(point.plan)}",
        )
        for index, point in enumerate(result.pareto)
    ]  # fmt: skip
    titles = ("seconds of a step", "memory")
    charts = prediction_charts(result.ranked[0].prediction)
    if len(front) < 2:
        return charts
    return [point_chart("Pareto front: memory against time", front, titles, (_seconds, _gigabytes)), *charts]


def _stage_name(first: int, count: int) -> str:
    return f"stage {first}" if count == 1 else f"{first} to {first + count - 1}"
