"""Where ranks come from: forked here, or started by torchrun, Slurm or `podsim emulate`, one process each.

What they do is a Task: a function that every rank calls with its wires. Forked ranks meet in a file, so no port is
needed, and tell their parent over a pipe what they are doing and what went wrong; the parent sees which of them died.
Ranks that were started by others watch each other's heartbeats for that.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from podsim.answers.saved_run import plain
from podsim.errors import LabError, PodsimError
from podsim.lab.places import first_line
from podsim.lab.processes import end_of, fork, kill, reap, stopped_by_signals
from podsim.lab.wires import Wires, connect, load_part, load_torch
from podsim.whole_files import scratch_folder

MOST_RANKS = 64
"""processes that are forked on one machine"""
QUIET = 3.0
"""s without a heartbeat after which a rank is taken for dead"""
_BEAT = 0.5
Note = Callable[..., None]
"""tells what a rank is about to do, in words, with plain values by name if need be"""
Hook = Callable[[int, str], None]
Watch = Callable[[int, dict[str, Any]], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What the processes of a job do together."""

    work: Callable[[Wires, Note], Any]
    """The function that each process calls; what rank 0 returns, made plain JSON values, is the task's result."""
    nodes: int
    """The number of processes."""
    names: Mapping[int, str] = field(default_factory=dict)
    """The names of processes that are no ranks, for errors: the switch that process 8 plays."""
    timeout: float = 60.0
    """s. The time after which a call gives up on processes that do not answer."""
    backend: str = "auto"
    parts: tuple[str, ...] = ()
    """The modules of PyTorch that are loaded once, before processes fork."""

    def name(self, node: int) -> str:
        """A process, in words."""
        return self.names.get(node, f"rank {node}")


def quiet(_rank: int, _told: dict[str, Any]) -> None:
    """A Watch that does nothing."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which rank this process is, as its environment says."""

    rank: int
    world: int
    local_rank: int
    local: int


def started_rank(environment: Mapping[str, str]) -> Place | None:
    """The rank that this process is, from what torchrun sets; None if it was started by nobody of the kind.

    Raises LabError for an environment that says half of it, or what cannot be.
    """
    needed = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    given = [key for key in needed if environment.get(key)]
    if "RANK" not in given:
        return None
    if len(given) < len(needed):
        lacking = ", ".join(key for key in needed if key not in given)
        raise LabError(
            f"RANK is set, {lacking} not; torchrun sets all of {', '.join(needed)}: unset RANK to run here"
        )
    numbers = {}
    for key, default in (
        ("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_PORT", ""), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"),
    ):  # fmt: skip
        text = environment.get(key) or default
        if not text.isdecimal():
            raise LabError(f"{key}={text[:40]!r} in the environment is no number")
        numbers[key] = int(text)
    rank = Place(
        rank=numbers["RANK"], world=numbers["WORLD_SIZE"], local_rank=numbers["LOCAL_RANK"],
        local=numbers["LOCAL_WORLD_SIZE"],
    )  # fmt: skip
    if rank.rank >= rank.world or rank.local < 1 or rank.world % rank.local:
        raise LabError(
            f"RANK={rank.rank}, WORLD_SIZE={rank.world}, LOCAL_WORLD_SIZE={rank.local} in the environment do not go "
            "together: ranks count from 0 to WORLD_SIZE - 1, in servers of LOCAL_WORLD_SIZE each"
        )
    return rank


