"""`podsim study`: designs side by side, each answered by `plan` or `predict`, on any executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.answers.study import NO_ANSWER, StudyResult, StudyRow
from podsim.errors import PodsimError, raise_all
from podsim.options.output_options import PICTURES, Output
from podsim.options.plan_options import FixedLayout
from podsim.options.question import Progress, option, options_of, question, wrong_choices
from podsim.options.study_options import FIGURES
from podsim.questions.registry import ask
from podsim.report.plain_data import plain_value
from podsim.studies.answer_store import open_store
from podsim.studies.fewest import fewest_row
from podsim.studies.runner import Answer, answers
from podsim.studies.study_file import Point, Study, read_study
from podsim.studies.study_rows import predicted_rows, study_row
from podsim.whole_files import write_whole

CHARTS = ("overview", "days", "money", "energy", "scaling", "pareto")


@dataclass(frozen=True, kw_only=True)
class StudyOptions(FixedLayout):
    """A study and where it runs."""

    study: Any = option(
        MISSING, "A TOML file with designs, or a grid of them.", kind=Path, argument=True, metavar="FILE"
    )
    days: float | None = option(
        None, "Find the fewest GPUs of each design that train it in that many days.", kind=float
    )
    executor: Any = option(
        "processes", "Where it runs: processes, processes:N, serial, dask:tcp://HOST:PORT or mpi.", kind=str
    )
    store: str | Path | None = option(
        None, "SQLite file of the answers; default FILE.sqlite, `none` keeps none.", kind=Path
    )


@dataclass(frozen=True, kw_only=True)
class StudyOutput(Output):
    """A table, files of it, and charts."""

    plot: Path | None = option(None, "Draw charts: FILE.svg or .png.", suffixes=PICTURES)
    chart: str = option("overview", f"What --plot draws: {', '.join(CHARTS)}.", choices=CHARTS)
    axes: str = option("money,days", f"Axes of the Pareto chart, two of {', '.join(FIGURES)}.")
    xlsx: Path | None = option(None, "Write a workbook.", suffixes=(".xlsx",))
    parquet: Path | None = option(None, "Write a Parquet file.", suffixes=(".parquet",))


def _check_output(output: StudyOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for files that cannot be written and charts that do not exist, before any work is done."""
    problems = wrong_choices(output, "chart")
    for name in ("plot", "xlsx", "parquet", "html"):
        path = getattr(output, name)
        if path is not None and not path.parent.is_dir():
            problems.append(f"--{name} {str(path)[-120:]}: there is no directory {str(path.parent)[-120:]}")
    raise_all(problems)
    call("report.plot_study:read_axes", output.axes)
    if output.plot is not None or output.html is not None:
        call("report.plots:load_matplotlib")


def _write_files(result: StudyResult, output: StudyOutput, options: Mapping[str, Any]) -> None:
    """Write the files that were asked for."""
    if output.xlsx is not None:
        call("report.study_files:write_workbook", result, output.xlsx)
    if output.parquet is not None:
        call("report.study_files:write_parquet", result, output.parquet)
    if output.plot is not None:
        figure = result.plot(chart=output.chart, axes=output.axes)
        write_whole(output.plot, call("report.plots:figure_image", figure, output.plot.suffix.lower()[1:]))


@question(
    StudyOptions,
    output=StudyOutput,
    check=_check_output,
    write=_write_files,
    progress="answering designs",
    status=lambda result: int(not result.fits),
)
def study(
    options: StudyOptions,
    *,
    progress: Progress | None = None,
    each: Callable[[int, StudyRow], None] | None = None,
) -> StudyResult:
    """Answer every design of a study; a mapping of the same shape as a study file is a study, too.

    `executor` may be any concurrent.futures.Executor. Answers are kept in an SQLite store as they come: a study that
    was killed resumes, and no question is answered twice by one version of podsim. `progress` is called
    with (answered, all), `each` with (number, row) in the order of the answers; Ctrl-C gives the rows so far. Raises
    PodsimError for a file that is no study, and if no design has an answer.
    """
    layout = {name: getattr(options, name) for name in options_of(FixedLayout)}
    fixed = {name: value for name, value in layout.items() if value is not None}
    asked = read_study(options.study, options.days, fixed)
    store = _store_path(options)
    started = time.perf_counter()
    rows: dict[int, StudyRow] = {}
    computed, is_complete = 0, False
    try:
        for number, row, is_new in _rows(asked, options, store):
            rows[number] = row
            computed += is_new
            if each:
                each(number, row)
            if progress:
                progress(len(rows), len(asked.points))
        is_complete = True
    except KeyboardInterrupt:
        pass
    if not rows:  # outside of the handler, which would keep the processes' semaphores
        raise KeyboardInterrupt
    _check(asked, rows)
    varied = _varied(asked.points)
    result = StudyResult(
        title=asked.title, rows=tuple(rows[number] for number in sorted(rows)), varied=varied,
        common={k: v for k, v in asked.points[0].settings.items() if k not in varied}, computed=computed,
        reused=len(rows) - computed, seconds=time.perf_counter() - started, complete=is_complete,
        store=str(store or ""), is_sequential=asked.is_sequential,
    )  # fmt: skip
    return _one_after_another(result) if asked.is_sequential and is_complete else result


