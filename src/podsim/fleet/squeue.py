"""When waiting jobs start, by the text of `squeue` or `scontrol show job`, and of `sinfo` or `scontrol show node`.

Running jobs hold their nodes until their time limits, and waiting jobs follow by priority with EASY backfill. Jobs that
end early only make starts earlier; jobs that are submitted later with a higher priority may make them later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from podsim.answers.queued import JobStart
from podsim.errors import TableError
from podsim.fleet.csv_rows import Row, read_text, rows_of
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.operations import Operations, Span
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.sacct import elapsed_seconds

_GPUS = re.compile(r"gpu(?:[:=][A-Za-z][\w.-]*)?[:=](\d{1,9})(?!\d)")
_HOST = re.compile(r"([^,\[\]]+)(?:\[([\d,\-]+)\])?([^,\[\]]*)")
_TASKS = re.compile(r"(\d{1,15})_\[([\d,\-:]+)(?:%\d+)?\.{0,3}\]")
_PAIR = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=(\S*)")
_MOST, _LONGEST = 100_000, 60
"""The largest number of nodes, or of tasks of an array."""
_NEVER = 1e9
"""s. The length of jobs without a limit."""
_AWAY = re.compile(
    r"down|drain|drng|drned|fail|maint|resv|unk|err|inval|power|pow|futr|future|no_respond|noresp|boot"
)
_READY = ("", "Priority", "Resources", "None", "Nodes", "ReqNodeNotAvail")
"""The first words of the reasons of jobs that wait for nodes."""
_RUNS = ("R", "RUNNING", "CG", "COMPLETING", "CF", "CONFIGURING")
_MEANS = {
    "jobid": "id", "jobstate": "state", "st": "state", "time_limit": "limit", "timelimit": "limit", "runtime": "used",
    "time": "used", "time_left": "left", "nodelist(reason)": "nodelist", "numnodes": "nodes", "tres_per_node": "gres",
    "trespernode": "gres", "nodename": "nodelist", "partitions": "partition", "reqtres": "tres", "alloctres": "tres",
    "tres_alloc": "tres", "tres-alloc": "tres", "tres-per-node": "gres",
}  # fmt: skip
"""The names of columns and keys, in lower case, that mean another one."""


def expand_ranges(text: str) -> list[str]:
    """The numbers of 001-003,7 with their leading zeros. Raises ValueError."""
    made: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition(":")[0].partition("-")
        if len(part) > _LONGEST or int(last or first) - int(first) > _MOST or len(made) > _MOST:
            raise ValueError(text)
        made += [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]
    return made


def expand_hosts(text: str) -> list[str]:
    """The nodes of Slurm's list such as a[01-03,7],b1. Raises ValueError."""
    made: list[str] = []
    for head, ranges, tail in _HOST.findall(text):
        made += [f"{head}{number}{tail}" for number in expand_ranges(ranges)] if ranges else [head]
        if len(made) > _MOST or len(head) + len(tail) > 2 * _LONGEST:
            raise ValueError(f"{len(made)} nodes of {text[:40]}")
    return made


def read_records(path: str, needed: Sequence[str]) -> list[Row]:
    """The rows of a table of Slurm (spaces or pipes), or the blocks of `scontrol`. Raises TableError."""
    text = read_text(Path(path))
    name = Path(path).name
    if re.match(r"\s*(JobId|NodeName)=", text):
        blocks = [dict(_PAIR.findall(block)) for block in re.split(r"\n(?=JobId=|NodeName=)", text.strip())]
        rows = [{key.lower(): value for key, value in block.items()} for block in blocks]
    elif "|" in text.partition("\n")[0]:
        rows = [{key.lower(): value for key, value in row.items()} for row in rows_of(text, name)]
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        while lines and not re.search(r"\b(ST|STATE|JOBID|NODELIST)\b", lines[0]):
            lines.pop(0)  # --long begins with the date
        header = lines[0].lower().split() if lines else []
        rows = [dict(zip(header, _cells(line, len(header)), strict=False)) for line in lines[1:]]
    rows = [{_MEANS.get(key, key): value for key, value in row.items()} for row in rows]
    lacking = [key for key in needed if not rows or key not in rows[0]]
    if lacking:
        shown = ", ".join(rows[0])[:200] if rows else "no rows"
        raise TableError(
            f"{name}: no {', '.join(lacking)} in it ({shown}); give the output of squeue, sinfo or scontrol"
        )
    return rows


