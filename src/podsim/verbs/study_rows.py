"""The row of a study for one plan, or for the best one: what `plan` and `predict` say, with days, money and energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.results.expense import Expense
from podsim.results.prediction import Prediction
from podsim.results.study import FITS, NO_ANSWER, NO_FIT, StudyRow
from podsim.storage.long_runs import read_tokens
from podsim.training.job_inputs import split_overrides
from podsim.verbs.plan import plan
from podsim.verbs.power import expense_of
from podsim.verbs.predict import predict
from podsim.verbs.whole_run import TOKENS_PER_PARAMETER, usual_price
from podsim.workload.catalog import load_model


def plan_row(settings: Mapping[str, Any]) -> StudyRow:
    """The row of the best plan; its status says why there is none."""
    return _row("plan", settings, _planned)


def predict_row(settings: Mapping[str, Any]) -> StudyRow:
    """The row of one plan."""
    return _row("predict", settings, _predicted)


def options_of_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a question: set.KEY and limit.KEY become their tables, tokens their default."""
    options: dict[str, Any] = {}
    for key, value in settings.items():
        head, dot, rest = key.partition(".")
        if dot:
            table = options.setdefault("overrides" if head == "set" else head, {})
            table[rest] = value if head == "limit" else _text(value)
        else:
            options[key] = value
    if "tokens" not in options:
        for_model, _ = split_overrides(options.get("overrides"))
        options["tokens"] = float(TOKENS_PER_PARAMETER) * load_model(options["model"], for_model).parameters
    return options


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _row(question: str, settings: Mapping[str, Any], ask: Any) -> StudyRow:
    """The row of an answer; a mistake, or a bug, of one design leaves the others alone."""
    row = StudyRow(name="", question=question, settings=settings, status=NO_ANSWER)
    try:
        return ask(row, options_of_settings(settings))  # type: ignore[no-any-return]
    except NoFitError as error:
        return replace(row, status=NO_FIT, reason=str(error))
    except PodsimError as error:
        return replace(row, reason=str(error))
    except Exception as error:
        return replace(row, reason=f"a bug in podsim: {type(error).__name__}: {str(error)[:200]}")


def _planned(row: StudyRow, options: dict[str, Any]) -> StudyRow:
    site = {name: options.pop(name, None) for name in ("price", "pue", "carbon")}
    if options.get("objective") in ("cost", "energy"):
        options |= {name: site[name] for name in ("price", "pue") if site[name] is not None}
    tokens = read_tokens(options["tokens"])
    prediction = plan(**options, top=1).ranked[0].prediction
    return _filled(row, prediction, _expense(prediction, options, site, tokens))


def _predicted(row: StudyRow, options: dict[str, Any]) -> StudyRow:
    site = {name: options.pop(name, None) for name in ("price", "pue", "carbon")}
    prediction = predict(**options)
    return _filled(row, prediction, _expense(prediction, options, site, read_tokens(options["tokens"])))


def _expense(
    prediction: Prediction, options: Mapping[str, Any], site: Mapping[str, Any], tokens: float
) -> Expense:
    """The energy and money of the run with failures."""
    _, for_cluster = split_overrides(options.get("overrides"))
    part = load_cluster(options["on"], for_cluster, prediction.gpus)
    price = site["price"] or usual_price(part)
    return expense_of(
        prediction, part, price=str(price), tokens=tokens, pue=site["pue"], carbon=site["carbon"]
    )


def _filled(row: StudyRow, prediction: Prediction, expense: Expense) -> StudyRow:
    """The row with the figures of a prediction; money and energy count the days with failures."""
    band, run, offer = prediction.band, prediction.training, expense.offer
    need = f"needs {prediction.memory / 1e9:.1f} of {prediction.memory_limit / 1e9:.1f} GB"
    return replace(
        row, status=FITS if prediction.fits else NO_FIT, reason="" if prediction.fits else need,
        model=prediction.model, cluster=prediction.cluster, gpus=prediction.gpus, plan=prediction.plan,
        step_time=prediction.step_time, band_low=band.low if band else None, band_high=band.high if band else None,
        tokens_per_second=prediction.tokens_per_second, mfu=prediction.mfu, memory=prediction.memory,
        memory_limit=prediction.memory_limit, bottleneck=prediction.bottleneck, tokens=expense.tokens,
        training=run.expected if run else None, work=run.seconds if run else None,
        price=offer.name if offer else "", cost=expense.low if offer and run else None,
        cost_high=expense.high if offer and run else None,
        energy=expense.energy if run else None, carbon=expense.carbon if run else None,
        power=expense.power,
    )  # fmt: skip
