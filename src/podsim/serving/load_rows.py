"""Measured servers under a load, at a rate and request by request: tables of canonical rows against predictions.

The columns are those of docs/measured-rows.md; a table has one comparison for each quantity that its rows measured.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files

import numpy as np

from podsim.accuracy.score import assess
from podsim.answers.comparison import BROKEN, ROLES, ComparedRow, Comparison
from podsim.answers.quantiles import quantile
from podsim.errors import PodsimError, TableError
from podsim.foreign_files import csv_table
from podsim.serving.load_bands import band_of
from podsim.serving.served_loads import Row, ServedLoad, row_number, serve_row
from podsim.serving.served_streams import arrivals, serve_rate, serve_requests

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
        ("each_token_s_median", lambda run: float(np.median(run.each_token))),
        ("each_token_s_mean", lambda run: float(run.each_token.mean())),
    ),
    "first_token": (
        ("first_token_s_median", lambda run: float(np.median(run.first_token))),
        ("first_token_s_mean", lambda run: float(run.first_token.mean())),
    ),
    "tokens": (
        ("total_tokens_per_s_per_gpu", lambda run: (run.input_tokens + run.output_tokens) / run.seconds / run.gpus),
        ("output_tokens_per_s_per_gpu", lambda run: run.output_tokens / run.seconds / run.gpus),
        ("output_tokens_per_s_per_decode_gpu", lambda run: run.output_tokens / run.seconds / run.decode_gpus),
    ),
    "between_tokens": (("between_tokens_s_mean", lambda run: run.mean_gap),),
    "end_to_end": (
        ("end_to_end_s_median", lambda run: float(np.median(run.end_to_end))),
        ("end_to_end_s_mean", lambda run: float(run.end_to_end.mean())),
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
            measured = [column for columns in _COLUMNS.values() for column, _ in columns if row.get(column)]
            if not measured:
                raise TableError("no figure of it was measured")
            for column in measured:
                row_number(row, column)
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
        role = cells.get("role", "")
        rows.append({**cells, "id": id, "role": role if role in (*ROLES, BROKEN) else "test"})
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
                measured=row_number(row, column), group=", ".join(row[key] for key in _CLASSES if row.get(key)),
                low=predicted * low if low else None, high=predicted * high if high else None,
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


_OF_A_SERVER = ("model", "gpu", "engine", "engine_version", "precision", "tp", "dp", "experts", "max_sequences",
                "max_batched_tokens")  # fmt: skip
"""columns that tell servers apart whose requests are listed one by one"""


def _compare_requests(rows: Sequence[Row], name: str) -> tuple[Comparison, ...]:
    """Means and 90th percentiles of each server's requests, then each request's first token and time per token."""
    servers: dict[tuple[str, ...], list[Row]] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        if problem := _request_problem(row):
            reasons[row["id"]] = problem
        else:
            servers.setdefault(tuple(row.get(column, "") for column in _OF_A_SERVER), []).append(row)
    of_servers: list[ComparedRow] = []
    alone: dict[str, list[ComparedRow]] = {"first token": [], "each token": []}
    for server, requests in servers.items():
        try:
            run = serve_requests(requests)
        except PodsimError as problem:
            reasons |= dict.fromkeys((row["id"] for row in requests), " ".join(str(problem).split()))
            continue
        label, arrival = ", ".join(filter(None, server[:5])), arrivals(requests)
        order = np.argsort(arrival, kind="stable")
        first, last, tokens = (
            np.array([row_number(row, column) for row in requests])
            for column in ("first_token_s", "last_token_s", "output_tokens")
        )
        figures = (
            ("first token", first - arrival, run.first_token),
            ("each token", (last - first) / np.maximum(tokens - 1, 1), run.each_token),
        )
        for words, measured, predicted in figures:
            for statistic, of in (("mean", np.mean), ("p90", lambda values: quantile(values, 0.9))):
                values = (float(of(predicted)), float(of(measured)))
                of_servers.append(
                    _compared(
                        f"{label}: {words}, {statistic}", requests[0], name, values, f"{words}, {statistic}"
                    )
                )
            for at, value in zip(order.tolist(), predicted.tolist(), strict=True):
                if measured[at] > 0 and value > 0:
                    pair = (value, float(measured[at]))
                    alone[words].append(
                        _compared(
                            requests[at]["id"], requests[at], f"{name}-{words.replace(' ', '-')}", pair, label
                        )
                    )
    title = "Language models served: requests one by one"
    return (
        _requests_comparison(rows, name, f"{title}, by server", of_servers, reasons),
        *(
            _requests_comparison(rows, f"{name}-{words.replace(' ', '-')}", f"{title}, {words}", made, {})
            for words, made in alone.items()
        ),
    )


def _compared(id: str, row: Row, table: str, values: tuple[float, float], group: str) -> ComparedRow:
    return ComparedRow(
        id=id, role=row["role"], table=table, predicted=values[0], measured=values[1], group=group
    )  # fmt: skip


def _requests_comparison(
    rows: Sequence[Row], name: str, title: str, made: list[ComparedRow], reasons: Mapping[str, str]
) -> Comparison:
    return assess(
        Comparison(
            table=name, title=title, what="seconds", rows=tuple(made), not_expressed=tuple(reasons.items()),
            left_out=dict.fromkeys(reasons, ("test", None)),
            sources=tuple(dict.fromkeys(row["source"] for row in rows if row.get("source"))),
        )
    )  # fmt: skip


def _request_problem(row: Row) -> str:
    """Why a request cannot be simulated; "" if it can."""
    if row.get("reason"):
        return row["reason"]
    try:
        arrivals([row])
        for column in ("first_token_s", "last_token_s", "input_tokens", "output_tokens"):
            row_number(row, column)
    except TableError as problem:
        return str(problem)
    return ""
