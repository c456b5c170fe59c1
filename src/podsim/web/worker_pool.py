"""Processes that answer questions: one at a time each, killed and replaced when one overruns or is stopped."""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from podsim.options.question import Progress
from podsim.web.answering import work
from podsim.web.worker_jobs import Job, Reply

_WAITING = 200
"""questions that may wait for a worker"""
_AGAIN = 1.0
"""s. The pause before a worker that could not start is tried again."""
_PRELOADED = [
    "podsim.web.answering",
    "podsim.questions.train.predict",
    "podsim.questions.train.plan",
    "podsim.questions.train.simulate",
]
"""what a process imports once, of which every worker is a fork"""


class BusyError(Exception):
    """Too many questions wait."""


class LateError(Exception):
    """A question took longer than its limit."""


class LostError(Exception):
    """A worker ended while it answered."""


@dataclass(eq=False)
class _Worker:
    """A process, and the pipe to it."""

    process: Any
    pipe: Any

    def kill(self) -> None:
        """End the process at once; the thread that waits for it sees the end of its pipe."""
        self.process.kill()


class WorkerPool:
    """A number of workers, and the questions that wait for one."""

    def __init__(self, size: int, folder: Path, *, niceness: int = 0) -> None:
        """Start nothing yet; workers stand in `folder`, and `niceness` lowers their priority."""
        self.size = size
        self.folder = folder
        self.niceness = niceness
        self.restarts = 0
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        self._workers: set[_Worker] = set()
        self._waiting = 0
        self._closed = False
        self._threads = ThreadPoolExecutor(2 * size + 2, thread_name_prefix="podsim-pool")

    async def start(self) -> None:
        """Start the workers, without blocking the loop."""
        await asyncio.gather(*(self._add() for _ in range(self.size)))

    async def _add(self) -> None:
        """Start a worker; one that ends before it is ready is tried again."""
        while True:
            try:
                worker = await _started_worker(self.niceness, self.folder)
                break
            except (EOFError, OSError):
                await asyncio.sleep(_AGAIN)
        if self._closed:
            worker.kill()
            return
        self._workers.add(worker)
        self._idle.put_nowait(worker)

    async def ask(self, job: Job, limit: float, progress: Progress | None = None) -> Reply:
        """The reply to a question within `limit` s of work.

        BusyError if too many wait, LateError past the limit, LostError if the worker ended. A cancelled question, and
        one past its limit, ends its worker; another takes its place.
        """
        if self._waiting >= _WAITING:
            raise BusyError
        self._waiting += 1
        try:
            worker = await asyncio.wait_for(self._idle.get(), limit)
        except TimeoutError:
            raise BusyError from None
        finally:
            self._waiting -= 1
        loop = asyncio.get_running_loop()

        def report(done: int, total: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, done, total)

        task = loop.run_in_executor(self._threads, _exchange, worker, job, report)
        try:
            reply = await asyncio.wait_for(asyncio.shield(task), limit)
        except TimeoutError:
            self._replace(worker, task)
            raise LateError from None
        except (EOFError, OSError):
            self._replace(worker, task)
            raise LostError from None
        except asyncio.CancelledError:
            self._replace(worker, task)
            raise
        self._idle.put_nowait(worker)
        return reply

    def _replace(self, worker: _Worker, task: asyncio.Future[Reply]) -> None:
        """Kill a worker, and start another."""
        worker.kill()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self._workers.discard(worker)
        self.restarts += 1
        if not self._closed:
            self._starting = asyncio.ensure_future(self._add())

    def close(self) -> None:
        """Kill all workers."""
        self._closed = True
        for worker in self._workers:
            worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _started_worker(niceness: int, folder: Path) -> _Worker:
    """A new worker, started in a thread that the end of the server does not wait for."""
    started: Future[_Worker] = Future()
    started.set_running_or_notify_cancel()

    def start() -> None:
        try:
            started.set_result(_start_worker(niceness, folder))
        except Exception as error:  # it goes to whoever waits for the worker
            started.set_exception(error)

    Thread(target=start, daemon=True).start()
    return await asyncio.wrap_future(started)


def _start_worker(niceness: int, folder: Path) -> _Worker:
    """A new process that has loaded what questions need."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(_PRELOADED)
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, niceness, folder), daemon=True)  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    ours.recv()  # it is ready
    return _Worker(process, ours)


def _exchange(worker: _Worker, job: Job, report: Progress) -> Reply:
    """Send a job, and wait for its reply. EOFError when the process ends."""
    worker.pipe.send(job)
    while True:
        message = worker.pipe.recv()
        if isinstance(message, Reply):
            return message
        report(*message)
