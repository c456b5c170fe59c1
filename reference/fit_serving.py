"""Constants of servers under a load, and their bands: python -m reference.fit_serving host ENGINE | bands.

    host ENGINE   host time of an engine's entry (step, request, launch, front), by descent over factors
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
                _log_error(row, name, values) for name, values in (("each", run.each_token), ("first", run.first_token))
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


def main() -> None:
    """Print what is asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("host", "bands"))
    parser.add_argument("engine", nargs="?", default="vllm")
    given = parser.parse_args()
    fit_host(given.engine) if given.what == "host" else print_bands(packaged_loads())


if __name__ == "__main__":
    main()
