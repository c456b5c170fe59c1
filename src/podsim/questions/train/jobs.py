"""`podsim jobs`: pre-training, fine-tuning and preference training as jobs that follow each other."""

from __future__ import annotations

from podsim.answers.job_chain import ChainedJob, JobChain
from podsim.answers.study import StudyRow
from podsim.options.question import question
from podsim.options.study_options import JobsOptions
from podsim.questions.train.study_rows import plan_row, predict_row
from podsim.studies.study_file import Point, read_study


@question(JobsOptions)
def jobs(options: JobsOptions) -> JobChain:
    """Answer each design of a study as a job that starts when the one before it has ended.

    Each trains its own tokens: 20 a parameter where the file states none. Days and money count failures. A job after one
    without an answer has no start. Raises PodsimError for a file that is no study.
    """
    asked = read_study(options.jobs)
    rows, now = [], 0.0 if asked.points else None
    for point in asked.points:
        job = _job(point, (predict_row if point.question == "predict" else plan_row)(point.settings), now)
        rows.append(job)
        now = job.end
    costs = [row.cost for row in rows]
    return JobChain(
        title=asked.title, rows=tuple(rows), seconds=now,
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
    )  # fmt: skip


def _job(point: Point, row: StudyRow, start: float | None) -> ChainedJob:
    is_known = start is not None and row.training is not None
    return ChainedJob(
        name=point.name, train=str(point.settings.get("train", "full")), status=row.status, reason=row.reason,
        model=row.model, gpus=row.gpus, tokens=row.tokens, step_time=row.step_time, memory=row.memory, start=start,
        end=(start or 0.0) + (row.training or 0.0) if is_known else None, cost=row.cost,
    )  # fmt: skip
