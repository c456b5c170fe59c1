"""Reads training runs from a user's CSV: columns by their usual names, numbers with suffixes, losses in one unit."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from podsim.errors import PodsimError, TableError, UnitError
from podsim.foreign_files import read_text
from podsim.learning.loss_runs import Runs
from podsim.units import parse_quantity

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "parameters": (
        "params_total", "total_params", "parameters", "params", "n_params", "num_params", "n_parameters",
        "num_parameters", "model_size", "model_params", "n", "size", "params_nonembed", "non_embedding_params",
        "params_non_embedding", "nonembedding_params", "n_non_embedding", "param_count",
    ),
    "tokens": (
        "tokens", "training_tokens", "train_tokens", "n_tokens", "num_tokens", "tokens_seen", "tokens_trained",
        "total_tokens", "d", "data", "dataset_size", "data_size", "n_train_tokens",
    ),
    "loss": (
        "loss", "final_loss", "val_loss", "validation_loss", "eval_loss", "test_loss", "train_loss", "training_loss",
        "cross_entropy", "nll", "l", "loss_nats", "val_loss_nats", "perplexity", "ppl", "val_ppl", "val_perplexity",
        "loss_bits", "bits_per_token", "val_bits",
    ),
    "compute": ("flops", "compute", "c", "training_flops", "train_flops", "total_flops", "flop"),
    "batch": ("batch_tokens", "batch_size_tokens", "tokens_per_batch", "global_batch_tokens", "batch", "batch_size"),
    "rate": ("lr", "learning_rate", "max_lr", "peak_lr", "rate"),
    "unique": ("unique_tokens", "unique", "u", "tokens_unique", "n_unique_tokens"),
    "unit": ("unit", "units", "loss_unit", "loss_units"),
}  # fmt: skip
"""quantity -> the usual names of its column, in lower case, the likeliest first"""
_UNITS = {
    "nats": "nats", "nat": "nats", "bits": "bits", "bit": "bits", "bpt": "bits", "perplexity": "perplexity",
    "ppl": "perplexity",
}  # fmt: skip
_SETTINGS = ("metric", "source", "dataset", "data_set", "family", "arch", "setting", "tokenizer", "val_set")
"""columns whose values tell losses apart that are not comparable"""
_LIMIT = 64_000_000
_MOST_RUNS = 200_000
_LARGEST_LOSS = 13.0
"""nat. Above the loss of an untrained network with 440,000 tokens in its vocabulary"""
_MAGNITUDE = re.compile(r"(?i)^([-+0-9.e]+)\s*([kmbt])?(?:illion)?\s*(?:params|parameters|tokens)?$")
_SCALED = re.compile(r"(?i)[\s_(\[]+([kmbt])(?:illions?)?[)\]]?$")
"""the end of a heading such as "params (M)" or tokens_b"""
_SMALL_NUMBER = 1e5
"""Below it, a number in a column whose heading says millions counts them."""
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """The runs of a file, and what was made of it."""

    name: str
    runs: Runs
    lines: tuple[int, ...]
    """The line of the file of each run."""
    columns: Mapping[str, str]
    """The column of each quantity."""
    unit: str
    """The unit of the losses in the file."""
    notes: tuple[str, ...]


def read_runs(
    path: Path,
    names: Mapping[str, str] | None = None,
    *,
    only: Mapping[str, str] | None = None,
    unit: str = "",
) -> RunTable:
    """The runs of a CSV, plain or gzip. `names` gives columns that have unusual names, `only` the values of rows that
    count.

    Losses become nats. Raises TableError, with lines, for a file that cannot be read, columns that are not there, cells
    that are no numbers, and losses that are not of one kind.
    """
    header, rows = _cells(path)
    rows = _kept(path.name, header, rows, only or {})
    columns = _columns(path.name, header, names or {}, rows)
    _check_settings(path.name, header, rows, only or {})
    values, lines, left = _numbers(path.name, columns, rows)
    loss, said = _nats(path.name, values, lines, columns, unit)
    runs = Runs(
        parameters=values["parameters"], tokens=values["tokens"], loss=loss,
        **{name: values.get(name) for name in ("batch", "rate", "unique")},
    )  # fmt: skip
    notes = [f"{left} of {left + len(lines)} rows lack a number and are left out"] if left else []
    return RunTable(
        name=path.name, runs=runs, lines=tuple(lines), columns=columns, unit=said, notes=tuple(notes)
    )


_Row: TypeAlias = tuple[int, Mapping[str, str]]


def _cells(path: Path) -> tuple[list[str], list[_Row]]:
    """(names of columns, (line, cells by column) of each row)."""
    text = read_text(path, most=_LIMIT, error=TableError, hint="keep the rows and columns needed")
    try:
        first = text[: text.find("\n") + 1 or len(text)]
        separator = max(",;\t", key=first.count)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        header = [cell.strip() for cell in next(lines, [])]
        rows: list[_Row] = [
            (lines.line_num, dict(zip(header, (cell.strip() for cell in cells), strict=False)))
            for cells in lines
            if any(cell.strip() for cell in cells)
        ]
    except csv.Error as problem:
        raise TableError(f"{path.name}: cannot be read as CSV: {str(problem)[:120]}") from None
    if not rows or len(rows) > _MOST_RUNS:
        raise TableError(
            f"{path.name}: {len(rows)} rows below the header; between 1 and {_MOST_RUNS:,} can be fitted"
        )
    return header, rows


def _columns(
    name: str, header: Sequence[str], names: Mapping[str, str], rows: Sequence[_Row]
) -> dict[str, str]:
    """Quantity -> its column: of several that could be, the first with the most cells. TableError for those missing."""
    missing = [column for column in names.values() if column not in header]
    if missing:
        raise TableError(f"{name}: no column {missing[0][:60]!r}; it has {', '.join(header)[:200]}")
    plain = {_heading(_SCALED.sub("", column)): column for column in reversed(header)}
    plain |= {_heading(column): column for column in reversed(header)}
    filled = {column: sum(bool(cells.get(column)) for _, cells in rows) for column in header}
    columns = {}
    for quantity, known in COLUMNS.items():
        usual = [plain[each] for each in known if each in plain and filled[plain[each]]]
        column = names.get(quantity) or max(usual, key=lambda each: filled[each], default="")
        if column:
            columns[quantity] = column
    needed = {"parameters": "--params", "loss": "--loss", "tokens": "--tokens"}
    lacking = [quantity for quantity in needed if quantity not in columns]
    if lacking == ["tokens"] and "compute" in columns:
        return columns
    if lacking:
        options = ", ".join(f"{needed[quantity]} COLUMN" for quantity in lacking)
        raise TableError(
            f"{name}: no column of {' or '.join(lacking)} is known by its name; say which: {options}. "
            f"It has {', '.join(header)[:200]}"
        )
    return columns


def _heading(column: str) -> str:
    """The name of a column in lower case, words joined by lines."""
    return re.sub(r"[\s.\-/()\[\]]+", "_", column.lower()).strip("_")


def _kept(name: str, header: Sequence[str], rows: list[_Row], only: Mapping[str, str]) -> list[_Row]:
    """The rows whose cells have some values."""
    for column, value in only.items():
        if column not in header:
            raise TableError(f"{name}: no column {column[:60]!r}; it has {', '.join(header)[:200]}")
        values = list(dict.fromkeys(cells.get(column, "") for _, cells in rows))
        rows = [row for row in rows if row[1].get(column, "") == value]
        if not rows:
            shown = ", ".join(values[:8]) + (", …" if len(values) > 8 else "")
            raise TableError(f"{name}: no row has {column}={value[:60]}; there are {shown[:300]}")
    return rows


def _check_settings(name: str, header: Sequence[str], rows: Sequence[_Row], only: Mapping[str, str]) -> None:
    """Raise TableError where a column says that losses are of several kinds."""
    for column in header:
        if column.lower() not in _SETTINGS or column in only:
            continue
        values = list(dict.fromkeys(cells.get(column, "") for _, cells in rows))
        if len(values) > 1:
            shown = ", ".join(repr(value[:40]) for value in values[:3]) + (", …" if len(values) > 3 else "")
            raise TableError(
                f"{name}: losses of {len(values)} values of {column} ({shown}) are not comparable; "
                f"choose with --only '{column}={values[0][:60]}'"
            )


def _numbers(
    name: str, columns: Mapping[str, str], rows: Sequence[_Row]
) -> tuple[dict[str, np.ndarray], list[int], int]:
    """(values by quantity, the line of each row, how many rows lack a number)."""
    quantities = [
        each
        for each in ("parameters", "tokens", "loss", "compute", "batch", "rate", "unique")
        if each in columns
    ]
    table: list[list[float]] = []
    lines, left, units = [], 0, []
    for line, cells in rows:
        row = [_number(name, line, columns[each], cells.get(columns[each], "")) for each in quantities]
        known = dict(zip(quantities, row, strict=True))
        if "tokens" not in known or math.isnan(known["tokens"]):
            known["tokens"] = known.get("compute", math.nan) / (6 * known["parameters"])
        if any(math.isnan(known[each]) for each in ("parameters", "tokens", "loss")):
            left += 1
            continue
        table.append([known.get(each, math.nan) for each in _QUANTITIES])
        lines.append(line)
        units.append(cells.get(columns.get("unit", ""), ""))
    if not table:
        raise TableError(f"{name}: no row has parameters, tokens and a loss")
    stacked = np.array(table)
    values = {
        each: stacked[:, index]
        for index, each in enumerate(_QUANTITIES)
        if not np.isnan(stacked[:, index]).any()
    }
    return values | {"unit": np.array(units)}, lines, left


_QUANTITIES = ("parameters", "tokens", "loss", "batch", "rate", "unique")


def _number(name: str, line: int, column: str, cell: str) -> float:
    """A number above 0 such as 1.4B; NaN for a blank cell."""
    if cell.lower() in ("", "nan", "na", "n/a", "none", "null", "-", "?"):
        return math.nan
    match = _MAGNITUDE.match(cell.replace(",", "").replace("_", ""))
    try:
        value = float(match[1]) * _SCALES[(match[2] or "").lower()] if match else parse_quantity(cell)
        heading = _SCALED.search(column)
        if match and not match[2] and heading and value < _SMALL_NUMBER:
            value *= _SCALES[heading[1].lower()]
    except (ValueError, UnitError, PodsimError):
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise TableError(
            f"{name}: line {line}: {column}={cell[:40]!r} is no number above 0, such as 1.4B or 2.9e9"
        )
    return value


def _nats(
    name: str, values: Mapping[str, np.ndarray], lines: Sequence[int], columns: Mapping[str, str], unit: str
) -> tuple[np.ndarray, str]:
    """(losses in nats, the unit that they had)."""
    raw, heading = values["loss"], columns["loss"].lower()
    stated = [text.lower() for text in values["unit"].tolist()]
    unknown = next((text for text in [unit, *stated] if text and text not in _UNITS), None)
    if unknown is not None:
        raise TableError(f"{name}: unit {unknown[:40]!r}: losses are in nats, bits or perplexity")
    by_name = "perplexity" if re.search(r"ppl|perplex", heading) else "bits" if "bit" in heading else ""
    units = np.array([_UNITS.get(unit or text or by_name, "nats") for text in stated])
    loss = np.where(
        units == "perplexity",
        np.log(np.maximum(raw, 1e-300)),
        np.where(units == "bits", raw * math.log(2), raw),
    )
    wrong = np.flatnonzero((loss <= 0) | (loss > _LARGEST_LOSS))
    if len(wrong):
        where = ", ".join(str(lines[index]) for index in wrong[:5].tolist()) + (
            ", …" if len(wrong) > 5 else ""
        )
        like = (
            "looks like perplexity: --unit perplexity" if len(wrong) == len(loss) else "are the losses mixed?"
        )
        raise TableError(
            f"{name}: line {where}: a loss of {raw[wrong[0]]:g} {units[wrong[0]]} is outside 0 to 13 nats; {like} "
            "Nats, bits and perplexity in one file need a column `unit`"
        )
    kinds = list(dict.fromkeys(units.tolist()))
    return loss, " and ".join(kinds)


def mixed_lines(table: RunTable, predicted: np.ndarray) -> str:
    """What to say of losses that are of another unit than the rest, by a law that most rows meet; "" for none."""
    loss = table.runs.loss
    off = np.abs(np.log(loss / predicted)) > 0.15
    suspects = {
        "bits": np.abs(np.log(loss / predicted) - math.log(1 / math.log(2))) < 0.08,
        "nats among bits": np.abs(np.log(loss / predicted) - math.log(math.log(2))) < 0.08,
        "perplexity": off & (np.abs(np.log(np.maximum(np.log(loss), 1e-9) / predicted)) < 0.1),
    }
    for unit, rows in suspects.items():
        if rows.sum() >= 3 and rows.sum() >= 0.5 * off.sum():
            lines = [table.lines[index] for index in np.flatnonzero(rows)[:5].tolist()]
            more = ", …" if rows.sum() > 5 else ""
            return (
                f"{table.name}: lines {', '.join(map(str, lines))}{more} look like {unit}, the other losses do not; "
                "give a column `unit` (nats, bits, perplexity), or leave them out"
            )
    return ""
