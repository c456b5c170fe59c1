"""Jobs from a trace: columns of Philly, Helios, Acme or Alibaba, output of sacct, or the user's CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from podsim.axes import Floats
from podsim.errors import TableError, unknown_name
from podsim.fleet.csv_rows import PACES, Row, numbers, read_text, rows_of
from podsim.fleet.jobs import JobColumns, Jobs, make_jobs
from podsim.fleet.sacct import SACCT, read_sacct
from podsim.foreign_files import read_json

_WHOLE = 1000.0
"""The thousandths of a GPU in a GPU."""
DATA = Path(__file__).parent / "data"

SYNONYMS: dict[str, tuple[str, ...]] = {
    "id": ("id", "job_id", "jobid", "job", "name", "seq"),
    "submit": (
        "submit",
        "submit_s",
        "submit_time",
        "submitted_time",
        "arrival_s",
        "arrival",
        "creation_time",
    ),
    "gpus": ("gpus", "num_gpu", "gpu_num"),
    "seconds": ("seconds", "duration_s", "duration", "runtime"),
    "start": ("start", "start_time", "scheduled_time"),
    "end": ("end", "end_time", "deletion_time"),
    "user": ("user", "user_id", "username"),
    "limit": ("limit", "limit_s", "time_limit"),
    "guess": ("guess", "expected_s"),
    "after": ("after", "depends_on"),
    "rank": ("rank",),
    "partition": ("partition",),
    "mig": ("mig", "mig_profile"),
    "slow": ("across_nodes",),
    "slower": ("across_leaves",),
}
"""The names of each column in traces: the user's, Philly (from Muri and Gavel), Helios, Acme, Alibaba."""

PACKAGED: dict[str, tuple[str, dict[str, str], str]] = {
    **{
        f"philly-{number}": (
            "philly_4vc.csv.gz", {"trace": str(number)},
            f"Microsoft Philly, virtual cluster {vc} of 2017 (CC BY 4.0), as github.com/Rivendile/Muri gives it",
        )
        for number, vc in ((1, "7f04ca"), (2, "ee9e8c"), (3, "2869ce"), (4, "0e4a51"))
    },
    "kalos": (
        "kalos_a100_completed.csv.gz", {},
        "Acme's Kalos, A100, completed jobs of 2023 (CC BY 4.0), as github.com/hyunnnchoi/AcmeTrace gives it",
    ),
}  # fmt: skip
"""The packaged traces: file, rows, source."""


def read_jobs(
    trace: str,
    where: Mapping[str, str] | None = None,
    *,
    together: bool = False,
    fill: Callable[[list[Row]], list[Row]] | None = None,
) -> Jobs:
    """The jobs of a packaged trace, or of a file (.csv, .json, sacct -P; also gzip).

    `where` selects the rows with these values; `together` submits all jobs at time 0; `fill` completes the raw rows.
    Jobs without GPUs and jobs that never ran are counted as left out.  Raises TableError with all problems of the file.
    """
    if trace in PACKAGED:
        file, rows, source = PACKAGED[trace]
        path, kept = DATA / file, {**rows, **(where or {})}
    else:
        path, kept, source = Path(trace), dict(where or {}), Path(trace).name
        if not path.exists() and "/" not in trace and "." not in trace:
            raise TableError(f"{unknown_name('trace', trace, PACKAGED)}; or give a file")
    text = read_text(path)
    table = _philly_rows(text, path.name) if text.lstrip()[:1] in ("[", "{") else rows_of(text, path.name)
    table = _matching_rows(table, kept, path.name)
    table = fill(table) if fill is not None else table
    reader: Callable[[Sequence[Row], str], Jobs] = read_sacct if set(table[0]) >= SACCT else _read_table
    jobs = reader(table, source)
    if not len(jobs):
        raise TableError(f"{path.name} has no job that asked for GPUs and ran: {dict(jobs.left_out)}")
    return jobs.at_once() if together else jobs


def _matching_rows(rows: list[Row], where: Mapping[str, str], name: str) -> list[Row]:
    unknown = [column for column in where if column not in rows[0]]
    if unknown:
        raise TableError(
            f"{name}: no column {', '.join(unknown)} to select by; its columns are {', '.join(rows[0])[:300]}"
        )
    kept = [row for row in rows if all(row[column] == value for column, value in where.items())]
    if not kept:
        some = {column: sorted({row[column] for row in rows})[:8] for column in where}
        raise TableError(f"{name}: no row with {dict(where)}; values are, among others, {some}")
    return kept


