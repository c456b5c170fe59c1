"""Constants of servers under a load, and their bands: python -m reference.fit_serving host ENGINE | bands | choice.

    host ENGINE   host time of an engine's entry (step, request, launch, front), by descent over factors
    choice        how often the layout that podsim would choose is within 10 % of the best measured, and the mean loss
    bands         80 % bands of figures over their prediction, where a model and where a GPU is left out

Rows with the role calibrate are fitted; the test rows, and each model and GPU left out, stand beside them. Nothing is
written: constants are copied to serving/language_engines.toml, and bands to serving/load_bands.toml, by hand.
"""

from __future__ import annotations

import argparse
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from podsim.answers.comparison import ComparedRow, Comparison
from podsim.answers.quantiles import quantile
from podsim.errors import PodsimError, TableError
from podsim.foreign_files import csv_table
from podsim.serving import served_loads, step_laws
from podsim.serving.language_engines import LanguageEngine, load_language_engine
from podsim.serving.load import load_layout
from podsim.serving.load_rows import packaged_loads
from podsim.serving.served_loads import Row, serve_row

_HOST = ("step", "request", "launch", "front")
_FACTORS = (0.5, 0.7, 1.4, 2.0)
_ROWS = 70
_COVERED = 0.8
_FIRST = 0.35
"""weight of the first token beside that of a token"""
_MODULES: tuple[Any, ...] = (served_loads, step_laws, load_layout)
"""modules that load engines"""


def loads() -> list[Row]:
    """The packaged rows."""
    data = files("podsim.serving").joinpath("measured_loads.csv.gz").read_bytes()
    return list(csv_table(gzip.decompress(data).decode("utf-8"), name="measured loads", error=TableError)[1])


def errors(rows: Iterable[Row]) -> np.ndarray[Any, Any]:
    """ln(predicted / measured) of the time per token and of the first token, shape (rows, 2); NaN where there is none."""
    made = []
    for row in rows:
        try:
            run = serve_row(row)
        except PodsimError:
            made.append((np.nan, np.nan))
            continue
        made.append(
            tuple(
                _log_error(row, name, values)
                for name, values in (("each", run.each_token), ("first", run.first_token))
            )
        )
    return np.array(made)


def _log_error(row: Row, name: str, values: np.ndarray[Any, Any]) -> float:
    for statistic, of in (("median", np.median), ("mean", np.mean)):
        if cell := row.get(f"{name}_token_s_{statistic}"):
            return float(np.log(of(values) / float(cell)))
    return np.nan


def with_host(name: str, constants: Mapping[str, float]) -> Callable[[str, Any], LanguageEngine]:
    """A loader of engines that gives the entry of that name other constants."""

    def load(wanted: str, gpu: Any) -> LanguageEngine:
        engine = load_language_engine(wanted, gpu)
        return replace(engine, **constants) if engine.name == name else engine

    return load


def host_errors(name: str, constants: Mapping[str, float], rows: Sequence[Row]) -> np.ndarray[Any, Any]:
    """The errors of rows with other constants of an entry."""
    served_loads._cached_kind.cache_clear()
    for module in _MODULES:
        module.load_language_engine = with_host(name, constants)
    return errors(rows)


