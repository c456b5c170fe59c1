"""Measured servers under a load, at a rate and request by request: tables of canonical rows against predictions.

The columns are those of docs/measured-rows.md; a table has one comparison for each quantity that its rows measured.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

from podsim.accuracy.score import assess
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.answers.quantiles import quantile
from podsim.errors import PodsimError, TableError
from podsim.foreign_files import csv_table
from podsim.serving.load_bands import band_of
from podsim.serving.served_loads import Row, ServedLoad, serve_row
from podsim.serving.served_streams import serve_rate, serve_requests

LOADS = "serving-load"
"""The name of the packaged rows under a load in `podsim validate --table`."""
_KINDS = (
    (LOADS, {"concurrency", "input_tokens", "first_token_s_median"}),
    ("serving-rate", {"rate_per_s", "question_tokens", "output_tokens"}),
    ("served-requests", {"arrival_s", "scheduled_s", "last_token_s"}),
)
"""kinds of tables, and the columns by which each is known"""
_MEASURED = {
    "each_token": ("seconds", "time per output token"),
    "first_token": ("seconds", "time to the first token"),
    "tokens": ("tokens/s per GPU", "tokens of prompts and answers per second and GPU"),
    "between_tokens": ("seconds", "time between tokens"),
    "end_to_end": ("seconds", "time end to end"),
}
"""measure -> its quantity and words"""
_COLUMNS: Mapping[str, tuple[tuple[str, Callable[[ServedLoad], float]], ...]] = {
    "each_token": (
        ("each_token_s_median", lambda run: float(np.median(run.each))),
        ("each_token_s_mean", lambda run: float(run.each.mean())),
    ),
    "first_token": (
        ("first_token_s_median", lambda run: float(np.median(run.first))),
        ("first_token_s_mean", lambda run: float(run.first.mean())),
    ),
    "tokens": (
        ("total_tokens_per_s_per_gpu", lambda run: (run.input_tokens + run.output_tokens) / run.seconds / run.gpus),
        ("output_tokens_per_s_per_gpu", lambda run: run.output_tokens / run.seconds / run.gpus),
        ("output_tokens_per_s_per_decode_gpu", lambda run: run.output_tokens / run.seconds / run.decode_gpus),
    ),
    "between_tokens": (("between_tokens_s_mean", lambda run: run.mean_gap),),
    "end_to_end": (
        ("end_to_end_s_median", lambda run: float(np.median(run.whole))),
        ("end_to_end_s_mean", lambda run: float(run.whole.mean())),
    ),
}  # fmt: skip
"""measure -> its columns, of which the first that a row states counts"""
_CLASSES = ("engine", "gpu", "model", "precision", "mode", "draft")
_MOST_ROWS = 20_000


def load_kind(start: str) -> str:
    """The kind of a table that begins so; "" for one of another."""
    header = {cell.strip() for cell in start.lstrip("\ufeff").partition("\n")[0].split(",")}
    return next((kind for kind, columns in _KINDS if columns <= header), "")


def packaged_loads() -> tuple[Comparison, ...]:
    """The packaged rows under a load against predictions, by quantity."""
    data = files("podsim.serving").joinpath("measured_loads.csv.gz").read_bytes()
    return compare_loads(gzip.decompress(data).decode("utf-8"), LOADS)


def compare_loads(text: str, name: str) -> tuple[Comparison, ...]:
    """Comparisons of the rows of a CSV, one for each quantity that they measured; TableError for no such rows."""
    kind = load_kind(text.partition("\n")[0])
    rows = _named(csv_table(text, name=name, error=TableError)[1], name)
    if len(rows) > _MOST_ROWS:
        raise TableError(
            f"{name}: more than {_MOST_ROWS:,} rows, each of which is simulated; divide the table"
        )
    if kind == "served-requests":
        return _compare_requests(rows, name)
    simulate = serve_row if kind == LOADS else serve_rate
    runs: dict[str, ServedLoad] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        try:
            if row.get("reason"):
                raise TableError(row["reason"])
            runs[row["id"]] = simulate(row)
        except PodsimError as problem:
            reasons[row["id"]] = " ".join(str(problem).split())
    made = [_comparison(rows, runs, reasons, measure, name) for measure in _COLUMNS]
    return tuple(comparison for comparison in made if comparison.rows or comparison.not_expressed)


def _named(table: Iterable[Mapping[str, str]], name: str) -> list[dict[str, str]]:
    """The rows with an id each, and a role."""
    rows, seen = [], set()
    for number, cells in enumerate(table, 2):
        id = cells.get("id") or f"{name}-{number:04d}"
        id = f"{id} (line {number})" if id in seen else id
        seen.add(id)
        rows.append({**cells, "id": id, "role": cells.get("role") or "test"})
    return rows


def _comparison(
    rows: Sequence[Row], runs: Mapping[str, ServedLoad], reasons: Mapping[str, str], measure: str, name: str
) -> Comparison:
    """One quantity of the rows that measured it; rows without a prediction are listed with the first quantity."""
    what, words = _MEASURED[measure]
    compared = []
    for row in rows:
        column, figure = next(
            ((column, figure) for column, figure in _COLUMNS[measure] if row.get(column)), ("", None)
        )
        run = runs.get(row["id"])
        if figure is None or run is None:
            continue
        predicted = figure(run)
        low, high = band_of(row, measure)
        compared.append(
            ComparedRow(
                id=row["id"], role=row["role"], table=f"{name}-{measure.replace('_', '-')}", predicted=predicted,
                measured=_positive(row, column), group=", ".join(row[key] for key in _CLASSES if row.get(key)),
                low=predicted * low if low else None, high=predicted * high if high else None, note=run.note,
            )
        )  # fmt: skip
    missing = tuple(reasons.items()) if measure == next(iter(_COLUMNS)) else ()
    roles = {row["id"]: row["role"] for row in rows}
    return assess(
        Comparison(
            table=f"{name}-{measure.replace('_', '-')}", title=f"Language models served under a load: {words}", what=what,
            rows=tuple(compared), not_expressed=missing, left_out={id: (roles[id], None) for id, _ in missing},
            sources=tuple(dict.fromkeys(row["source"] for row in rows if row.get("source"))),
        )
    )  # fmt: skip


def _positive(row: Row, column: str) -> float:
    """A measurement in SI; TableError for one that is no positive number."""
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise TableError(f"row {row['id']}: {column}={row[column][:40]!r} is no positive number")
    return value


_OF_A_SERVER = ("model", "gpu", "engine", "engine_version", "precision", "tp", "dp", "experts", "max_sequences",
                "max_batched_tokens")  # fmt: skip
"""columns that tell servers apart whose requests are listed one by one"""


def _compare_requests(rows: Sequence[Row], name: str) -> tuple[Comparison, ...]:
    """Means and 90th percentiles of the requests of each server."""
    servers: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        servers.setdefault(tuple(row.get(column, "") for column in _OF_A_SERVER), []).append(row)
    compared: list[ComparedRow] = []
    reasons: list[tuple[str, str]] = []
    for server, requests in servers.items():
        label = ", ".join(filter(None, server[:5]))
        try:
            run = serve_requests(requests)
        except PodsimError as problem:
            reasons.append((label, " ".join(str(problem).split())))
            continue
        first, last, arrival, tokens = (
            np.array([_positive_or_zero(row, column) for row in requests])
            for column in ("first_token_s", "last_token_s", "arrival_s", "output_tokens")
        )
        figures = (
            ("first token", first - arrival, run.first),
            ("each token", (last - first) / np.maximum(tokens - 1, 1), run.each),
        )
        for words, measured, predicted in figures:
            for statistic, of in (("mean", np.mean), ("p90", lambda values: quantile(values, 0.9))):
                compared.append(
                    ComparedRow(
                        id=f"{label}: {words}, {statistic}", role=requests[0]["role"], table=name,
                        predicted=float(of(predicted)), measured=float(of(measured)), group=f"{words}, {statistic}",
                    )
                )  # fmt: skip
    return (
        assess(
            Comparison(
                table=name, title="Language models served: requests one by one", what="seconds", rows=tuple(compared),
                not_expressed=tuple(reasons), left_out={label: ("test", None) for label, _ in reasons},
                sources=tuple(dict.fromkeys(row["source"] for row in rows if row.get("source"))),
            )
        ),
    )  # fmt: skip


def _positive_or_zero(row: Row, column: str) -> float:
    return 0.0 if row.get(column, "") in ("0", "0.0", "0.000000") else _positive(row, column)


def read_loads(path: Path, text: str) -> tuple[Comparison, ...]:
    """A user's rows against predictions."""
    return compare_loads(text, path.stem)
