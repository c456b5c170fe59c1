"""Child processes that never outlive their parent, and the words for how they ended.

A child is forked after PyTorch is loaded, so that it starts in milliseconds. The kernel kills it when its parent
dies, however that dies; Ctrl-C is the parent's business: it stops its children, then itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from podsim.bugs import bug_report
from podsim.programs import needs_linux

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STOPS = tuple(number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP"))
_ENDINGS = (signal.SIGINT, *_STOPS)
GRACE = 3.0
"""s that a group of processes gets between being asked to stop and being killed"""


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the one that forked it dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):  # where there is no such call, the parent's own clean-up remains
        ctypes.CDLL(None, use_errno=True).prctl(option, value)


@contextmanager
def keeping_orphans() -> Iterator[None]:
    """At the end of the block, every process below this one is gone, in whatever session it hid from its group.

    For a forked process that does nothing else: what its children leave behind becomes its own child. When its parent
    dies it is asked to stop (SIGTERM) rather than killed, so that it can clean up.
    """
    parent = os.getppid()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        with stopped_by_signals():
            _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                raise KeyboardInterrupt
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
        _end_children()


def _end_children() -> None:
    """Kill and reap until no child is left; those of the killed become ours in turn."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _children() -> list[int]:
    """Processes whose parent is this one."""
    mine, children = str(os.getpid()), []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            # its name, in brackets, may hold anything; then its state and its parent
            if status.read_text("utf-8", errors="replace").rpartition(")")[2].split()[1] == mine:
                children.append(int(status.parent.name))
    return children


def fork(work: Callable[[], int]) -> int:
    """The pid of a child that does `work` and exits with what it returns; it leads a process group of its own."""
    needs_linux("starting ranks, servers and namespaces")
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    # an interrupt that falls into what Python calls around a fork would be swallowed there
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # threads of numpy and torch idle in the parent; the child uses one
            pid = os.fork()
    finally:
        if os.getpid() == parent:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        os.setpgid(0, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        status = work()
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException as error:
        sys.stderr.write(bug_report(error))
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def end_of(status: int) -> str:
    """How a process ended, in words: "ended with status 3", "was killed by SIGKILL"; empty if all is well."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with status {code}" if code else ""
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def kill(pids: Iterable[int]) -> None:
    """Kill these children, with the groups that they lead, and wait until they are gone."""
    waiting = list(pids)
    for pid in waiting:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # its group may not exist yet
            os.kill(pid, signal.SIGKILL)
    for pid in waiting:
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def reap(pid: int) -> int | None:
    """The wait status of a child that has ended; None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return status if done else None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP end this process the way Ctrl-C does, so that what was started is stopped first."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        kept = [
            number for number in _STOPS if signal.getsignal(number) is not signal.SIG_DFL
        ]  # as under nohup
        before = {number: signal.signal(number, stop) for number in _STOPS if number not in kept}
    except ValueError:  # only the main thread may
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_all(pids: dict[int, int], *, pause: float = 0.02, grace: float = GRACE) -> tuple[int, int] | None:
    """Wait for the processes of ranks, {rank: pid}; (rank, wait status) of the first that failed, None if none did.

    After a failure the others get `grace` seconds to say what they saw, then they are killed.
    """
    running, failed, since = dict(pids), None, 0.0
    try:
        while running:
            for rank, pid in list(running.items()):
                status = reap(pid)
                if status is None:
                    continue
                del running[rank]
                if status and (failed is None or os.WIFSIGNALED(status) > os.WIFSIGNALED(failed[1])):
                    since = since or time.monotonic()
                    failed = (rank, status)
            if failed and time.monotonic() - since > grace:
                return failed
            time.sleep(pause)
        return failed
    finally:
        kill(running.values())