class _Line:
    """A rank's end of its pipe: one JSON object a line."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def say(self, **told: Any) -> None:
        data = (json.dumps(told) + "\n").encode()
        while data:
            data = data[os.write(self.descriptor, data) :]


def run_here(task: Task, *, hook: Hook | None = None, watch: Watch = quiet) -> Any:
    """What the task gives at rank 0, run by processes forked on this machine.

    hook: called in each process with what it is about to do (tests break ranks with it). watch: called here with the
    rank and what it noted. Raises LabError, naming the rank, if one dies, fails or does not answer within the task's
    timeout; the others are stopped then.
    """
    load_torch()
    for part in task.parts:
        load_part(part)
    if task.nodes > MOST_RANKS:
        raise LabError(f"{task.nodes} ranks on one machine; at most {MOST_RANKS}: start more with torchrun")
    with scratch_folder() as folder, stopped_by_signals():
        meeting = f"file://{folder}/meeting"
        crew = _Crew(task, watch)
        try:
            for rank in range(task.nodes):
                crew.add(rank, meeting, hook)
            return crew.wait()
        finally:
            crew.dismiss()


class _Crew:
    """The forked processes of a task, seen from their parent."""

    def __init__(self, task: Task, watch: Watch) -> None:
        self.task, self.watch = task, watch
        self.pids: dict[int, int] = {}
        self.pipes: dict[int, int] = {}
        self.text: dict[int, bytes] = {}
        self.doing: dict[int, str] = {}
        self.errors: dict[int, tuple[str, bool]] = {}
        self.dead: dict[int, str] = {}
        self.result: Any = None

    def add(self, rank: int, meeting: str, hook: Hook | None) -> None:
        """Fork one rank."""
        task, (mine, theirs) = self.task, os.pipe()

        def work() -> int:
            os.close(mine)
            return _rank(task, rank, meeting, _Line(theirs), hook)

        try:
            self.pids[rank] = fork(work)
        finally:
            os.close(theirs)
        self.pipes[rank] = mine
        self.text[rank] = b""

    def wait(self) -> Any:
        """The result of rank 0, once all have ended well."""
        since = 0.0
        while len(self.dead) < len(self.pids):
            self._listen(0.05)
            for rank, pid in self.pids.items():
                status = reap(pid) if rank not in self.dead else None
                if status is not None:
                    self.dead[rank] = end_of(status)
            killed = any("killed" in how for how in self.dead.values())
            if self.errors or any(self.dead.values()):
                since = since or time.monotonic()
                if killed or time.monotonic() - since > QUIET:
                    break
        self._listen(0.0)
        if self.errors or any(self.dead.values()):
            raise LabError(self._blame())
        return self.result

    def _listen(self, pause: float) -> None:
        ready, _, _ = select.select(list(self.pipes.values()), [], [], pause)
        for rank, pipe in list(self.pipes.items()):
            if pipe not in ready:
                continue
            data = os.read(pipe, 1 << 16)
            if not data:
                os.close(self.pipes.pop(rank))
                continue
            *lines, self.text[rank] = (self.text[rank] + data).split(b"\n")
            for line in lines:
                self._heard(rank, json.loads(line))

    def _heard(self, rank: int, told: dict[str, Any]) -> None:
        if "doing" in told:
            self.doing[rank] = told["doing"]
            self.watch(rank, told)
        elif "error" in told:
            self.errors[rank] = (told["error"], told["own"])
        else:
            self.result = told["result"]

    def _blame(self) -> str:
        """Who broke the run: a rank that was killed, else one with an error of its own, else one that is silent."""
        killed = {rank: how for rank, how in self.dead.items() if "killed" in how}
        own = {rank: text for rank, (text, mine) in self.errors.items() if mine}
        silent = [rank for rank in self.pids if rank not in self.dead and rank not in self.errors]
        left = {rank: how for rank, how in self.dead.items() if how and rank not in self.errors}
        during = next(iter(self.doing.values()), "the start")
        if killed or (left and not own):
            rank, how = next(iter((killed or left).items()))
            return f"{self.task.name(rank)} {how} during {self.doing.get(rank, during)}; the other ranks were stopped"
        if own:
            rank, text = next(iter(own.items()))
            return f"{self.task.name(rank)} failed: {text}"
        text = next(iter(self.errors.values()))[0] if self.errors else ""
        if silent:
            names = ", ".join(self.task.name(rank) for rank in silent)
            return (
                f"{names} did not answer within {self.task.timeout:g} s during {self.doing.get(silent[0], during)}; "
                f"all ranks were stopped ({text})"
            )
        return f"the ranks lost each other during {during}: {text}"

    def dismiss(self) -> None:
        """Stop whoever still runs."""
        kill(pid for rank, pid in self.pids.items() if rank not in self.dead)
        for pipe in self.pipes.values():
            os.close(pipe)


def _rank(task: Task, rank: int, meeting: str, line: _Line, hook: Hook | None) -> int:
    """What a forked rank does."""

    def note(doing: str, **more: Any) -> None:
        line.say(doing=doing, **more)
        if hook is not None:
            hook(rank, doing)

    if Path("/sys/class/net/lo").exists():  # a host's name may lead nowhere; ranks of one machine need none
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        wires = connect(
            rank=rank, world=task.nodes, local_rank=rank, local=task.nodes, init=meeting, backend=task.backend,
            timeout=task.timeout,
        )  # fmt: skip
        result = task.work(wires, note)
    except PodsimError as problem:  # a user's mistake, which needs no name of a class
        line.say(error=str(problem), own=True)
        return 1
    except RuntimeError as problem:  # what gloo and NCCL raise for a peer that is gone or silent
        line.say(error=_first_line(problem), own=False)
        return 1
    except Exception as problem:
        line.say(error=f"{type(problem).__name__}: {_first_line(problem)}", own=True)
        return 1
    if rank == 0:
        line.say(result=plain(result))
    return 0


def _first_line(problem: BaseException) -> str:
    line = first_line(problem, 1000)
    return line.partition(". This is typically")[0].rpartition("] ")[2][:300] or line[:300]


def run_joined(task: Task, place: Place, *, watch: Watch = quiet) -> Any:
    """This rank's part of a task that others started: what its work returns here.

    Raises LabError where the ranks cannot find each other, and, naming them, for ranks that die or fall silent.
    """
    wires = connect(
        rank=place.rank, world=place.world, local_rank=place.local_rank, local=place.local, init="env://",
        backend=task.backend, timeout=task.timeout,
    )  # fmt: skip
    doing = ["the start"]

    def note(text: str, **more: Any) -> None:
        doing[0] = text
        watch(place.rank, {"doing": text, **more})

    pulse = _Pulse(wires, task.timeout)
    try:
        return plain(task.work(wires, note))
    except RuntimeError as problem:
        who = pulse.silent()
        said = f"{who} died or fell silent" if who else "the ranks lost each other"
        raise LabError(
            f"{said} during {doing[0]}; rank {place.rank} stopped ({_first_line(problem)})"
        ) from None
    finally:
        pulse.stop()
        with suppress(Exception):
            wires.torch.distributed.destroy_process_group()


def run_task(task: Task, place: Place | None, *, watch: Watch = quiet) -> Any:
    """What the task gives at rank 0, None at the others: by forked processes, or as the rank that this process is."""
    return run_here(task, watch=watch) if place is None else run_joined(task, place, watch=watch)


class _Pulse:
    """A rank's heartbeat in the job's store, and the ranks without one."""

    def __init__(self, wires: Wires, timeout: float) -> None:
        self.wires, self.stopped = wires, threading.Event()
        self.store = wires.torch.distributed.distributed_c10d._get_default_store().clone()
        self.store.set_timeout(timedelta(seconds=min(timeout, QUIET)))
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.thread.start()

    def _beat(self) -> None:
        count = 0
        while not self.stopped.is_set():
            count += 1
            try:
                self.store.set(f"podsim/beat/{self.wires.rank}", str(count))
            except RuntimeError:  # the store died with rank 0; the next call of this rank says so
                return
            self.stopped.wait(_BEAT)

    def silent(self) -> str:
        """The ranks whose hearts do not beat, in words; rank 0 keeps the store, and is named if that is gone."""
        try:
            before = [self._count(rank) for rank in range(self.wires.world)]
            time.sleep(QUIET)
            after = [self._count(rank) for rank in range(self.wires.world)]
        except RuntimeError:
            return "rank 0"
        still = [rank for rank in range(self.wires.world) if before[rank] == after[rank]]
        return ", ".join(f"rank {rank}" for rank in still)

    def _count(self, rank: int) -> bytes:
        key = f"podsim/beat/{rank}"
        return bytes(self.store.get(key)) if self.store.check([key]) else b""

    def stop(self) -> None:
        """No more beats."""
        self.stopped.set()
        self.thread.join(timeout=_BEAT)
