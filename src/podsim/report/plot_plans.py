"""Plans in charts: parts of the step, memory by stage, memory against time, minutes to a target."""

from __future__ import annotations

from markupsafe import Markup

from podsim.answers.minutes import MinutesTable, TargetPlan
from podsim.answers.prediction import PARTS, PlanResult, Prediction
from podsim.report.chart_marks import INK, MUTED, Axis, Band, Bars, Boxes, Chart, Mark, Rule, Series, Sheet
from podsim.report.charts import page_chart
from podsim.report.columns import quantity_text
from podsim.report.predictions import layout
from podsim.units import format_quantity

_LEAST = 0.002
"""share of the step below which a part is left out"""


def prediction_figure(prediction: Prediction) -> Sheet:
    """Left the parts of the step, the longest first, right the memory of each stage by kind."""
    title = f"{prediction.model} on {prediction.cluster}: {format_quantity(prediction.step_time, 's')} a step"
    return Sheet(title, [_parts(prediction), _memory(prediction)], size=(10.4, 4.2), columns=2)


def _parts(prediction: Prediction) -> Chart:
    parts = [
        (PARTS.get(name, name).partition(" (")[0], seconds)
        for name, seconds in sorted(prediction.parts.items(), key=lambda part: -part[1])
        if seconds > _LEAST * prediction.step_time
    ]
    seconds = [part[1] for part in parts]
    texts = [
        f"{format_quantity(value, 's', digits=3)}, {value / prediction.step_time:.0%}" for value in seconds
    ]
    names = Axis(names=[name for name, _ in parts], is_reversed=True)
    along = Axis(low=0.0, high=1.4 * max(seconds, default=1.0), is_bare=True)
    return Chart([Bars(seconds, texts=texts)], "Where the step goes", along, names)


def _memory(prediction: Prediction) -> Chart:
    """A bar of kinds of memory for each class of stages, and the GPU's memory."""
    stages, limit = prediction.stages, prediction.memory_limit / 1e9
    marks, starts = list[Mark](), [0.0] * len(stages)
    kinds = [name for name in prediction.memory_kinds if any(stage.kinds[name] > 0 for stage in stages)]
    for number, name in enumerate(kinds):
        sizes = [stage.kinds[name] / 1e9 for stage in stages]
        marks.append(Bars(sizes, name, number, starts))
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    marks.append(Rule(limit, f"a GPU: {limit:.1f} GB", INK))
    names = [
        f"stage {stage.first}" if stage.count == 1 else f"{stage.first} to {stage.first + stage.count - 1}"
        for stage in stages
    ]
    along, up = Axis(text="{:.3g} GB".format, low=0.0), Axis(names=names, is_reversed=True)
    return Chart(marks, "Memory by stage", along, up, legend="right")


def prediction_charts(prediction: Prediction) -> list[Markup]:
    """The same charts on a page."""
    return [page_chart(chart) for chart in prediction_figure(prediction).charts]


def plans_figure(result: PlanResult) -> Sheet:
    """The front of memory against time, and the ranked plans."""
    marks = list[Mark]()
    if result.pareto:
        times, sizes = [p.step_time for p in result.pareto], [p.memory / 1e9 for p in result.pareto]
        label = f"front: {len(times)} of {result.fitting:,} plans that fit"
        notes = [
            f"{quantity_text(p.step_time, 's')}, {p.memory / 1e9:.3g} GB: {layout(p.plan)}"
            for p in result.pareto
        ]
        marks.append(Series(times, sizes, label, MUTED, mark="o", size=3, width=1.1, notes=notes))
    for ranked in result.ranked:
        plan, point = ranked.prediction.plan, ranked.prediction
        degrees = " ".join(f"{name}={plan[name]}" for name in ("tp", "pp", "dp"))
        label = f"{ranked.rank}: {degrees}"
        marks.append(Series([point.step_time], [point.memory / 1e9], label, ranked.rank - 1, "", "o", size=6))
    along = Axis("time of a step", "log", lambda value: quantity_text(value, "s"))
    chart = Chart(
        marks,
        "Pareto front: memory against time",
        along,
        Axis("memory of the fullest stage, GB"),
        legend="right",
    )
    return Sheet(f"{result.model} on {result.cluster}", [chart], size=(7.8, 4.2))


def plans_charts(result: PlanResult) -> list[Markup]:
    """The front of a page, then the charts of the first plan."""
    front = plans_figure(result).charts if len(result.pareto) > 1 else []
    return [*map(page_chart, front), *prediction_charts(result.ranked[0].prediction)]


def minutes_figure(table: MinutesTable) -> Sheet:
    """Predicted and published minutes of each benchmark, from a lucky to an unlucky run."""
    rows = [(row.title, row.run, row.published) for row in table.rows if row.run]
    heights = range(len(rows))
    ranges = [
        (run.seconds_low / 60, run.seconds_high / 60, at - 0.07, at + 0.07)
        for at, (_, run, _) in enumerate(rows)
    ]
    published = [(seconds / 60, at) for at, (_, _, seconds) in enumerate(rows) if seconds]
    marks: list[Mark] = [
        Boxes(ranges, opacity=0.3),
        Series([run.seconds / 60 for _, run, _ in rows], heights, "predicted", 0, "", "o", size=6),
        Series(
            [x for x, _ in published],
            [y for _, y in published],
            "published",
            1,
            "",
            "D",
            is_hollow=True,
            size=6,
        ),
    ]
    names = Axis(names=[f"{title}, {run.gpus:,} GPUs" for title, run, _ in rows], is_reversed=True)
    chart = Chart(marks, x=Axis("minutes", "log"), y=names, legend="above", legend_columns=2)
    title = f"MLPerf Training {table.round} on {table.cluster}: minutes to the target"
    return Sheet(title, [chart], size=(7.6, 1.6 + 0.34 * len(rows)))


def target_figure(plan: TargetPlan) -> Sheet:
    """Minutes against GPUs on logarithmic axes, with its band, ideal scaling, and the best choice."""
    runs = [choice.run for choice in plan.choices]
    gpus, minutes = [run.gpus for run in runs], [run.seconds / 60 for run in runs]
    low, high = ([getattr(run, name) / 60 for run in runs] for name in ("seconds_low", "seconds_high"))
    ideal = [minutes[0] * gpus[0] / count for count in gpus]
    marks: list[Mark] = [
        Series(gpus, ideal, "ideal", MUTED, "--", width=1.2),
        Band(gpus, low, high, "8 of 10 runs"),
        Series(gpus, minutes, "predicted", mark="o", size=4, labels=[f"{run.batch:,.0f}" for run in runs]),
    ]
    for colour, (choice, name) in enumerate(((plan.best, "best"), (plan.end, "strong scaling ends")), 1):
        at, time, label = choice.run.gpus, choice.run.seconds / 60, f"{name}: {choice.run.gpus:,} GPUs"
        marks.append(Series([at], [time], label, colour, "", "o", is_hollow=True, size=9))
    along = Axis("GPUs; labels are batches", "log2", "{:,.0f}".format, ticks=gpus)
    chart = Chart(marks, x=along, y=Axis("minutes to the target", "log"), legend="upper right")
    return Sheet(f"{plan.title} to {plan.target} on {plan.cluster}", [chart], size=(7.6, 4.6))
