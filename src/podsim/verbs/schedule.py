"""`podsim schedule`: a pipeline schedule played out with equal stages, all of them side by side, or as torch's CSV."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from podsim.errors import ScheduleError, TableError
from podsim.options.question import question
from podsim.options.step_options import ScheduleOptions
from podsim.results.scheduled import ScheduleComparison, ScheduledAction, ScheduleRow, ScheduleSheet
from podsim.schedules import (
    SCHEDULES,
    ScheduleTable,
    build,
    check_schedule,
    held,
    idle,
    play_table,
    read_csv,
    to_csv,
    torch_problems,
    unit_seconds,
    weight_copies,
)
from podsim.schedules.actions import updates_before

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ACTIONS = 1 << 20
"""actions of a schedule that is shown"""
_MOST_BYTES = 32 << 20
_WORDS = ("forward", "backward", "input", "weight")


@question(ScheduleOptions)
def schedule(options: ScheduleOptions) -> ScheduleSheet | ScheduleComparison:
    """Play a pipeline schedule; without a name, all of them, side by side.

    A CSV file gives its own sizes. `forward`, `input` and `weight` are of one micro-batch through a rank's whole share
    of the model. Raises ScheduleError with all problems.
    """
    durations = {
        "forward": options.forward,
        "input": options.input,
        "weight": options.weight,
        "send": options.send,
    }
    _check_durations(durations, options.overlap)
    if not options.name:
        p, m = (
            4 if options.pp is None else options.pp,
            8 if options.micro_batches is None else options.micro_batches,
        )
        return _comparison(p, m, options.virtual_stages, durations, options.overlap)
    table = _table(options.name, options.pp, options.micro_batches, options.virtual_stages)
    return _sheet(table, durations, options.overlap)


def torch_csv(
    name: str, *, pp: int | None = None, micro_batches: int | None = None, virtual_stages: int | None = None
) -> str:
    """The schedule as the compute-only CSV that torch.distributed.pipelining loads; ScheduleError if it cannot run it."""
    table = _table(name, pp, micro_batches, virtual_stages)
    problems = torch_problems(table)
    if problems:
        raise ScheduleError(problems)
    return to_csv(table)


def _check_durations(durations: dict[str, float], overlap: float) -> None:
    wrong = [
        f"{name}={value}: a duration is a finite number, 0 or more"
        for name, value in durations.items()
        if not (math.isfinite(value) and 0 <= value <= 1e12)
    ]
    if not 0 <= overlap <= 1:
        wrong.append(
            f"overlap={overlap}: it is a share from 0 (one after the other) to 1 (the longer hides the shorter)"
        )
    if not wrong and sum(durations[name] for name in ("forward", "input", "weight")) <= 0:
        wrong.append("forward, input and weight are all 0: give one of them a duration")
    if wrong:
        raise ScheduleError(wrong)


def _table(name: str, pp: int | None, micro_batches: int | None, virtual_stages: int | None) -> ScheduleTable:
    """The table that a name or a file means, checked."""
    if not name.lower().endswith(".csv"):
        p, m = 4 if pp is None else pp, 8 if micro_batches is None else micro_batches
        v = _chunks(name, p, m, virtual_stages)
        if min(p, v, m) > 0 and p * v * m * 3 > MOST_ACTIONS:
            raise ScheduleError([
                f"pp={p}, virtual_stages={v}, {m} micro-batches: more than {MOST_ACTIONS:,} actions; take fewer of each"
            ])  # fmt: skip
        return build(name, p, v, m)
    given = {"pp": pp, "micro_batches": micro_batches, "virtual_stages": virtual_stages}
    twice = [key for key, value in given.items() if value is not None]
    if twice:
        raise ScheduleError([f"{', '.join(twice)}: {name[-80:]} gives its own sizes; leave them out"])
    return check_schedule(read_csv(_text(Path(name)), name=Path(name).stem))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TableError(
            f"{str(path)[-200:]}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(data) > _MOST_BYTES:
        raise TableError(f"{str(path)[-200:]}: larger than {_MOST_BYTES >> 20} MiB, which no schedule needs")
    return data.decode("utf-8", errors="replace")


def _chunks(name: str, p: int, m: int, virtual_stages: int | None) -> int:
    """Chunks a rank: those wanted, else the fewest that the schedule can have."""
    if virtual_stages is not None:
        return virtual_stages
    if name not in SCHEDULES:
        return 1  # the builder says which names there are
    fewest = [
        v
        for v in (1, 2)
        if not any(r.of == "virtual stages" and r.broken(p, v, m) for r in SCHEDULES[name].rules)
    ]
    return fewest[0] if fewest else 1


def _durations(table: ScheduleTable, durations: dict[str, float]) -> NDArray[np.float64]:
    """Seconds [4, stages] of a stage: a rank's share of the model is as many parts as parts there are to a rank."""
    share = table.ranks / table.parts
    parts = {name: durations[name] * share for name in ("forward", "input", "weight")}
    return unit_seconds(table, **parts)


