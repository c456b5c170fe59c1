"""`podsim validate`: the packaged tables of measurements, or a user's own, against predictions.

The measured values are seconds, bytes, or a rate that the source measured itself. A published MFU is shown with its
row in the source's own convention. Rows for fitting (`calibrate`) and rows for testing (`test`) share no figure. Rows
that podsim cannot express are listed with the reason.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from podsim.accuracy.band_coverage import band_coverage, coverage_text
from podsim.accuracy.bands import residuals
from podsim.accuracy.bars import verdicts, worse_figures
from podsim.accuracy.measured_rows import read_measured
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.reading import ALL, read_raw_kernels
from podsim.accuracy.score import assess
from podsim.accuracy.tables import TABLES, Rows, load, measurement, quantities
from podsim.answers.answer import Answer, View, call
from podsim.answers.comparison import BandCoverage, Comparison, Verdict
from podsim.errors import PodsimError
from podsim.foreign_files import read_start
from podsim.options.output_options import JsonOutput
from podsim.options.question import option, question
from podsim.packaged import install_hint
from podsim.whole_files import write_whole

SERVING = "serving"
"""The table of published rates of served language models."""
SERVING_LOAD = "serving-load"
"""The table of language models served under a load."""
FAILURES = "failures"
"""The table of published times between failures."""
_PARTS = {
    "bytes": ("memory", "memory"),
    "seconds per step": ("steps", "seconds per step"),
    "tokens/s per GPU": ("tokens", "rates of tokens"),
    "FLOP/s per GPU": ("flops", "rates of arithmetic"),
}
"""Quantity -> the additions to the name and title of a user's table for the rows that measured it."""

UNKNOWN = files("podsim.accuracy").joinpath("unknown.md").read_text("utf-8")
"""What the model does not know, for the page of accuracy."""


@dataclass(frozen=True, kw_only=True)
class ValidateOutput(JsonOutput):
    """Pages of the accuracy, or how constants move it."""

    html: Path | None = option(None, "Write one HTML page with a plot for each table.")
    markdown: Path | None = option(None, "Write the page docs/accuracy.md.")


@dataclass(frozen=True, kw_only=True)
class ValidateOptions:
    """Which measurements predictions are compared with."""

    tables: Sequence[str] = option(
        (),
        "A packaged table, serving and serving-load (language models), failures, or kernels-all (every raw row of "
        "kernels); repeatable."
        " Default: all packaged but these.",
        flag="--table",
        argument=True,
    )
    raw: Path | None = option(
        None, "With --table kernels-all: the folder of the raw tables; default that of the checkout."
    )
    rows: str | Path | None = option(
        None,
        "CSV with the columns of a reference table, log of nccl-tests, run of the lab, or result of a benchmark of "
        "servers (vllm bench, SGLang, genai-perf, aiperf, trtllm-bench, MLPerf inference).",
        kind=Path,
    )
    on: str = option("", "With the result of a benchmark of servers: the GPUs, e.g. dgx-h100:1.")
    role: str = option("", "test or calibrate: only the rows of that role.")


@dataclass(frozen=True, kw_only=True)
class Validation(Answer, view=View(report="report.comparisons:summary_report")):
    """Predictions against measurements."""

    comparisons: tuple[Comparison, ...]
    verdicts: tuple[Verdict, ...] = ()
    worsened: tuple[str, ...] = ()
    """The figures that are worse than those recorded with this version."""
    bands: tuple[BandCoverage, ...] = ()
    """The coverage of error bands of training runs, by source left out; where all packaged tables are compared."""

    @property
    def met(self) -> bool:
        """Whether every bar on these tables is met."""
        return all(verdict.met for verdict in self.verdicts)


_WIDTH = 140
"""columns that the tables need"""


def accuracy_markdown(answer: Validation) -> str:
    """The page docs/accuracy.md."""
    unknown = f"{coverage_text(answer.bands)}\n{UNKNOWN}" if answer.bands else UNKNOWN
    return str(call("report.pages:accuracy_page", answer.comparisons, answer.verdicts, unknown=unknown))


def _write_pages(answer: Validation, output: ValidateOutput, options: Mapping[str, Any]) -> None:
    """Write the pages."""
    if output.html is not None:
        write_whole(output.html, call("report.pages:page", answer.comparisons, answer.verdicts))
    if output.markdown is not None:
        write_whole(output.markdown, accuracy_markdown(answer))


def _text(answer: Validation, output: ValidateOutput, options: Mapping[str, Any]) -> str:
    """The comparisons in lines of at least 140 columns, whatever the terminal: these tables need them."""
    width = max(shutil.get_terminal_size((170, 40)).columns, _WIDTH)
    detail = bool(options["tables"] or options["rows"])
    text = call("report.comparisons:render", answer.comparisons, answer.verdicts, width=width, detail=detail)
    ends = [f"Worse than recorded: {figure}" for figure in answer.worsened]
    for comparison in answer.comparisons:
        for extra, count in comparison.missing_extras.items():
            ends.append(f"{comparison.table}: {count} rows are not predicted; {install_hint(extra)}")
    bands = f"\n{coverage_text(answer.bands)}" if answer.bands else ""
    return f"{text}{bands}" + "".join(f"{end}\n" for end in ends)