def _read_table(rows: Sequence[Row], source: str) -> Jobs:
    """The jobs of a table with a header, by the names of its columns."""
    lower = {column.lower(): column for column in rows[0]}
    columns = {
        meaning: lower[name]
        for meaning, names in SYNONYMS.items()
        for name in reversed(names)
        if name in lower
    }
    lacking = [meaning for meaning in ("submit", "gpus") if meaning not in columns]
    if "seconds" not in columns and not {"start", "end"} <= set(columns):
        lacking.append("seconds")
    if lacking:
        wanted = "; ".join(f"{meaning}: one of {', '.join(SYNONYMS[meaning])}" for meaning in lacking)
        raise TableError(
            f"{source}: no column for {wanted} (or sacct -P with {', '.join(sorted(SACCT))}); its columns are"
            f" {', '.join(rows[0])[:300]}"
        )
    gpus = numbers(rows, columns["gpus"], source)
    part = lower.get("gpu_milli", "")
    left_out = {"asked for no GPU": int(np.count_nonzero(gpus == 0))}
    rows = [row for row, count in zip(rows, gpus, strict=True) if count != 0]
    if "seconds" not in columns:
        ran = [bool(row[columns["start"]]) and bool(row[columns["end"]]) for row in rows]
        left_out["never started, or still runs"] = ran.count(False)
        rows = [row for row, was in zip(rows, ran, strict=True) if was]
    jobs = _make_columns(
        rows, columns, source, {reason: count for reason, count in left_out.items() if count}
    )
    asked = numbers(rows, part, source, empty=_WHOLE) if part else np.full(len(rows), _WHOLE)
    return replace(jobs, rounded=int(np.count_nonzero(asked < _WHOLE)))


def _make_columns(
    rows: Sequence[Row], names: Mapping[str, str], source: str, left_out: Mapping[str, int]
) -> Jobs:
    submit = _time_column(rows, names["submit"], source)
    if "seconds" in names:
        seconds = numbers(rows, names["seconds"], source)
    else:
        seconds = _time_column(rows, names["end"], source) - _time_column(rows, names["start"], source)
    after, rank = _text_column(rows, names, "after"), _optional_column(rows, names, "rank", source)
    speeds = [np.ones(len(rows))]
    for name in ("slow", "slower"):
        given = _optional_column(rows, names, name, source)
        speeds.append(speeds[0] if given is None else np.where(np.isnan(given), 1.0, given))
    columns = JobColumns(
        ids=_text_column(rows, names, "id") or [str(number) for number in range(len(rows))], submit=submit,
        gpus=numbers(rows, names["gpus"], source), seconds=seconds, user=_text_column(rows, names, "user"),
        limit=_optional_column(rows, names, "limit", source), guess=_optional_column(rows, names, "guess", source),
        after=None if after is None else [[id for id in re.split(r"[;:\s]+", cell) if id] for cell in after],
        rank=None if rank is None else np.nan_to_num(rank), slow=np.stack(speeds, axis=1),
        mig=_text_column(rows, names, "mig"), partition=_text_column(rows, names, "partition"),
        pace=np.array([row[PACES].split() for row in rows], np.float64) if rows and PACES in rows[0] else None,
    )  # fmt: skip
    return make_jobs(columns, source=source, left_out=left_out)


def _optional_column(
    rows: Sequence[Row], columns: Mapping[str, str], name: str, source: str
) -> Floats | None:
    """A column that may be missing or empty; NaN for empty cells."""
    return numbers(rows, columns[name], source, empty=np.nan) if name in columns else None


def _text_column(rows: Sequence[Row], columns: Mapping[str, str], name: str) -> list[str] | None:
    return [row[columns[name]] for row in rows] if name in columns else None


def _time_column(rows: Sequence[Row], column: str, source: str) -> Floats:
    """A column of times in s: numbers, or dates (Helios, Acme) as seconds since 1970."""
    first = next((row[column] for row in rows if row[column]), "")
    if not re.match(r"\d{4}-\d\d-\d\d", first):
        return numbers(rows, column, source)
    values, wrong = np.zeros(len(rows)), []
    for number, row in enumerate(rows):
        try:
            when = datetime.fromisoformat(row[column])
            values[number] = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            wrong.append(f"row {number + 1}: {row[column][:30]!r}")
    if wrong:
        raise TableError(
            f"{source}: {column} must be a date such as 2020-04-01 08:30:00 ({', '.join(wrong[:5])})"
        )
    return values


def _philly_rows(text: str, name: str) -> list[Row]:
    """The rows of Philly's cluster_job_log, with the total time of a job's attempts and the GPUs of the largest."""
    log = read_json(text, name=name, error=TableError)
    rows = []
    for number, job in enumerate(log if isinstance(log, list) else [log]):
        try:
            runs = [attempt for attempt in job["attempts"] if attempt["start_time"] and attempt["end_time"]]
            spans = [
                datetime.fromisoformat(attempt["end_time"]) - datetime.fromisoformat(attempt["start_time"])
                for attempt in runs
            ]
            gpus = max((sum(len(part["gpus"]) for part in attempt["detail"]) for attempt in runs), default=0)
            rows.append({
                "id": str(job["jobid"]), "submit": str(job["submitted_time"]), "gpus": str(gpus),
                "seconds": str(sum(span.total_seconds() for span in spans)), "user": str(job.get("user", "")),
                "vc": str(job.get("vc", "")), "status": str(job.get("status", "")),
            })  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TableError(
                f"{name}: job {number + 1} differs from Philly's log (jobid, submitted_time, attempts with start_time, "
                f"end_time, detail with gpus): {type(error).__name__} {str(error)[:80]}"
            ) from None
    if not rows:
        raise TableError(f"{name} has no jobs")
    return rows
