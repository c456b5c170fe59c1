"""Jobs from Slurm's accounting: the output of `sacct -P -X --format=JobID,User,Submit,...`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from podsim.errors import TableError
from podsim.fleet.csv_rows import Row
from podsim.fleet.jobs import JobColumns, Jobs, make_jobs

SACCT = {"JobID", "Submit", "Elapsed"}
"""The columns that identify such a table. AllocTRES or ReqTRES is required too; User and Timelimit are optional."""
_SPAN = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?$")
_TYPED = re.compile(r"gres/gpu(:[^=,]+)?=(\d{1,9})(?!\d)")
_SLICE = re.compile(r"gres/gpu:[^=,]*?(\d+g\.\d+gb(?:\+me)?)=\d+")


def elapsed_seconds(text: str) -> float:
    """Seconds of Slurm's [days-][hours:]minutes:seconds. Raises ValueError."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 86400.0 * days + 3600.0 * hours + 60.0 * minutes + seconds


def count_gpus(tres: str) -> int:
    """The number of GPUs in trackable resources such as cpu=128,gres/gpu:a100=8,gres/gpu=8,node=1."""
    matches = _TYPED.findall(tres)
    plain = [int(count) for kind, count in matches if not kind]
    return max(plain) if plain else sum(int(count) for _, count in matches)


def find_profile_name(tres: str) -> str:
    """The MIG profile in trackable resources such as gres/gpu:a100_3g.20gb=1; "" for none."""
    match = _SLICE.search(tres)
    return match[1] if match else ""


def read_sacct(rows: Sequence[Row], source: str) -> Jobs:
    """The jobs of sacct's table, without steps. Jobs that never ran or requested no GPU are counted as left out.

    Raises TableError for a table without AllocTRES and ReqTRES, and for cells in another format than Slurm's.
    """
    if not {"AllocTRES", "ReqTRES"} & set(rows[0]):
        raise TableError(
            f"{source}: no column AllocTRES or ReqTRES, which state a job's GPUs; add it to --format"
        )
    left_out = {
        "never started": 0,
        "asked for no GPU": 0,
        "asked for several MIG instances, which cannot talk": 0,
    }
    made: list[tuple[str, float, int, float, str, float, str, str]] = []
    wrong = []
    for number, row in enumerate(rows):
        if "." in row["JobID"]:
            continue  # a step of the job above
        try:
            seconds = float(row["ElapsedRaw"]) if row.get("ElapsedRaw") else elapsed_seconds(row["Elapsed"])
            gpus = count_gpus(row.get("AllocTRES", "")) or count_gpus(row.get("ReqTRES", ""))
            tres = (
                row.get("AllocTRES", "")
                if find_profile_name(row.get("AllocTRES", ""))
                else row.get("ReqTRES", "")
            )
            limit = _limit_seconds(row.get("Timelimit", ""))
            submit = datetime.fromisoformat(row["Submit"])
        except (ValueError, OverflowError):
            wrong.append(
                f"row {number + 1}, job {row['JobID'][:30]}: {row['Submit'][:20]} {row['Elapsed'][:20]}"
            )
            continue
        if row.get("Start", "") in ("Unknown", "None") or seconds == 0:
            left_out["never started"] += 1
        elif gpus == 0:
            left_out["asked for no GPU"] += 1
        elif gpus > 1 and find_profile_name(tres):
            left_out["asked for several MIG instances, which cannot talk"] += 1
        else:
            when = (submit if submit.tzinfo else submit.replace(tzinfo=UTC)).timestamp()
            # KillWait lets a job outlive its limit
            longer = np.nan if np.isnan(limit) else max(limit, seconds)
            user, partition = row.get("User", ""), row.get("Partition", "")
            mig = find_profile_name(tres)
            made.append((row["JobID"], when, gpus, seconds, user, longer, mig, partition))
    if wrong:
        raise TableError(
            f"{source}: Submit must be like 2026-01-31T08:00:00, Elapsed like 1-02:03:04 ({'; '.join(wrong[:5])})"
        )
    ids, submits, gpus_, lengths, users, limits, migs, parts = zip(*made, strict=True) if made else ((),) * 8
    columns = JobColumns(
        ids=list(ids), submit=list(submits), gpus=list(gpus_), seconds=list(lengths), user=list(users),
        limit=list(limits), mig=list(migs), partition=list(parts),
    )  # fmt: skip
    counts = {reason: count for reason, count in left_out.items() if count}
    return make_jobs(columns, source=source, left_out=counts)


def _limit_seconds(text: str) -> float:
    """Seconds of a Timelimit; NaN for none."""
    if text in ("", "UNLIMITED", "Partition_Limit"):
        return float("nan")
    return elapsed_seconds(text) if ":" in text else 60.0 * float(text)
