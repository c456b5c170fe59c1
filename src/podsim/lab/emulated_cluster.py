"""Runs a command once for each rank of an emulated cluster, each in its own network namespace.

A rank's process gets the environment that torchrun would give it (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, …), so
whatever runs under torchrun runs here. All of it happens below one process, the stage: it makes the namespaces,
starts the ranks and stops them, with whatever they started themselves: torchrun's workers, a job in the background. The
kernel kills the ranks when the stage dies, and tells the stage when its parent does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from podsim.answers.lab import Emulated
from podsim.answers.saved_run import plain
from podsim.errors import LabError, raise_all
from podsim.lab import links
from podsim.lab.checkpoint_io import SLOW_DISK
from podsim.lab.namespaces import configure, enter, own_user, unable, unshare
from podsim.lab.port_counters import Injected, Watcher
from podsim.lab.processes import end_of, fork, keeping_orphans, kill, stopped_by_signals, wait_all
from podsim.lab.wires import load_torch
from podsim.programs import needs_linux

PORT = 29500
"""where rank 0 listens: in a namespace of its own, no port is ever taken"""
MOST_RANKS = 64
_INTERRUPTED = 130


def perform(
    made: Emulated,
    command: Sequence[str],
    *,
    own: Callable[[Sequence[str]], int] | None = None,
    variable: str = "",
    injected: Injected | None = None,
    save: Path | None = None,
) -> int:
    """Exit status of the command, run by every rank: 0, or that of the first rank that failed.

    injected: what is wrong with the cluster. save: the file that keeps what its ports carried.

    own: runs the command in this program instead of starting another one; its process already holds PyTorch.
    variable: environment variable that tells the command of its links. Raises LabError where namespaces cannot be
    made, and naming the rank, where one is killed. An interruption stops everything first.
    """
    needs_linux("emulating a cluster in network namespaces")
    stage = _Stage(
        made=made, command=command, own=own, variable=variable, injected=injected or Injected(), save=save
    )  # fmt: skip
    stage.check()
    if why := unable():
        raise LabError(
            f"cannot emulate a cluster: {why}. Without it, podsim measure collective still runs on the links as "
            "they are, and podsim collective --simulate plays the cluster's links"
        )
    reader, writer = os.pipe()

    def work() -> int:
        os.close(reader)
        with keeping_orphans():
            return stage.run(writer)

    with stopped_by_signals():
        pid = fork(work)
        os.close(writer)
        try:
            status = os.waitpid(pid, 0)[1]
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            os.waitpid(pid, 0)
            raise
        finally:
            problem = b""
            while part := os.read(reader, 1 << 16):
                problem += part
            os.close(reader)
    if problem:
        raise LabError(problem.decode("utf-8", errors="replace"))
    if os.WIFSIGNALED(status):
        raise LabError(f"the process that held the emulated cluster {end_of(status)}; its ranks went with it")
    return os.waitstatus_to_exitcode(status)


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """What happens below the process that holds the emulated cluster; the fields are those of `perform`."""

    made: Emulated
    command: Sequence[str]
    own: Callable[[Sequence[str]], int] | None
    variable: str
    injected: Injected
    save: Path | None

    def check(self) -> None:
        """Raise LabError for what cannot be emulated here, all at once."""
        made, problems = self.made, []
        if made.ranks > MOST_RANKS:
            problems.append(f"{made.ranks} ranks; at most {MOST_RANKS} are emulated on one machine")
        if max(made.servers, made.local) > links.LARGEST:
            problems.append(f"{made.servers} servers of {made.local} ranks; at most {links.LARGEST} each")
        if not self.command:
            problems.append("no command; give it after --, as in: -- podsim measure collective")
        elif self.own is None and not shutil.which(self.command[0]):
            problems.append(f"{self.command[0][:80]}: no such command")
        raise_all(problems, LabError)

    def run(self, tell: int) -> int:
        """Make the cluster, run the ranks, and tell the parent what it cannot see from the exit status."""
        pids: dict[int, int] = {}
        try:
            # addresses here have no names, and it would say so
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
            if self.own is not None:
                load_torch()
            spaces = self._build()
            for rank, space in spaces.items():
                pids[rank] = fork(partial(self._rank, rank, space))
            with self._watching(pids, spaces):
                failed = wait_all(pids)
        except KeyboardInterrupt:
            kill(pids.values())
            return _INTERRUPTED
        except (LabError, OSError) as problem:
            kill(pids.values())
            os.write(tell, str(problem).encode())
            return 1
        if failed is None:
            return 0
        rank, status = failed
        if os.WIFSIGNALED(status):
            os.write(tell, f"rank {rank} {end_of(status)}; the other ranks were stopped".encode())
            return 1
        return os.waitstatus_to_exitcode(status)

    def _build(self) -> dict[int, int]:
        """Make all namespaces and links; a descriptor for each rank's. This process ends up among the bridges."""
        made, injected = self.made, self.injected
        own_user()
        spaces = {rank: unshare() for rank in range(made.ranks)}
        unshare()
        holds = {rank: f"/proc/{os.getpid()}/fd/{space}" for rank, space in spaces.items()}
        swap = {rank: injected.plug(rank) for rank in range(made.ranks)}
        shapes = list(links.fabric_shapes(made, injected.slow_link))
        configure(list(links.fabric_links(made, holds, swap)), shapes)
        return spaces

    @contextmanager
    def _watching(self, pids: dict[int, int], spaces: dict[int, int]) -> Iterator[None]:
        """Watch the ports during the block; afterwards the record is in its file."""
        if self.save is None and not self.injected.flap:
            yield
            return
        until, end = os.pipe()
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        words = " ".join(word for word in self.command[:3] if not word.startswith("-"))

        def watch() -> int:
            os.close(end)
            watcher = Watcher(made=self.made, injected=self.injected, pids=pids)
            return watcher.work(
                spaces, own, until, self.save or Path(os.devnull), f"{words} on {self.made.cluster}"
            )

        pid = fork(watch)
        os.close(until)
        try:
            yield
        finally:
            os.close(end)
            os.close(own)
            problem = end_of(os.waitpid(pid, 0)[1])
        if problem and self.save is not None:
            raise LabError(f"{self.save}: no record: the process that watched the ports {problem}")

    def _rank(self, rank: int, space: int) -> int:
        """What a rank's process does."""
        made, slow_link, command = self.made, self.injected.slow_link, list(self.command)
        enter(space)
        configure(list(links.rank_links(made, rank)), list(links.rank_shapes(made, rank, slow_link)))
        _windows(made)
        os.environ.update(_environment(made, rank, self.variable))
        if rank in self.injected.slow_disk:
            os.environ[SLOW_DISK] = str(self.injected.slow_disk[rank])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if self.own is not None:
            return self.own(command)
        try:
            os.execvp(command[0], command)
        except OSError as problem:
            sys.stderr.write(f"podsim: {command[0]}: {problem.strerror}\n")
            return 127


def _environment(made: Emulated, rank: int, variable: str) -> Mapping[str, str]:
    """What torchrun would set, and which interface to use."""
    server, number = divmod(rank, made.local)
    variables = {variable: json.dumps(plain(made))} if variable else {}
    return variables | {
        "RANK": str(rank), "WORLD_SIZE": str(made.ranks), "LOCAL_RANK": str(number),
        "LOCAL_WORLD_SIZE": str(made.local), "GROUP_RANK": str(server), "MASTER_ADDR": links.address(made, 0),
        "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": "eth0", "TP_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def _windows(made: Emulated) -> None:
    """Cap what a connection may have under way, for this namespace alone."""
    most = links.window(made.inside)
    values = {
        "tcp_wmem": f"4096 {most // 2} {most}", "tcp_rmem": f"4096 {most // 2} {most}", "tcp_slow_start_after_idle": "0",
    }  # fmt: skip
    for name, value in values.items():
        try:
            Path("/proc/sys/net/ipv4", name).write_text(value, "ascii")
        except OSError as problem:
            sys.stderr.write(
                f"podsim: {name} cannot be set here ({problem.strerror}): times will spread more\n"
            )
