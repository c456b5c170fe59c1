"""Where a study runs: this process, processes of this machine, a Dask cluster, MPI ranks, or any given executor."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import active_children, get_context, parent_process
from signal import SIG_IGN, SIGINT, signal
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from podsim.errors import PodsimError
from podsim.packaged import install_hint

_WAIT = 5
"""s to connect to a Dask scheduler"""
_MOST_PROCESSES = 1024
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class SerialExecutor(Executor):
    """Runs each call in this process, when it is submitted."""

    def submit(
        self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs
    ) -> Future[Answer]:
        """A future that is done."""
        future: Future[Answer] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def open_executor(wanted: str | Executor, tasks: int) -> Iterator[tuple[Executor, int]]:
    """(the executor, the number of its workers) for a number of tasks, closed at the end; a given one stays open.

    Raises PodsimError for an unknown kind, and where a package or a scheduler is missing.
    """
    if isinstance(wanted, Executor):
        yield wanted, int(getattr(wanted, "_max_workers", 0) or 0) or processors()
        return
    kind, _, detail = str(wanted).partition(":")
    if kind not in _KINDS or (detail and kind in ("serial", "mpi")):
        raise PodsimError(
            f"executor={str(wanted)[:80]!r}: give processes, processes:N, serial, dask:tcp://HOST:PORT or mpi"
        )
    with _KINDS[kind](detail, tasks) as pair:
        yield pair


def processors() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _serial(detail: str, tasks: int) -> Iterator[tuple[Executor, int]]:
    yield SerialExecutor(), 1


@contextmanager
def _processes(detail: str, tasks: int) -> Iterator[tuple[Executor, int]]:
    """Spawned processes, as many as there are processors or tasks; a single one is this process."""
    if detail and not (detail.isdecimal() and 1 <= int(detail) <= _MOST_PROCESSES):
        raise PodsimError(f"executor=processes:{detail[:40]}: give 1 to {_MOST_PROCESSES} processes")
    workers = min(int(detail) if detail else processors(), max(tasks, 1))
    if workers == 1:
        yield SerialExecutor(), 1
        return
    others = active_children()
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=begin_worker)
    is_done = False
    try:
        with _hidden_main():
            for _ in range(workers):  # a process starts with a task that finds no idle one
                pool.submit(os.getpid)
        yield pool, workers
        is_done = True
    finally:
        if not is_done:  # interrupted: a search may take minutes more
            for process in active_children():
                if process not in others:
                    process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def begin_worker() -> None:
    """Leave Ctrl-C to the first process, and end with it, even if it is killed."""
    signal(SIGINT, SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


@contextmanager
def _hidden_main() -> Iterator[None]:
    """Processes started within do not run the user's script again, which then needs no `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    names: dict[str, Any] = main.__dict__
    kept: dict[str, Any] = {name: names.pop(name) for name in ("__spec__", "__file__") if name in names}
    names["__spec__"] = None
    try:
        yield
    finally:
        names.update(kept)


@contextmanager
def _dask(address: str, tasks: int) -> Iterator[tuple[Executor, int]]:
    """The workers of a Dask cluster; tasks of a worker that dies run on another."""
    distributed = _package("distributed", "dask")
    try:
        client = distributed.Client(address, timeout=_WAIT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise PodsimError(
            f"executor=dask:{address[:120]}: no scheduler answers ({str(error)[:120]}); start one with `dask "
            "scheduler`, workers with `dask worker tcp://HOST:8786 --nthreads 1`"
        ) from None
    try:
        threads = client.nthreads().values()
        yield client.get_executor(retries=3), max(sum(threads), 1)
    finally:
        client.close()


@contextmanager
def _mpi(detail: str, tasks: int) -> Iterator[tuple[Executor, int]]:
    """MPI ranks: all but the first of `mpiexec -n N python -m mpi4py.futures -m podsim.cli study …`."""
    futures, mpi = (_package(f"mpi4py.{name}", "mpi") for name in ("futures", "MPI"))
    with futures.MPIPoolExecutor() as pool:
        yield pool, max(mpi.COMM_WORLD.Get_size() - 1, 1)


def _package(module: str, extra: str) -> Any:
    """An optional module; PodsimError where it, or the library below it, is missing."""
    try:
        return import_module(module)
    except (ImportError, RuntimeError) as error:
        raise PodsimError(
            f"executor={extra} needs more: {install_hint(extra)} ({str(error)[:120]})"
        ) from None


_KINDS = {"serial": _serial, "processes": _processes, "dask": _dask, "mpi": _mpi}
