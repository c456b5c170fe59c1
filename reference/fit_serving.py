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
                _log_error(row, name, values) for name, values in (("each", run.each), ("first", run.first))
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
        found = np.abs(np.expm1(host_errors(name, constants, chosen)))
        print(
            f"{role:10} {len(chosen):5} rows, each and first token, median {np.nanmedian(found, axis=0).round(3)}"
        )


def _entry(row: Row) -> str:
    release = served_loads.release_of(row["engine"], row["engine_version"])
    return load_language_engine(release, served_loads.cluster_of(row["gpu"], 1).gpu).name


def _loss(found: np.ndarray[Any, Any]) -> float:
    sizes = np.nanmean(np.minimum(np.abs(found), 1.0), axis=0)
    return float(sizes[0] + _FIRST * sizes[1])


def print_bands() -> None:
    """Print the 80 % bands of each measure and mode, and how they hold where a model or a GPU is left out."""
    rows = {row["id"]: row for row in loads()}
    for comparison in packaged_loads():
        classes: dict[str, list[ComparedRow]] = defaultdict(list)
        for compared in comparison.rows:
            row = rows[compared.id]
            classes[f"{row['mode']}-{'draft' if row['draft'] else 'plain'}"].append(compared)
        for name, members in classes.items():
            _print_band(comparison, name, members, rows)


def _print_band(
    comparison: Comparison, name: str, members: list[ComparedRow], rows: Mapping[str, Row]
) -> None:
    fitted = [row for row in members if row.role == "calibrate"]
    low, high = band(fitted, rows)
    holds = {}
    for column in ("model", "gpu"):
        inside = []
        for group in {rows[row.id][column] for row in members}:
            others = [row for row in fitted if rows[row.id][column] != group]
            if not others:
                continue
            ends = band(others, rows)
            inside += [
                ends[0] <= row.measured / row.predicted <= ends[1]
                for row in members
                if rows[row.id][column] == group
            ]
        holds[column] = f"{np.mean(inside):.0%}" if inside else "-"
    test = [low <= row.measured / row.predicted <= high for row in members if row.role == "test"]
    held = f"{np.mean(test):.0%}" if test else "-"
    ends = f"[{low:.2f}, {high:.2f}]; {len(members)} rows; holds: test {held}"
    print(f"{comparison.table}: {name} = {ends}, model left out {holds['model']}, GPU {holds['gpu']}")


def band(members: Sequence[ComparedRow], rows: Mapping[str, Row]) -> tuple[float, float]:
    """The 10th and 90th percentile of measured over predicted; each model on each GPU counts alike."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in members:
        groups[rows[row.id]["model"], rows[row.id]["gpu"]].append(row.measured / row.predicted)
    shares = np.linspace(0.05, 0.95, 19)
    pooled = np.array([quantile(values, share) for values in groups.values() for share in shares.tolist()])
    return quantile(pooled, 0.1), quantile(pooled, 0.9)


def main() -> None:
    """Print what is asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("host", "bands"))
    parser.add_argument("engine", nargs="?", default="vllm")
    given = parser.parse_args()
    fit_host(given.engine) if given.what == "host" else print_bands()


if __name__ == "__main__":
    main()
