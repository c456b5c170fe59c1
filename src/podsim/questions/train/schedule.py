"""`podsim schedule`: a pipeline schedule simulated with equal stages, all of them side by side, or as torch's CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.answers.scheduled import ScheduleComparison, ScheduleRow, ScheduleSheet
from podsim.errors import PodsimError, ScheduleError, TableError, raise_all
from podsim.foreign_files import read_text
from podsim.options.output_options import Output
from podsim.options.question import like, option, question
from podsim.schedules.actions import ScheduleTable
from podsim.schedules.check import check_schedule
from podsim.schedules.entries import SCHEDULES, build
from podsim.schedules.held import held, weight_copies
from podsim.schedules.player import idle, simulate_table
from podsim.schedules.schedule_sheet import action_seconds, idle_share, schedule_sheet, step_seconds
from podsim.schedules.torch_csv import read_csv, to_csv, torch_problems
from podsim.whole_files import write_whole

MOST_ACTIONS = 1 << 20
"""actions of a schedule that is shown"""
_MOST_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class ScheduleOptions:
    """A pipeline schedule, and how long its passes take."""

    name: str = option(
        "", "A schedule, or FILE.csv in the form torch's pipelining reads; none: all of them.", argument=True
    )
    pp: int | None = option(None, "Pipeline ranks; default 4.")
    micro_batches: int | None = option(None, "Micro-batches of a step; default 8.")
    virtual_stages: int | None = option(None, "Model chunks per rank; default the fewest it can have.")
    forward: float = option(1.0, "Seconds of a rank's forward pass (or any unit).")
    input: float = option(1.0, "Seconds of its input gradient.")
    weight: float = option(1.0, "Seconds of its weight gradient.")
    send: float = option(0.0, "Seconds of a send between ranks.")
    overlap: float = option(0.0, "Share of the shorter of two overlapped passes that the longer hides.")


@dataclass(frozen=True, kw_only=True)
class ScheduleOutput(Output):
    """A picture of a schedule, and torch's own form."""

    csv: bool = like(Output, "csv", "Print CSV: a line for each action, or schedule.")
    csv_torch: Path | None = option(None, "Write the CSV that torch.distributed.pipelining loads.")
    plot: Path | None = option(None, "Draw it: FILE.png, .svg or .html.", suffixes=(".png", ".svg", ".html"))


def _check(output: ScheduleOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError where a picture or torch's form is wanted of all schedules."""
    if not options["name"] and (output.plot is not None or output.csv_torch is not None):
        raise PodsimError("--plot and --csv-torch are of one schedule: give its name")


def _write_files(
    answer: ScheduleSheet | ScheduleComparison, output: ScheduleOutput, options: Mapping[str, Any]
) -> None:
    """Draw a schedule, and write it for torch."""
    if output.csv_torch is not None:
        sizes = {name: options[name] for name in ("pp", "micro_batches", "virtual_stages")}
        write_whole(output.csv_torch, torch_csv(options["name"], **sizes))
    if output.plot is not None and isinstance(answer, ScheduleSheet):
        kind = output.plot.suffix.lower()[1:]
        is_page = kind == "html"
        page = call("report.pages:schedule_page", answer) if is_page else ""
        picture = page.encode() if is_page else call("report.pictures:image_of", answer, kind)
        write_whole(output.plot, picture)


@question(
    ScheduleOptions,
    output=ScheduleOutput,
    check=_check,
    write=_write_files,
    activity="building and simulating the schedule",
)
def schedule(options: ScheduleOptions) -> ScheduleSheet | ScheduleComparison:
    """Simulate a pipeline schedule; without a name, all of them, side by side.

    A CSV file gives its own sizes. `forward`, `input` and `weight` are of one micro-batch through a rank's whole share
    of the model. Raises ScheduleError with all problems.
    """
    durations = {name: getattr(options, name) for name in ("forward", "input", "weight", "send")}
    _check_durations(durations, options.overlap)
    if not options.name:
        p, m = (
            4 if options.pp is None else options.pp,
            8 if options.micro_batches is None else options.micro_batches,
        )
        return _comparison(p, m, options.virtual_stages, durations, options.overlap)
    table = _table(options.name, options.pp, options.micro_batches, options.virtual_stages)
    return schedule_sheet(table, durations, options.overlap)


def torch_csv(
    name: str, *, pp: int | None = None, micro_batches: int | None = None, virtual_stages: int | None = None
) -> str:
    """The schedule as the compute-only CSV that torch.distributed.pipelining loads; ScheduleError if it cannot run it."""
    table = _table(name, pp, micro_batches, virtual_stages)
    problems = torch_problems(table)
    raise_all(problems, ScheduleError)
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
    raise_all(wrong, ScheduleError)


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
    return read_text(path, most=_MOST_BYTES, error=TableError, hint="no schedule is", is_lenient=True)


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
    start, end = simulate_table(table, action_seconds(table, durations), durations["send"], overlap=overlap)
    return ScheduleRow(
        schedule=name,
        virtual_stages=v,
        step_time=step_seconds(table, start, end),
        bubble=idle_share(table, start, end, idle(table, start, end)),
        staggered_bubble=idle_share(table, start, end, idle(table, start, end, staggered=True)),
        activations=float(held(table).max() * table.ranks / table.parts),
        copies=float(weight_copies(table).max()),
        published=entry.idle,
        note="" if table.flush else "asynchronous",
    )
