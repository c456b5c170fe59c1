"""Measured static batches of language models: the packaged ones, or a user's CSV, against what `podsim serve` says.

A row is a batch of equal sequences in an engine on some GPUs; it measured the rate of produced tokens per GPU, the time
to the first token, or both. Columns are those of COLUMNS; unknown ones are kept out. Each row is asked as a user would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from podsim.accuracy.score import assess
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.errors import PodsimError, TableError
from podsim.foreign_files import csv_table, read_text
from podsim.options.serving_options import ServeOptions
from podsim.serving.language_setup import read_language_setup
from podsim.serving.load_rows import compare_loads, load_kind
from podsim.serving.static_batches import StaticRequest, static_row
from podsim.serving.step_cost import passes_cost
from podsim.serving.step_laws import make_passes

TABLE = "serving"
"""The name of the packaged rows in `podsim validate --table`."""
COLUMNS = (
    "role", "id", "model", "gpu", "n_gpus", "engine", "precision", "kv_cache", "batch", "tp", "pp", "ep",
    "input_tokens", "output_tokens", "tokens_per_s_per_gpu", "first_token_ms", "confirmed", "source",
)  # fmt: skip
_NEEDED = ("model", "gpu", "input_tokens")
_MEASURED = {"tokens_per_s_per_gpu": "tokens/s per GPU", "first_token_ms": "seconds"}
"""Column of a measurement -> its quantity."""
_TITLES = {
    "tokens_per_s_per_gpu": "rates of produced tokens of static batches",
    "first_token_ms": "times to the first token",
}
_CLASSES = ("engine", "gpu", "precision", "model")
_MOST_BYTES, _MOST_ROWS = 1 << 26, 2_000


def packaged_serving() -> tuple[Comparison, ...]:
    """The packaged rows against predictions: rates, then first tokens."""
    text = files("podsim.serving").joinpath("published_serving.csv").read_text("utf-8")
    return compare_serving(text, TABLE)


def is_serving_table(start: str) -> bool:
    """Whether a text begins with the columns of such rows."""
    header = {cell.strip() for cell in start.lstrip("\ufeff").partition("\n")[0].split(",")}
    return set(_NEEDED) <= header and bool(header & set(_MEASURED))


def read_serving(path: str | Path) -> tuple[Comparison, ...]:
    """A user's rows against predictions. Raises TableError for a file without such rows."""
    path = Path(path)
    return compare_serving(_text_of(path), path.stem)


def compare_serving(text: str, name: str) -> tuple[Comparison, ...]:
    """Comparisons of the rows of a CSV, one for each quantity that they measured."""
    rows = list(_rows(text, name))
    made = []
    for column, what in _MEASURED.items():
        measured = {row["id"]: _measured(row, column, name) for row in rows if row.get(column)}
        chosen = [row for row in rows if row["id"] in measured]
        if chosen:
            made.append(
                _comparison(chosen, measured, column, f"{name}-{what.partition(' ')[0].partition('/')[0]}")
            )
    if not made:
        raise TableError(f"{name}: no row has one of {', '.join(_MEASURED)}")
    return tuple(made)


def _rows(text: str, name: str) -> Iterator[dict[str, str]]:
    header, table = csv_table(text, name=name, error=TableError)
    missing = [column for column in _NEEDED if column not in header]
    if missing:
        raise TableError(f"{name}: column {missing[0]} is missing; rows of serving have {', '.join(COLUMNS)}")
    for number, cells in enumerate(table, 1):
        if number > _MOST_ROWS:
            raise TableError(
                f"{name}: more than {_MOST_ROWS:,} rows, each of which is predicted; divide the table"
            )
        row = {column: cells.get(column, "") for column in COLUMNS}
        yield row | {"id": row["id"] or f"{name}-{number:04d}", "role": row["role"] or "test"}


def _measured(row: Mapping[str, str], column: str, name: str) -> float:
    """The measurement in SI; TableError for one that is no positive number."""
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise TableError(f"{name}: row {row['id']}: {column}={row[column][:40]!r} is no positive number")
    return value * 1e-3 if column.endswith("_ms") else value


def _comparison(
    rows: list[dict[str, str]], measured: Mapping[str, float], column: str, table: str
) -> Comparison:
    compared, reasons = [], []
    for row in rows:
        try:
            predicted = predict_row(row)[column]
        except PodsimError as problem:
            reasons.append((row["id"], " ".join(str(problem).split())))
            continue
        group = ", ".join(f"{key}={row[key]}" for key in _CLASSES if row[key])
        compared.append(
            ComparedRow(
                id=row["id"], role=row["role"], table=table, predicted=predicted, measured=measured[row["id"]],
                group=group, note="recalled, not read" * (row["confirmed"] == "recalled"),
            )
        )  # fmt: skip
    return assess(
        Comparison(
            table=table, title=f"Language models served: {_TITLES[column]}", what=_MEASURED[column],
            rows=tuple(compared), not_expressed=tuple(reasons),
            sources=tuple(dict.fromkeys(row["source"] for row in rows if row["source"])),
        )
    )  # fmt: skip


def predict_row(row: Mapping[str, str]) -> dict[str, float]:
    """Column of a measurement -> its prediction in SI. Raises PodsimError for a row that cannot be served."""
    options = row_options(row)
    batch = _count(row, "batch") or 1
    setup = read_language_setup(options, sequences=batch)
    passes = make_passes(setup.model, setup.cluster, setup.plan)
    request = StaticRequest(tokens=setup.tokens, output=setup.output)
    served = static_row(passes, passes_cost(passes), request, batch)
    if not served.fits:
        raise PodsimError(f"batch {batch} needs {served.memory / 1e9:.2f} GB on each GPU")
    return {
        "tokens_per_s_per_gpu": served.tokens_per_second / setup.plan.gpus,
        "first_token_ms": served.first_token,
    }


def row_options(row: Mapping[str, str]) -> ServeOptions:
    """The question that a row asks of `podsim serve`."""
    degrees = {name: _count(row, name) for name in ("tp", "pp", "ep")}
    gpus = _count(row, "n_gpus") or math.prod(degrees[name] or 1 for name in ("tp", "pp"))
    name = row["gpu"]
    on = f"{gpus}x{name}" if gpus > 1 and not any(sign in name for sign in ":/") else name
    return ServeOptions(
        model=row["model"], on=on, engine=row["engine"], precision=row["precision"] or None, kv=row["kv_cache"],
        tokens=_count(row, "input_tokens"), output=_count(row, "output_tokens"), tp=degrees["tp"], pp=degrees["pp"],
        ep=degrees["ep"],
    )  # fmt: skip


def _count(row: Mapping[str, str], column: str) -> int | None:
    """A whole number, None where blank; TableError for another."""
    cell = row[column]
    if not cell:
        return None
    if not (cell.isdecimal() and len(cell) < 9):
        raise TableError(f"row {row['id']}: {column}={cell[:40]!r} is not a whole number")
    return int(cell)


def own_comparisons(path: Path, start: str) -> list[Comparison] | None:
    """The comparisons of a user's table of served models that begins so; None: it is a table of another kind."""
    if is_serving_table(start):
        return list(read_serving(path))
    return list(compare_loads(_text_of(path), path.stem)) if load_kind(start) else None


def _text_of(path: Path) -> str:
    return read_text(path, most=_MOST_BYTES, error=TableError, hint="a table of measurements is smaller")
