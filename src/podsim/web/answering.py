"""The life of a worker, and what it does with a question: read its options, ask, and give JSON or the problems."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType

from podsim.answers.answer import call
from podsim.bugs import bug_report
from podsim.errors import NoFitError, PlanError, PodsimError, ScheduleError
from podsim.options.question import Progress
from podsim.report.views import data_of
from podsim.studies.executors import begin_worker
from podsim.web.questions import question_of, read_options
from podsim.web.worker_jobs import Job, Reply

if sys.platform != "win32":
    import resource

_MOST_MEMORY = 6 * 2**30
"""B. The address space of a worker, so that one question cannot take the machine's memory."""
_OFTEN = 0.1
"""s. The time between two reports of progress."""


def answer(job: Job, progress: Progress) -> Reply:
    """The reply to a job; no error passes."""
    question = question_of(job.name)
    try:
        values = read_options(question, job.given, lambda identity: _path_of(job, identity))
        reports = {"progress": progress} if question.has_progress else {}
        data = data_of(question.ask(**values, **reports))
        return Reply(status=0, text=json.dumps(data, allow_nan=False, separators=(",", ":")))
    except PodsimError as error:
        if isinstance(error, NoFitError) and question.manner.enough:
            error = call(question.manner.enough, error, question.manner.group(**values))
        lines = error.problems if isinstance(error, (PlanError, ScheduleError)) else (str(error),)
        return problems(
            1 if isinstance(error, NoFitError) else 2,
            *(_without_paths(job, line) for line in lines),
            instead=error.instead,
        )
    except (MemoryError, RecursionError):
        return problems(2, "this takes more memory than a question may have; ask for less at once")
    except Exception as error:  # a bug: the server's log has it, the visitor a line
        sys.stderr.write(f"podsim web: {job.name}\n{bug_report(error)}")
        return problems(70, "a bug in podsim: the server's log names it")


def problems(status: int, *lines: str, instead: Mapping[str, object] = MappingProxyType({})) -> Reply:
    """A reply that says what is wrong, and the values of options that would work."""
    content = {"status": status, "problems": lines, "instead": dict(instead)}
    return Reply(status=status, text=json.dumps(content, default=str))


def warm_up() -> None:
    """Load the catalogs and what is compiled, so that the first visitor does not wait for it."""
    given = {"model": "gpt2", "on": "dgx-a100-80gb"}
    answer(Job(name="predict", given=given), lambda done, total: None)


def _path_of(job: Job, identity: str) -> Path:
    """The path of a visitor's file."""
    if identity not in job.uploads:
        raise PodsimError(f"the file {identity[:40]!r} is not here (any more): send it again")
    return Path(job.uploads[identity])


def _without_paths(job: Job, line: str) -> str:
    """A message without the folders of this server."""
    for path in job.uploads.values():
        line = line.replace(f"{Path(path).parent}/", "")
    return line


def work(pipe: Connection, niceness: int, folder: Path) -> None:
    """The life of a worker: answer what comes over the pipe, in an empty folder, until the server ends."""
    _limit_process(niceness)
    os.chdir(folder)
    warm_up()
    with contextlib.suppress(EOFError, OSError):
        pipe.send("ready")
        while True:
            job = pipe.recv()
            pipe.send(answer(job, _reporter(pipe)))


def _limit_process(niceness: int) -> None:
    """Keep interruptions to the server, and end with it, even if it is killed; bound memory and priority."""
    begin_worker()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    if sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        with contextlib.suppress(OSError):
            os.nice(niceness)


def _reporter(pipe: Connection) -> Progress:
    """A function of (done, all) that reports now and then."""
    last = 0.0

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _OFTEN:
            last = now
            pipe.send((int(done), int(total)))

    return report