def _cells(line: str, count: int) -> list[str]:
    """The cells of a line: words too many belong to a name, the third; where words lack, the one before the last."""
    line, bracket, reason = line.partition(" (")
    cells = line.split() + ([f"({reason}"] if bracket else [])
    extra = len(cells) - count
    if extra <= 0:
        return [*cells[:-1], *[""] * -extra, *cells[-1:]]
    return [*cells[:2], " ".join(cells[2 : 3 + extra]), *cells[3 + extra :]]


def limit_seconds(text: str) -> float:
    """Seconds of a time of Slurm; a very long one for none. Raises ValueError."""
    if not text[:1].isdigit():
        return _NEVER
    return elapsed_seconds(text) if ":" in text else 60.0 * float(text)


def _gpu_count(text: str) -> int:
    return sum(int(count) for count in _GPUS.findall(text.partition("(S:")[0]))


@dataclass(kw_only=True)
class _Floor:
    """The nodes by name."""

    gpus: dict[str, int]
    closed: set[str]
    busy: set[str]
    partitions: dict[str, list[str]]
    limits: dict[str, float]
    per_node: int = 1

    def span(self, names: Sequence[str]) -> Span:
        """The nodes of some names."""
        order = {name: at for at, name in enumerate(self.gpus)}
        numbers = sorted({order[name] for name in names if name in order})
        return Span(text="", ranges=tuple((number, number) for number in numbers))


def _read_floor(path: str) -> _Floor:
    floor = _Floor(gpus={}, closed=set(), busy=set(), partitions={}, limits={})
    for row in read_records(path, ("nodelist", "state")):
        if "id" in row:
            raise TableError(f"{Path(path).name} lists jobs; sinfo or scontrol show node lists the nodes")
        state = row["state"].lower()
        for name in expand_hosts(row["nodelist"]):
            floor.gpus[name] = max(_gpu_count(row.get("gres", "")), floor.gpus.get(name, 0))
            if _AWAY.search(state):
                floor.closed.add(name)
            if re.match("alloc|mix", state):
                floor.busy.add(name)
            for partition in row.get("partition", "").split(",") if row.get("avail", "up") == "up" else ():
                floor.partitions.setdefault(partition.rstrip("*"), []).append(name)
                floor.limits[partition.rstrip("*")] = limit_seconds(row.get("limit", ""))
    if not any(floor.gpus.values()):
        floor.gpus = dict.fromkeys(floor.gpus, 1)  # no GPUs are listed: nodes are what jobs share
    floor.closed |= {name for name, gpus in floor.gpus.items() if not gpus}
    floor.per_node = max(floor.gpus.values())
    return floor


def _read_queue(path: str, floor: _Floor) -> tuple[list[Job], list[tuple[Job, str]]]:
    """(pieces of running jobs, each on a node, waiting jobs by priority with their reasons)."""
    running, waiting = [], []
    for row in read_records(path, ("id", "state", "partition", "nodes")):
        names = expand_hosts(row.get("nodelist", "")) if row["state"].upper() in _RUNS else []
        bound = limit_seconds(row.get("limit", ""))
        bound = min(bound, *(floor.limits.get(name, _NEVER) for name in row["partition"].split(",")))
        used = limit_seconds(row.get("used", "")) if row["state"][:1] == "R" else 0.0
        left = max(limit_seconds(row["left"]) if row.get("left") else bound - used, 60.0)
        nodes = int(re.match(r"\d{1,7}(?!\d)", row["nodes"])[0])  # type: ignore[index]
        given = _gpu_count(row.get("gres", "")) * nodes or _gpu_count(row.get("tres", ""))
        gpus = given if given and floor.per_node > 1 else nodes * floor.per_node
        if names:
            running += [
                Job(id=f"{row['id']} on {name}", submit=0, gpus=min(ceil(gpus / len(names)), floor.gpus[name]),
                    seconds=left, partition=f"node {name}")
                for name in names if floor.gpus.get(name)
            ]  # fmt: skip
        elif row["state"].upper() in ("PD", "PENDING"):
            reason = row.get("reason", "") or row.get("nodelist", "")
            job = Job(id=row["id"], submit=0, gpus=max(gpus, 1), seconds=left, partition=row["partition"])
            tasks = _TASKS.fullmatch(row["id"])
            many = (
                [replace(job, id=f"{tasks[1]}_{task}") for task in expand_ranges(tasks[2])]
                if tasks
                else [job]
            )
            waiting += [(float(row.get("priority") or 0), job_id, reason.strip("()")) for job_id in many]
    waiting.sort(key=lambda entry: -entry[0])
    return running, [(job, reason) for _, job, reason in waiting]


