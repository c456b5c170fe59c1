"""One rank's end of the job: its process group, its clock, and its buffers, on gloo or NCCL.

PyTorch is loaded by name, when a job starts.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from typing import Any

from podsim.errors import LabError
from podsim.lab.processes import fork
from podsim.packaged import before_loading, install_hint

BACKENDS = ("auto", "gloo", "nccl")


def load_torch() -> Any:
    """The torch module; LabError where it is not installed."""
    if "torch" not in sys.modules:
        for tell in before_loading:
            tell()
    try:
        return import_module("torch")
    except ImportError as error:
        raise LabError(
            f"running collectives needs PyTorch, which is not installed: {install_hint('lab')}"
        ) from error


def load_part(name: str) -> Any:
    """A module of PyTorch's by its name; LabError where it is not installed, or has none of that name."""
    load_torch()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about its own older ways
            return import_module(name)
    except ImportError as error:
        raise LabError(f"this PyTorch has no {name}: pip install -U torch ({error})") from error


@dataclass(frozen=True, kw_only=True)
class Wires:
    """What a rank sends and receives with."""

    torch: Any
    rank: int
    world: int
    backend: str
    device: Any
    up: Any
    """The group for messages to higher ranks: gloo moves data one way at a time between two ranks of one group."""
    down: Any
    """The group for messages to lower ranks; equal to `up` with NCCL."""
    grouped: bool
    """Whether messages that are posted together start together, as NCCL needs."""
    members: tuple[int, ...] = ()
    """The ranks of the whole job that these wires join, if not all; `rank` and `world` count among them."""
    group: Any = None
    """The process group of these ranks."""

    @property
    def software(self) -> str:
        """Versions of PyTorch and Python."""
        return f"torch {self.torch.__version__}, Python {platform.python_version()}"

    def part(self, members: tuple[int, ...], group: Any) -> Wires:
        """The wires of some ranks of the job, this one among them, in rising order."""
        return replace(self, rank=members.index(self.rank), world=len(members), members=members, group=group)

    def peer(self, rank: int) -> int:
        """The rank of the whole job that a rank of these wires is."""
        return self.members[rank] if self.members else rank

    def barrier(self) -> None:
        """Wait until every rank is here, and its device is done."""
        self.settle()
        if self.backend == "nccl":
            self.torch.distributed.barrier(self.group, device_ids=[self.device.index])
        else:
            self.torch.distributed.barrier(self.group)
        self.settle()

    def round_trip(self, data: Any, near: int, far: int) -> float:
        """s in which a buffer goes from rank `near` to rank `far` and back; other ranks do nothing."""
        distributed, start = self.torch.distributed, time.perf_counter()
        if self.rank == near:
            distributed.send(data, far, group=self.up)
            distributed.recv(data, far, group=self.down)
        elif self.rank == far:
            distributed.recv(data, near, group=self.up)
            distributed.send(data, near, group=self.down)
        self.settle()
        return time.perf_counter() - start

    def settle(self) -> None:
        """Wait until the device has done what it was given."""
        if self.backend == "nccl":
            self.torch.cuda.synchronize(self.device)

    def empty(self, elements: int) -> Any:
        """A buffer of floats."""
        return self.torch.empty(elements, dtype=self.torch.float32, device=self.device)


class Board:
    """Where ranks put what they have to tell, through the job's store."""

    def __init__(self, wires: Wires) -> None:
        """Every process of the job makes its own, and calls the same methods in the same order."""
        self.store = wires.torch.distributed.distributed_c10d._get_default_store()
        self.wires, self.turn = wires, 0

    def gather(self, value: Any) -> list[Any] | None:
        """What every rank said, at rank 0; None at the others."""
        self.turn += 1
        self.store.set(f"podsim/{self.turn}/{self.wires.rank}", json.dumps(value))
        if self.wires.rank:
            return None
        return [json.loads(self.store.get(f"podsim/{self.turn}/{rank}")) for rank in range(self.wires.world)]

    def tell(self, value: Any) -> Any:
        """What rank 0 said, at every rank."""
        self.turn += 1
        if self.wires.rank == 0:
            self.store.set(f"podsim/{self.turn}", json.dumps(value))
        return json.loads(self.store.get(f"podsim/{self.turn}"))


def gpus_here() -> int:
    """GPUs that PyTorch finds; 0 without PyTorch.

    A process of its own counts them: CUDA, once asked, refuses to work in processes that are forked later.
    """
    try:
        torch = load_torch()
    except LabError:
        return 0
    status = os.waitstatus_to_exitcode(os.waitpid(fork(lambda: _usable(torch)), 0)[1])
    return max(status, 0)


def _usable(torch: Any) -> int:
    """GPUs that this process can use; at most 255, as many as an exit status can say."""
    try:
        return min(int(torch.cuda.device_count()), 255) if torch.cuda.is_available() else 0
    except Exception:  # a driver that is broken
        return 0


def pick_backend(torch: Any, wanted: str, local: int) -> str:
    """gloo or nccl: NCCL where each rank of this machine has a GPU of its own. Raises LabError where it cannot be."""
    if wanted not in BACKENDS:
        raise LabError(f"backend {wanted[:40]!r}; known: {', '.join(BACKENDS)}")
    gpus = _usable(torch)
    able = gpus >= local and torch.distributed.is_nccl_available()
    if wanted == "nccl" and not able:
        raise LabError(
            f"backend nccl needs a GPU for each of {local} ranks; this machine has {gpus}: take gloo"
        )
    return "nccl" if able and wanted != "gloo" else "gloo"


def connect(
    *,
    rank: int,
    world: int,
    local_rank: int,
    local: int,
    init: str,
    backend: str = "auto",
    timeout: float = 60.0,
) -> Wires:
    """Join the job; `init` is a URL as torch.distributed takes it. Raises LabError where that fails.

    timeout: s after which a call gives up on ranks that do not answer.
    """
    torch = load_torch()
    torch.set_num_threads(1)
    chosen = pick_backend(torch, backend, local)
    if chosen == "nccl":
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if chosen == "nccl" else torch.device("cpu")
    limit = timedelta(seconds=timeout)
    try:
        torch.distributed.init_process_group(
            chosen, init_method=init, rank=rank, world_size=world, timeout=limit,
            **({"device_id": device} if chosen == "nccl" else {}),
        )  # fmt: skip
        both = [
            torch.distributed.new_group(list(range(world)), timeout=limit) if chosen == "gloo" else None
            for _ in range(2)
        ]
    except (RuntimeError, ValueError) as problem:
        raise LabError(_explained(str(problem), init)) from None
    return Wires(
        torch=torch,
        rank=rank,
        world=world,
        backend=chosen,
        device=device,
        up=both[0],
        down=both[1],
        grouped=chosen == "nccl",
    )


def _explained(problem: str, init: str) -> str:
    first = problem.strip().splitlines()[0][:300] if problem.strip() else "no reason given"
    if init == "env://":
        init = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    if "EADDRINUSE" in problem or "in use" in problem:
        return f"{init}: the port is in use by another program; set MASTER_PORT to a free one ({first})"
    return f"the ranks could not find each other at {init}: {first}"