def _sheet(table: ScheduleTable, durations: dict[str, float], overlap: float) -> ScheduleSheet:
    start, end = play_table(table, _durations(table, durations), durations["send"], overlap=overlap)
    entry = SCHEDULES.get(table.name)
    waits = idle(table, start, end)
    return ScheduleSheet(
        schedule=table.name,
        source=entry.source if entry else "",
        ranks=table.ranks,
        virtual_stages=max(round(table.parts / table.ranks), 1),
        micro_batches=table.micro_batches,
        parts=table.parts,
        placement=entry.placement if entry else "",
        flush=table.flush,
        durations=durations,
        overlap=overlap,
        step_time=_step_time(table, start, end),
        idle=tuple(waits.tolist()),
        bubble=_share(table, start, end, waits),
        staggered_bubble=_share(table, start, end, idle(table, start, end, staggered=True)),
        published=entry.idle if entry else "",
        activations=tuple((held(table) * table.ranks / table.parts).tolist()),
        copies=tuple(weight_copies(table).tolist()),
        staleness=_staleness(table),
        actions=_actions(table, start, end),
    )


def _step_time(table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64]) -> float:
    """Seconds of a step; without a flush, of as many micro-batches of an endless run: what the busiest rank needs."""
    if table.flush:
        return float(end.max())
    busy = np.bincount(table.rank, np.where(table.beside, 0.0, end - start), table.ranks)
    return float((busy + idle(table, start, end)).max())


def _share(
    table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64], waits: NDArray[np.float64]
) -> float:
    """Time that ranks wait over the time that they work."""
    return float(waits.sum() / np.where(table.beside, 0.0, end - start).sum())


def _staleness(table: ScheduleTable) -> tuple[int, ...]:
    """Updates that the oldest gradient of each rank is late; empty with a flush."""
    if table.version is None:
        return ()
    late = np.zeros(table.ranks, np.int64)
    np.maximum.at(late, table.rank, updates_before(table) - table.version)
    return tuple(late.tolist())


def _actions(
    table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64]
) -> tuple[ScheduledAction, ...]:
    order = np.argsort(table.stage_rank, kind="stable")
    chunk = np.empty(table.stages, np.int64)
    chunk[order] = np.arange(table.stages) - np.searchsorted(table.stage_rank[order], table.stage_rank[order])
    versions = [None] * len(table) if table.version is None else table.version.tolist()
    columns = zip(
        table.rank.tolist(), table.work.tolist(), table.stage.tolist(), chunk[table.stage].tolist(),
        table.stage_part[table.stage].tolist(), table.micro.tolist(), start.tolist(), end.tolist(),
        table.beside.tolist(), versions, strict=True,
    )  # fmt: skip
    return tuple(
        ScheduledAction(
            rank=rank, work=_WORDS[work], stage=stage, chunk=position, part=part, micro_batch=micro, start=begin,
            end=finish, beside=beside, version=version,
        )
        for rank, work, stage, position, part, micro, begin, finish, beside, version in columns
    )  # fmt: skip


def _comparison(
    p: int, m: int, virtual_stages: int | None, durations: dict[str, float], overlap: float
) -> ScheduleComparison:
    sizes = {"pp": p, "micro_batches": m, "virtual_stages": 1 if virtual_stages is None else virtual_stages}
    wrong = [f"{name}={value}" for name, value in sizes.items() if value < 1]
    if wrong:
        raise ScheduleError([f"{', '.join(wrong)}: sizes of a schedule are whole numbers from 1"])
    return ScheduleComparison(
        ranks=p,
        micro_batches=m,
        durations=durations,
        overlap=overlap,
        rows=tuple(_row(name, p, m, virtual_stages, durations, overlap) for name in SCHEDULES),
    )


def _row(
    name: str, p: int, m: int, virtual_stages: int | None, durations: dict[str, float], overlap: float
) -> ScheduleRow:
    """One schedule, with the chunks wanted if it can have them."""
    entry = SCHEDULES[name]
    fewest = _chunks(name, p, m, None)
    wanted = virtual_stages or fewest
    chunked = any(r.of == "virtual stages" and r.broken(p, wanted, m) for r in entry.rules)
    v = fewest if chunked else wanted
    try:
        table = _table(name, p, m, v)
    except ScheduleError as error:
        lacks = "; ".join(problem.partition("it needs ")[2] or problem for problem in error.problems)
        return ScheduleRow(
            schedule=name, virtual_stages=v, step_time=None, bubble=None, staggered_bubble=None, activations=None,
            copies=None, published=entry.idle, note=f"needs {lacks}",
        )  # fmt: skip
    start, end = play_table(table, _durations(table, durations), durations["send"], overlap=overlap)
    return ScheduleRow(
        schedule=name,
        virtual_stages=v,
        step_time=_step_time(table, start, end),
        bubble=_share(table, start, end, idle(table, start, end)),
        staggered_bubble=_share(table, start, end, idle(table, start, end, staggered=True)),
        activations=float(held(table).max() * table.ranks / table.parts),
        copies=float(weight_copies(table).max()),
        published=entry.idle,
        note="" if table.flush else "asynchronous",
    )