@question(
    ValidateOptions,
    output=ValidateOutput,
    write=_write_pages,
    text=_text,
    status=lambda answer: int(bool(answer.worsened)),
)
def validate(options: ValidateOptions, *, cross_validate: bool = True) -> Validation:
    """Comparisons of some packaged tables (default all), or of a file: a CSV with the columns of one of
    them, what nccl-tests printed, or a run that the lab kept. The table kernels-all is every raw table of kernels.

    `role` keeps the rows of one role. Raises TableError for an unknown table or role, or a file that cannot be
    read.
    """
    tables = options.tables
    tables = (tables,) if isinstance(tables, str) and tables else tables
    if options.rows is not None and tables:
        raise PodsimError("--table and --rows: choose one")
    if options.raw is not None and ALL not in tables:
        raise PodsimError(f"--raw is the folder of the raw tables of --table {ALL}")
    if options.rows is not None:
        comparisons = _own_comparisons(Path(options.rows), options.on)
    else:
        comparisons = [
            compare_rows(
                rows if tables else replace(rows, with_own_plans=False), cross_validate=cross_validate
            )
            for name in tables or TABLES
            if name not in (SERVING, SERVING_LOAD, FAILURES)
            for rows in (read_raw_kernels(options.raw) if name == ALL else (load(name),))
        ]
        comparisons += call("serving.serving_rows:packaged_serving") if SERVING in tables else ()
        comparisons += call("serving.load_rows:packaged_loads") if SERVING_LOAD in tables else ()
        if FAILURES in tables:
            from podsim.accuracy.failure_rows import packaged_failures  # which loads the queue

            comparisons += (packaged_failures(),)
    judged = verdicts(comparisons)
    worsened = () if options.rows is not None else worse_figures(comparisons, options.role)
    if options.role:
        comparisons = [comparison.only(options.role) for comparison in comparisons]
        judged = tuple(verdict for verdict in judged if verdict.role == options.role)
    judged = () if options.rows is not None else judged
    bands = () if tables or options.rows is not None else band_coverage(residuals())
    if options.role:
        bands = tuple(line for line in bands if line.role == options.role)
    return Validation(comparisons=tuple(comparisons), verdicts=judged, worsened=worsened, bands=bands)


def _own_comparisons(path: Path, on: str) -> list[Comparison]:
    """A user's measurements against predictions; TableError for a file that holds none."""
    if call("serving.measured_server:is_benchmark_file", path):
        compared = call("serving.measured_server:measured_comparisons", path, on)
        return [assess(comparison) for comparison in compared]
    if on:
        raise PodsimError(f"--on is for the result of a benchmark of servers; {path.name} is of another kind")
    start = read_start(path).decode("utf-8", "replace")
    if (served := call("serving.serving_rows:own_comparisons", path, start)) is not None:
        return list(served)
    return [compare_rows(table, cross_validate=False) for table in _in_own_quantities(read_measured(path))]


def _in_own_quantities(rows: Rows) -> list[Rows]:
    """The rows in their table's quantity, or in the quantity that most of them measured.

    For language models and kernels, rows of other quantities follow in theirs, and all rows with bytes in bytes.
    """
    counts = {
        what: sum(measurement(row, what) is not None for row in rows)
        for what in quantities(rows.kind)
        if what not in ("B/s", "bytes")
    }
    main = rows.what if counts.get(rows.what) else max(counts, key=lambda what: counts[what])
    if rows.kind not in ("llm", "kernels"):
        return [replace(rows, what=main)]
    order = (main, *(what for what in counts if what != main))
    is_heavy = "bytes" in quantities(rows.kind)
    heavy = {row.id for row in rows if is_heavy and measurement(row, "bytes") is not None}
    compared = {
        row.id: next((what for what in order if measurement(row, what)), "bytes" if row.id in heavy else main)
        for row in rows
    }
    parts = [replace(rows.where(lambda row: compared[row.id] == main), what=main)]
    for what in order[1:]:
        parts.append(_part(rows, what, {id for id, quantity in compared.items() if quantity == what}))
    return [part for part in (*parts, _part(rows, "bytes", heavy)) if len(part)]


def _part(rows: Rows, what: str, ids: set[str]) -> Rows:
    """The rows of these ids, in a quantity other than their table's; only the table's own quantity has sweeps."""
    name, title = _PARTS[what]
    part = rows.where(lambda row: row.id in ids)
    return replace(part, name=f"{rows.name}-{name}", title=f"{rows.title}: {title}", what=what, sweep=())