def compare_clusters(asked: str, options: Mapping[str, Any], clusters: Sequence[str]) -> StudyResult:
    """The study of one question on several clusters, in this process."""
    common = {name: value for name, value in options.items() if name not in ("on", "overrides")}
    common |= {"set": options["overrides"]} if options.get("overrides") else {}
    designs = [{"name": name, "on": name} for name in clusters]
    result: StudyResult = study(
        {"title": "Clusters", "question": asked, "common": common, "design": designs}, executor="serial"
    )
    return result


def _one_after_another(result: StudyResult) -> StudyResult:
    """The study with the start and end of each job; a job after one without an answer has no start."""
    now: float | None = 0.0
    rows = []
    for row in result.rows:
        end = None if now is None or row.training is None else now + row.training
        rows.append(replace(row, start=now, end=end))
        now = end
    costs = [row.cost for row in rows if row.cost is not None]
    cost = sum(costs) if len(costs) == len(rows) else None
    return replace(result, rows=tuple(rows), duration=now, cost=cost)


def _rows(asked: Study, options: StudyOptions, store: Path | None) -> Iterator[tuple[int, StudyRow, bool]]:
    """(the number of a design, its row, whether it was computed now), as they come."""
    with open_store(store) as kept:
        for number, answer, is_new in answers(asked.points, ask_chunk, options.executor, kept):
            point = asked.points[number]
            if not is_new:
                _check_answer(point, answer)
            yield number, StudyRow(**{**answer, "settings": point.settings, "name": point.name}), is_new


def ask_chunk(questions: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Answer]:
    """Plain answers to (question, settings), in any process."""
    together = [at for at, (question, _) in enumerate(questions) if question == "predict"]
    rows: dict[int, StudyRow | None] = {}
    with suppress(Exception):  # one design stops them all; each by itself says what is wrong
        rows = dict(zip(together, predicted_rows([questions[at][1] for at in together]), strict=True))
    return [
        plain_value(
            fewest_row(settings, ask)
            if question == "fewest"
            else rows.get(at) or study_row(question, settings, ask)
        )
        for at, (question, settings) in enumerate(questions)
    ]


def _check_answer(point: Point, answer: Answer) -> None:
    """Raise PodsimError for a stored answer that is damaged."""
    hints = {field.name: str(field.type) for field in fields(StudyRow)}
    if not {"question", "status"} <= answer.keys() <= hints.keys() or not all(
        _fits(value, hints[name]) for name, value in answer.items()
    ):
        raise PodsimError(
            f"{point.name[:80]}: its stored answer is not as podsim wrote it; give another --store, or take that away"
        )


def _fits(value: object, hint: str) -> bool:
    """Whether a plain value is of an annotated kind."""
    if value is None:
        return hint.endswith("None")
    kinds: dict[str, type] = {"str": str, "int": int, "float": float, "Mapping": dict}
    kind = kinds[hint.partition(" ")[0].partition("[")[0]]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return isfinite(value) and (kind is float or (kind is int and isinstance(value, int)))
    return kind not in (int, float) and isinstance(value, kind)


def _store_path(options: StudyOptions) -> Path | None:
    """The file of the answers: next to a study file, unless another or none was asked for."""
    if options.store is not None:
        return None if str(options.store) in ("none", "") else Path(options.store)
    return None if isinstance(options.study, Mapping) else Path(options.study).with_suffix(".sqlite")


def _check(asked: Study, rows: Mapping[int, StudyRow]) -> None:
    """Raise PodsimError if no design has an answer, with the reasons."""
    if all(row.status == NO_ANSWER for row in rows.values()):
        reasons = list(dict.fromkeys(row.reason for row in rows.values()))
        more = f" (and {len(reasons) - 2} other reasons)" if len(reasons) > 2 else ""
        raise PodsimError(f"{asked.title}: no design has an answer: {'; '.join(reasons[:2])}{more}")


def _varied(points: Sequence[Point]) -> tuple[str, ...]:
    """The settings in which designs differ."""
    names = dict.fromkeys(name for point in points for name in point.settings)
    return tuple(name for name in names if len({repr(point.settings.get(name)) for point in points}) > 1)
