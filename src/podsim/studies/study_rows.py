"""The row of a study for one plan, or for the best one: what `plan` and `predict` say, with days, money and energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

from podsim.answers.prediction import Prediction
from podsim.answers.study import FITS, NO_ANSWER, NO_FIT, StudyRow
from podsim.bugs import bug_line
from podsim.errors import NoFitError, PodsimError
from podsim.fleet.power_cost import with_expense
from podsim.hardware.cluster import load_cluster
from podsim.options.plan_options import PredictOptions, TargetOptions
from podsim.runs.plan_target import plan_target
from podsim.training.job_inputs import split_overrides
from podsim.training.plan import read_plan
from podsim.training.predict import predict_ahead

Ask: TypeAlias = Callable[..., Any]


def study_row(question: str, settings: Mapping[str, Any], ask: Ask) -> StudyRow:
    """The row of one design: the best plan, one plan, the network that learns most in some days, or a benchmark.

    `ask(name, **options)` asks a public function of podsim. The status says why there is no answer: a mistake, or a
    bug, of one design leaves the others alone.
    """
    row = StudyRow(name="", question=question, settings=settings, status=NO_ANSWER)
    try:
        return _ANSWERED[question](row, options_of_settings(settings), ask)
    except NoFitError as error:
        return replace(row, status=NO_FIT, reason=str(error))
    except PodsimError as error:
        return replace(row, reason=str(error))
    except Exception as error:
        return replace(row, reason=bug_line(error))


def look_ahead(questions: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Compute the plans that designs ask `predict` of, all together; what is wrong with one is said by its row."""
    asked = []
    for question, settings in questions:
        if question == "predict" and "plan" not in settings:
            with suppress(Exception):
                setting = read_plan(PredictOptions(**options_of_settings(settings)))
                if not setting.cluster.gpu.streams_weights:
                    asked.append((setting.model, setting.cluster, setting.plan))
    with suppress(Exception):
        predict_ahead(asked)


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
    row = replace(
        row, status=FITS if prediction.fits else NO_FIT, reason="" if prediction.fits else need,
        model=prediction.model, cluster=prediction.cluster, gpus=prediction.gpus, plan=prediction.plan,
        step_time=prediction.step_time, band_low=band.low if band else None, band_high=band.high if band else None,
        measured=band.rows if band else 0,
        tokens_per_second=prediction.tokens_per_second, mfu=prediction.mfu, memory=prediction.memory,
        memory_limit=prediction.memory_limit, bottleneck=prediction.bottleneck,
    )  # fmt: skip
    if run is not None:
        row = replace(row, tokens=run.tokens, training=run.expected, work=run.seconds)
    if run is None or expense is None:
        return row
    row = replace(row, energy=expense.energy, carbon=expense.carbon, power=expense.power)
    if expense.offer is None:
        return row
    return replace(row, price=expense.offer.words, cost=expense.low, cost_high=expense.high)


_ANSWERED: Mapping[str, Callable[[StudyRow, dict[str, Any], Ask], StudyRow]] = {
    "plan": _planned, "predict": _predicted, "scale": _learned, "target": _to_target,
}  # fmt: skip
"""What answers each question of a study but `fewest`."""