def fit_host(name: str) -> None:
    """Print the constants of an entry that fit its calibrate rows, with the errors of them and of the test rows."""
    mine = [
        row for row in loads() if row["mode"] == "aggregated" and not row["draft"] and _entry(row) == name
    ]
    fitted = [row for row in mine if row["role"] == "calibrate"]
    rows = fitted[:: max(1, len(fitted) // _ROWS)]
    gpu = served_loads.cluster_of(rows[0]["gpu"], 1).gpu
    constants = {key: float(getattr(load_language_engine(name, gpu), key)) for key in _HOST}
    best = _loss(host_errors(name, constants, rows))
    for key in _HOST * 2:
        for factor in _FACTORS:
            tried = {**constants, key: constants[key] * factor}
            if (loss := _loss(host_errors(name, tried, rows))) < best - 1e-4:
                best, constants = loss, tried
    print(name, {key: f"{value:.3g}" for key, value in constants.items()})
    for role in ("calibrate", "test"):
        chosen = [row for row in mine if row["role"] == role]
        sizes = np.abs(np.expm1(host_errors(name, constants, chosen)))
        print(
            f"{role:10} {len(chosen):5} rows, each and first token, median {np.nanmedian(sizes, axis=0).round(3)}"
        )


def _entry(row: Row) -> str:
    release = served_loads.release_of(row["engine"], row["engine_version"])
    return load_language_engine(release, served_loads.cluster_of(row["gpu"], 1).gpu).name


def _loss(sizes: np.ndarray[Any, Any]) -> float:
    sizes = np.nanmean(np.minimum(np.abs(sizes), 1.0), axis=0)
    return float(sizes[0] + _FIRST * sizes[1])


def print_bands(comparisons: Sequence[Comparison]) -> None:
    """Print the 80 % bands as load_bands.toml has them, and how they hold on rows that they never saw."""
    rows = {row["id"]: row for row in loads()}
    for comparison in comparisons:
        classes: dict[str, list[ComparedRow]] = defaultdict(list)
        for compared in comparison.rows:
            row = rows[compared.id]
            classes[f"{row['mode']}-{'draft' if row['draft'] else 'plain'}"].append(compared)
        print(f"[{comparison.table.removeprefix('serving-load-').replace('-', '_')}]")
        for name, members in classes.items():
            fitted, others = ([row for row in members if row.role == role] for role in ("calibrate", "test"))
            low, high, held = band(fitted, rows)
            test = np.mean([_holds((low, high), row) for row in others])
            print(
                f"{name} = [{low:.2f}, {high:.2f}]  # {len(members)} rows; left out {held:.0%}, test {test:.0%}"
            )


def band(members: Sequence[ComparedRow], rows: Mapping[str, Row]) -> tuple[float, float, float]:
    """(low, high, share) of measured over predicted: the percentiles 10 and 90, widened until 80 % of the rows are
    in the band of all other models, and of all other GPUs. `share` is the lesser of what then is."""
    for factor in np.arange(1.0, 3.01, 0.05):
        shares = [1.0]
        for column in ("model", "gpu"):
            groups = {rows[row.id][column] for row in members}
            held: list[bool] = []
            for group in groups if len(groups) > 1 else ():
                left = [row for row in members if rows[row.id][column] != group]
                held += [_holds(_ends(left, factor), row) for row in members if rows[row.id][column] == group]
            shares += [float(np.mean(held))] if held else []
        share = min(shares)
        if share >= _COVERED:
            break
    return (*_ends(members, factor), share)


def _ends(members: Sequence[ComparedRow], factor: float) -> tuple[float, float]:
    logs = np.log([row.measured / row.predicted for row in members])
    low, middle, high = (quantile(logs, share) for share in (0.1, 0.5, 0.9))
    return float(np.exp(middle + factor * (low - middle))), float(np.exp(middle + factor * (high - middle)))


def _holds(ends: tuple[float, float], row: ComparedRow) -> bool:
    return ends[0] <= row.measured / row.predicted <= ends[1]


_LAYOUT = ("engine", "precision", "draft", "mode", "attention_tp", "attention_dp", "experts_tp", "ep", "workers",
           "prefill_attention_tp", "prefill_attention_dp", "prefill_workers")  # fmt: skip
_GROUP = ("model", "gpu", "input_tokens", "output_tokens")
_SPEEDS = (0.2, 0.35, 0.5, 0.65, 0.8)
"""quantiles of the measured speeds of users at which layouts compete"""


def print_choice() -> None:
    """Print, for groups of at least five layouts, how near podsim's best comes to the best measured tokens/s per GPU."""
    groups: dict[tuple[str, ...], dict[tuple[str, ...], list[tuple[Point, Point]]]] = defaultdict(dict)
    for row in loads():
        layouts = groups[tuple(row[column] for column in _GROUP)]
        layouts.setdefault(tuple(row[column] for column in _LAYOUT), []).append(_points(row))
    near, losses = [], []
    for layouts in groups.values():
        if len(layouts) < 5:
            continue
        measured = [pair[0][0] for pairs in layouts.values() for pair in pairs]
        lost = [_loss_at(layouts, quantile(measured, share)) for share in _SPEEDS]
        known = [loss for loss in lost if loss is not None]
        if known:
            near.append(np.mean([loss <= 0.1 for loss in known]) > 0.5)
            losses.append(np.mean(known))
    print(
        f"{len(near)} groups; within 10 % at most speeds: {np.mean(near):.0%}; mean loss {np.mean(losses):.1%}"
    )


Point = tuple[float, float]
"""(tokens/s of a user, tokens/s of a GPU)"""


def _points(row: Row) -> tuple[Point, Point]:
    """The measured and the predicted point of a row; rates that a row does not give follow from its times."""
    run, made = serve_row(row), []
    length = (1 + float(row["shortest"])) / 2
    answer = int(row["output_tokens"]) * length
    tokens = int(row["input_tokens"]) * length + answer
    for name, values in (("each", run.each_token), ("first", run.first_token)):
        cells = (
            (row.get(f"{name}_token_s_{way}"), of) for way, of in (("median", np.median), ("mean", np.mean))
        )
        made.append(next((float(cell), float(of(values))) for cell, of in cells if cell))
    (each, mine), (first, my_first) = made
    if total := row.get("total_tokens_per_s_per_gpu"):
        return (1 / each, float(total)), (
            1 / mine,
            (run.input_tokens + run.output_tokens) / run.seconds / run.gpus,
        )
    work = int(row["concurrency"]) * tokens / run.gpus
    return (1 / each, work / (first + answer * each)), (1 / mine, work / (my_first + answer * mine))


def _loss_at(layouts: Mapping[tuple[str, ...], list[tuple[Point, Point]]], speed: float) -> float | None:
    """share. The measured tokens/s per GPU that podsim's best layout at a speed loses; None for fewer than three."""
    measured, predicted = (
        {
            name: rate
            for name, pairs in layouts.items()
            if (rate := _rate_at([pair[at] for pair in pairs], speed))
        }
        for at in (0, 1)
    )
    predicted = {name: rate for name, rate in predicted.items() if name in measured}
    if len(measured) < 3 or not predicted:
        return None
    return 1 - measured[max(predicted, key=lambda name: predicted[name])] / max(measured.values())


def _rate_at(points: list[Point], speed: float) -> float:
    """1/s. The most tokens of a GPU at a speed of users or more, between points in a line; 0 where none is as fast."""
    points = sorted(points)
    rates = [rate for user, rate in points if user >= speed]
    for (user, rate), (faster, other) in pairwise(points):
        if user < speed <= faster:
            rates.append(rate + (other - rate) * (speed - user) / (faster - user))
    return max(rates, default=0.0)


def main() -> None:
    """Print what is asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("host", "bands", "choice"))
    parser.add_argument("engine", nargs="?", default="vllm")
    given = parser.parse_args()
    if given.what == "host":
        fit_host(given.engine)
    elif given.what == "bands":
        print_bands(packaged_loads())
    else:
        print_choice()


if __name__ == "__main__":
    main()
