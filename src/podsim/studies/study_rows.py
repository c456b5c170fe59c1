"""The row of a study for one plan, or for the best one: what `plan` and `predict` say, with days, money and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from podsim.accuracy.measured_reach import stated_band
from podsim.answers.prediction import Prediction
from podsim.answers.study import FITS, NO_ANSWER, NO_FIT, StudyRow
from podsim.bugs import bug_line
from podsim.errors import NoFitError, PodsimError
from podsim.fleet.power_cost import with_expense
from podsim.hardware.cluster import load_cluster
from podsim.options.plan_options import PlanOptions, PredictOptions, TargetOptions
from podsim.options.question import options_of
from podsim.runs.plan_target import plan_target
from podsim.storage.long_runs import read_length, with_run
from podsim.training.job_inputs import split_overrides
from podsim.training.plan import Setting, read_plans
from podsim.training.predict import predict_plans
from podsim.units import has_magnitude

Ask: TypeAlias = Callable[..., Any]


def study_row(question: str, settings: Mapping[str, Any], ask: Ask) -> StudyRow:
    """The row of one design: the best plan, one plan, the network that learns most in some days, or a benchmark.

    `ask(name, **options)` asks a public function of podsim. The status says why there is no answer: a mistake, or a
    bug, of one design leaves the others alone.
    """
    return _answered(
        question, settings, lambda row: _ANSWERED[question](row, options_of_settings(settings), ask)
    )


def predicted_rows(designs: Sequence[Mapping[str, Any]]) -> list[StudyRow | None]:
    """The rows of designs that `predict` is asked, all together; None for one that needs more than the law of its plan.

    A row is that of `study_row`: what a prediction says beyond a row (gains, warnings, the nearest run) is left out.
    """
    rows: list[StudyRow | None] = [None] * len(designs)
    options = {at: PredictOptions(**options_of_settings(s)) for at, s in enumerate(designs) if _is_plain(s)}
    settings: dict[int, Setting] = {}
    for at, setting in zip(options, read_plans([*options.values()]), strict=True):
        if isinstance(setting, PodsimError):
            rows[at] = _answered("predict", designs[at], partial(_raised, setting))
        elif not setting.cluster.gpu.streams_weights:
            settings[at] = setting
    predictions = predict_plans([setting[:3] for setting in settings.values()])
    for (at, setting), prediction in zip(settings.items(), predictions, strict=True):
        rows[at] = _answered("predict", designs[at], partial(_lasting, options[at], setting, prediction))
    return rows


def _raised(error: PodsimError, row: StudyRow) -> StudyRow:
    raise error


def _lasting(options: PredictOptions, setting: Setting, prediction: Prediction, row: StudyRow) -> StudyRow:
    """The row of a predicted plan, with its band, its days and its money."""
    model, cluster, plan, *_ = setting
    band, _ = stated_band(model, cluster, plan, prediction.step_time)
    length = read_length(options, model)
    lasting = with_run(replace(prediction, band=band), model, cluster, plan, length)
    return _with_figures(
        row, with_expense(lasting, cluster, price=str(options.price), pue=options.pue, carbon=options.carbon)
    )


def _is_plain(settings: Mapping[str, Any]) -> bool:
    """Whether a prediction is the law's, and its settings are numbers that laws can take."""
    return all(
        name.partition(".")[0] in _PLAIN and not (isinstance(value, float) and not has_magnitude(value))
        for name, value in settings.items()
    )


def _answered(question: str, settings: Mapping[str, Any], answer: Callable[[StudyRow], StudyRow]) -> StudyRow:
    """The row that an answer makes of an empty one, or the reason why there is none."""
    row = StudyRow(name="", question=question, settings=settings, status=NO_ANSWER)
    try:
        return answer(row)
    except NoFitError as error:
        return replace(row, status=NO_FIT, reason=str(error))
    except PodsimError as error:
        return replace(row, reason=str(error))
    except Exception as error:
        return replace(row, reason=bug_line(error))


def options_of_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a question: set.KEY and limit.KEY become their tables."""
    options: dict[str, Any] = {}
    for key, value in settings.items():
        head, dot, rest = key.partition(".")
        if dot:
            table = options.setdefault("overrides" if head == "set" else head, {})
            table[rest] = value if head == "limit" else _text(value)
        else:
            options[key] = value
    return options


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _planned(row: StudyRow, options: dict[str, Any], ask: Ask) -> StudyRow:
    carbon = options.pop("carbon", None)
    prediction: Prediction = ask("plan", **options, top=1).ranked[0].prediction
    run, expense = prediction.training, prediction.expense
    if carbon is not None or (run and (expense is None or expense.tokens != run.tokens)):  # that of a step
        _, for_cluster = split_overrides(options.get("overrides"))
        part = load_cluster(options["on"], for_cluster, prediction.gpus)
        price = str(options.get("price", ""))
        prediction = with_expense(prediction, part, price=price, pue=options.get("pue"), carbon=carbon)
    return _with_figures(row, prediction)


def _predicted(row: StudyRow, options: dict[str, Any], ask: Ask) -> StudyRow:
    return _with_figures(row, ask("predict", **options))


def _to_target(row: StudyRow, options: dict[str, Any], _: Ask) -> StudyRow:
    answer = plan_target(
        TargetOptions(**{**options, "price": str(options.get("price", "")), "to_target": True})
    )
    run = answer.best.run
    return replace(
        row, status=FITS, model=answer.title, cluster=answer.cluster, gpus=run.gpus, plan={"batch": run.batch},
        step_time=run.training / run.steps, training=run.seconds, work=run.seconds, price=answer.price,
        cost=answer.best.usd, cost_high=answer.best.usd,
        bottleneck=answer.why,
    )  # fmt: skip


def _learned(row: StudyRow, options: dict[str, Any], ask: Ask) -> StudyRow:
    answer = ask("scale_best", **options)
    return replace(_with_figures(row, answer.prediction), loss=answer.loss)


def _with_figures(row: StudyRow, prediction: Prediction) -> StudyRow:
    """The row with the figures of a prediction; money and energy count the days with failures."""
    band, run, expense = prediction.band, prediction.training, prediction.expense
    need = f"needs {prediction.memory / 1e9:.1f} of {prediction.memory_limit / 1e9:.1f} GB"
    figures: dict[str, Any] = {
        "status": FITS if prediction.fits else NO_FIT, "reason": "" if prediction.fits else need,
        "band_low": band.low if band else None, "band_high": band.high if band else None,
        "measured": band.rows if band else 0, **{name: getattr(prediction, name) for name in _PREDICTED},
    }  # fmt: skip
    if run is not None:
        figures |= {"tokens": run.tokens, "training": run.expected, "work": run.seconds}
    if run is not None and expense is not None:
        figures |= {"energy": expense.energy, "carbon": expense.carbon, "power": expense.power}
        if expense.offer is not None:
            figures |= {"price": expense.offer.words, "cost": expense.low, "cost_high": expense.high}
    return replace(row, **figures)


_PREDICTED = (
    "model", "cluster", "gpus", "plan", "step_time", "tokens_per_second", "mfu", "memory", "memory_limit", "bottleneck",
)  # fmt: skip
"""figures of a row that a prediction has by the same name"""
_ANSWERED: Mapping[str, Callable[[StudyRow, dict[str, Any], Ask], StudyRow]] = {
    "plan": _planned, "predict": _predicted, "scale": _learned, "target": _to_target,
}  # fmt: skip
"""What answers each question of a study but `fewest`."""
_PLAIN = {*options_of(PlanOptions), "set", "tokens", "days", "price", "pue", "carbon"}
"""settings of designs that are predicted together"""