def forecast_starts(squeue: str, sinfo: str, wanted: str = "") -> tuple[list[JobStart], int, list[str]]:
    """(starts of the waiting jobs, or of one and its array's tasks; GPUs in service; warnings). Raises TableError."""
    try:
        floor = _read_floor(sinfo)
        running, waiting = _read_queue(squeue, floor)
    except TableError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise TableError(
            f"{squeue[-100:]}, {sinfo[-100:]}: not as Slurm writes them: {str(error)[:80]}"
        ) from None
    known = [job.id for job, _ in waiting]
    going = {job.id.partition(" on ")[0] for job in running}
    asked = [id for id in known if wanted in ("", id, id.partition("_")[0])]
    if not asked:
        runs = (
            f"job {wanted} runs already"
            if wanted in going
            else f"job {wanted or 'to start'} is not in {squeue[-100:]}"
        )
        raise TableError(f"{runs}; waiting jobs are {', '.join(known[:8]) or 'none'}")
    held = {job.id: reason for job, reason in waiting if re.split(r"[\s,(]", reason)[0] not in _READY}
    lost = floor.busy - floor.closed - {job.partition.removeprefix("node ") for job in running}
    notes = (
        [f"{len(lost):,} nodes run jobs that {Path(squeue).name} does not list: give the queue of all users"]
        if lost
        else []
    )
    floor.closed |= lost
    starts = _simulate(floor, running, [job for job, _ in waiting if job.id not in held])
    order = {id: number for number, id in enumerate(known, 1)}
    made = [
        JobStart(job=job.id, gpus=job.gpus, partition=job.partition, place=order[job.id], reason=held.get(job.id, ""),
                 start=starts.get(job.id))
        for job, _ in waiting if job.id in asked
    ]  # fmt: skip
    return made, sum(gpus for name, gpus in floor.gpus.items() if name not in floor.closed), notes


def _simulate(floor: _Floor, running: Sequence[Job], waiting: Sequence[Job]) -> Mapping[str, float]:
    """s. The start of each waiting job that its nodes can ever run."""
    smaller = [
        Job(id=f"missing on {name}", submit=0, gpus=floor.per_node - gpus, seconds=_NEVER, partition=f"node {name}")
        for name, gpus in floor.gpus.items() if name not in floor.closed and gpus < floor.per_node
    ]  # fmt: skip
    first = [job for job in (*smaller, *running) if job.partition.removeprefix("node ") not in floor.closed]
    names = {job.partition: [job.partition.removeprefix("node ")] for job in first}
    for job in waiting:
        names[job.partition] = [
            node for part in job.partition.split(",") for node in floor.partitions.get(part, ())
        ]
    machine = Machine(nodes=len(floor.gpus), gpus_per_node=floor.per_node)
    drained = floor.span(list(floor.closed))
    operations = Operations(
        partitions={name: (floor.span(nodes), 0) for name, nodes in names.items()},
        drains=(drained,) if drained.ranges else (),
    )  # fmt: skip
    jobs = jobs_of([*first, *waiting])
    fits = jobs.gpus <= operations.room_for(jobs, machine.nodes, machine.gpus_per_node)
    jobs = jobs.only(fits, "larger than its nodes")
    begun = (
        run_queue(jobs, machine, find_policy("easy"), operations=operations).start
        if len(jobs)
        else np.zeros(0)
    )
    return {str(id): time for id, time in zip(jobs.ids, begun.tolist(), strict=True) if time < _NEVER / 2}
