"""A small DLRM trained by workers whose embedding rows lie on parameter servers, each a process of this machine.

Ranks from 0 on are workers, those after them servers. Each worker computes its slice of a step's samples: it pulls the
distinct rows that the slice wants, and pushes their gradients. The network's own weights lie on server 0.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podsim.embeddings.clicks import Clicks, make_clicks
from podsim.embeddings.tables import TableSet
from podsim.errors import LabError
from podsim.foreign_files import read_json, read_text
from podsim.lab.ranks import Note, Task
from podsim.lab.sparse.click_network import ClickNetwork
from podsim.lab.sparse.row_messages import PeerGone, open_connection, receive_message, send_message
from podsim.lab.sparse.row_server import RowServer
from podsim.lab.sparse.row_store import RowStore, Shard, sum_by_row
from podsim.lab.wires import Board, Wires
from podsim.version import check_format
from podsim.whole_files import write_whole

_MANIFEST, _FORMAT = "manifest.json", "podsim-tables"
_SEEDS = 1_000_003


@dataclass(frozen=True, kw_only=True)
class SparseJob:
    """What is trained, by whom."""

    tables: TableSet
    """The tables, all of one width, with whole poolings."""
    servers: int
    workers: int
    steps: int
    batch: int
    """count. The samples of a step of all workers."""
    cache: float
    """share. The share of a server's rows that its memory holds."""
    is_synchronous: bool
    rate: float
    seed: int
    folder: Path
    """The folder of the servers' rows."""
    checkpoint: Path | None = None
    every: int = 0
    start: int = 0
    """The step that the checkpoint is of; 0: from the beginning."""
    data: Clicks | None = None
    """The samples, taken in turn; None: made by the seed."""
    timeout: float = 60.0

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each table."""
        return tuple(table.rows for table in self.tables.tables)

    @property
    def width(self) -> int:
        """The elements of a row."""
        return self.tables.tables[0].width

    @property
    def network(self) -> ClickNetwork:
        """The network over these tables."""
        numbers = 13 if self.data is None else self.data.numbers.shape[1]
        return ClickNetwork(numbers, len(self.rows), self.width)

    def shard(self, server: int) -> Shard:
        """What a server holds."""
        return Shard(
            rows=self.rows, width=self.width, server=server, servers=self.servers, cache=self.cache, rate=self.rate,
            seed=self.seed,
        )  # fmt: skip

    def clicks(self, step: int, worker: int) -> Clicks:
        """A worker's slice of the samples of a step."""
        edges = [self.batch * slice_number // self.workers for slice_number in (worker, worker + 1)]
        if self.data is not None:
            chosen = (step * self.batch + np.arange(*edges)) % len(self.data.clicked)
        else:
            chosen = np.arange(*edges)
        clicks = self.data or make_clicks(self.tables, self.batch, self.seed * _SEEDS + step)
        return Clicks(
            clicks.numbers[chosen], tuple(rows[chosen] for rows in clicks.rows), clicks.clicked[chosen]
        )


def task_of(job: SparseJob) -> Task:
    """The processes of a job; rank 0 gives its losses, seconds and counts."""

    def work(wires: Wires, note: Note) -> Any:
        try:
            return _run_rank(job, wires, note)
        except PeerGone as gone:  # another rank's mistake, as for torch's own connections
            raise RuntimeError(str(gone)) from None

    names = {rank: f"worker {rank}" for rank in range(job.workers)}
    names |= {job.workers + server: f"server {server}" for server in range(job.servers)}
    return Task(work=work, nodes=job.workers + job.servers, names=names, timeout=job.timeout, backend="gloo")


def _run_rank(job: SparseJob, wires: Wires, note: Note) -> Any:
    board, server = Board(wires), wires.rank - job.workers
    with socket.create_server(("127.0.0.1", 0), backlog=job.workers + 8) as listener:
        gathered = board.gather(listener.getsockname()[1])
        meeting = board.tell({"ports": (gathered or [])[job.workers :], "token": secrets.token_hex(16)})
        if server < 0:
            counts = _work(job, wires.rank, meeting, note)
        else:
            counts = _serve(job, server, listener, meeting["token"], note)
    everything = board.gather(counts)
    return None if everything is None else _result(job, everything)


def _serve(job: SparseJob, server: int, listener: socket.socket, token: str, note: Note) -> Any:
    """What a server counted."""
    store = RowStore(
        job.shard(server), job.folder, job.network.first_weights(job.seed) if server == 0 else None
    )
    if job.start and job.checkpoint is not None:
        store.restore(sorted((job.checkpoint / f"step-{job.start}").glob("server-*.npz")))
    served = RowServer(
        store, job.workers, token=token, is_synchronous=job.is_synchronous, timeout=job.timeout, note=note
    )
    served.serve(listener)
    return {
        "hits": [table.hits for table in store.tables], "lookups": [table.lookups for table in store.tables],
        "late": dict(served.late),
    }  # fmt: skip


class _Client:
    """A worker's connections to all servers."""

    def __init__(self, job: SparseJob, worker: int, meeting: Mapping[str, Any]) -> None:
        self.peers = [open_connection(port, job.timeout) for port in meeting["ports"]]
        for peer in self.peers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pool = ThreadPoolExecutor(len(self.peers))
        self.ask([({"worker": worker, "token": meeting["token"]}, {})] * len(self.peers))

    def ask(self, messages: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[Any]:
        """The answer of each server to its message. Raises PeerGone, which names the server."""
        return list(self.pool.map(self._ask, range(len(self.peers)), messages))

    def _ask(self, server: int, message: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Any:
        try:
            send_message(self.peers[server], *message)
            return receive_message(self.peers[server])
        except PeerGone as gone:
            raise PeerGone(f"server {server}: {gone}") from None


def _work(job: SparseJob, worker: int, meeting: Mapping[str, Any], note: Note) -> Any:
    """A worker's losses, summed over its samples, and seconds, by step."""
    client, network = _Client(job, worker, meeting), job.network
    losses, seconds = [], []
    for step in range(job.start, job.steps):
        note(f"step {step}", done=step - job.start, whole=job.steps - job.start)
        clicks, begun = job.clicks(step, worker), time.perf_counter()
        losses.append(_step_loss(job, client, network, step, clicks))
        seconds.append(time.perf_counter() - begun)
        if not math.isfinite(losses[-1]):
            raise LabError(f"the loss of step {step} is {losses[-1]}: take a smaller --rate")
        last = step + 1 == job.steps
        if job.checkpoint is not None and (last or (job.every and (step + 1) % job.every == 0)):
            _keep(job, client, worker, step + 1)
    client.ask([({"verb": "stop"}, {})] * job.servers)
    return {"losses": losses, "seconds": seconds}


def _step_loss(job: SparseJob, client: _Client, network: ClickNetwork, step: int, clicks: Clicks) -> float:
    """The sum of a worker's losses at a step, whose gradients are pushed."""
    base = np.concatenate(([0], np.cumsum(job.rows)))
    pooling = [rows.shape[1] for rows in clicks.rows]
    lookups = np.concatenate([rows + first for rows, first in zip(clicks.rows, base, strict=False)], axis=1)
    ids, inverse = np.unique(lookups, return_inverse=True)
    inverse = inverse.reshape(-1)
    latest = np.zeros(len(ids), np.int64)
    latest[inverse] = np.arange(len(inverse))
    order = np.argsort(latest)  # so that a cache's order is that of the lookups
    owner = (ids - base[np.searchsorted(base, ids, "right") - 1])[order] % job.servers
    parts = [order[owner == server] for server in range(job.servers)]
    answers = client.ask([({"verb": "pull"}, {"ids": ids[part]}) for part in parts])
    vectors = np.empty((len(ids), job.width))
    for part, (_, arrays) in zip(parts, answers, strict=True):
        vectors[part] = arrays["vectors"]
    starts = np.cumsum([0, *pooling[:-1]])
    pooled = np.add.reduceat(vectors[inverse.reshape(lookups.shape)], starts, axis=1)
    answer = network.gradients(
        answers[0][1]["dense"], clicks.numbers.astype(np.float64), pooled, clicks.clicked.astype(np.float64)
    )
    by_lookup = np.repeat(answer.pooled, pooling, axis=1).reshape(-1, job.width) / job.batch
    _, gradients = sum_by_row(inverse, by_lookup)
    client.ask([
        (
            {"verb": "push", "step": step, "version": fields["version"]},
            {"ids": ids[part], "gradients": gradients[part]}
            | ({} if server else {"dense": answer.weights / job.batch}),
        )
        for server, (part, (fields, _)) in enumerate(zip(parts, answers, strict=True))
    ])  # fmt: skip
    return answer.loss


def _keep(job: SparseJob, client: _Client, worker: int, step: int) -> None:
    """A checkpoint after `step` steps; its manifest comes last, then the one before goes."""
    assert job.checkpoint is not None
    folder = job.checkpoint / f"step-{step}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        asked = {"verb": "checkpoint", "step": step, "folder": str(folder.absolute())}
        client.ask([(asked, {})] * job.servers)
        if worker == 0:
            manifest: dict[str, Any] = {
                "format": _FORMAT,
                "version": 1,
                "step": step,
                "rows": job.rows,
                "width": job.width,
            }
            manifest["files"] = [f"server-{server}.npz" for server in range(job.servers)]
            for path in folder.glob("server-*.npz"):  # of a run with more servers that broke off here
                if path.name not in manifest["files"]:
                    path.unlink()
            write_whole(job.checkpoint / _MANIFEST, json.dumps(manifest))
            for old in job.checkpoint.glob("step-*"):
                if old != folder and old.name[5:].isdecimal() and int(old.name[5:]) < step:
                    shutil.rmtree(old)
    except OSError as problem:
        raise LabError(f"{problem.filename or folder}: {problem.strerror or problem}") from None


def checkpoint_step(folder: Path, rows: Sequence[int], width: int) -> int:
    """The steps that the checkpoint of a folder has had; 0 without one. Raises LabError for one of other tables."""
    path = folder / _MANIFEST
    if not path.exists():
        return 0
    manifest = read_json(read_text(path, most=16 << 20, error=LabError), name=str(path)[-80:], error=LabError)
    if (
        not isinstance(manifest, dict)
        or manifest.get("format") != _FORMAT
        or type(manifest.get("step")) is not int
        or not isinstance(manifest.get("files", []), list)
    ):
        raise LabError(f"{path}: no manifest of podsim measure tables")
    check_format(manifest.get("version", 1), 1, name=str(path), error=LabError)
    if manifest.get("rows") != list(rows) or manifest.get("width") != width:
        raise LabError(
            f"{path}: of other tables: take the same tables, --rows and --width, or another folder"
        )
    step = int(manifest["step"])
    missing = [
        name for name in manifest.get("files", []) if not (folder / f"step-{step}" / str(name)).is_file()
    ]
    if missing:
        raise LabError(f"{folder}/step-{step}: {missing[0]} is missing: take another checkpoint")
    return step


def _result(job: SparseJob, everything: list[Any]) -> dict[str, Any]:
    """What rank 0 gives: rows of steps, and counts by table."""
    workers, servers = everything[: job.workers], everything[job.workers :]
    late = Counter[str]()
    for server in servers:
        late.update(server["late"])
    return {
        "rows": [
            {
                "step": job.start + position,
                "loss": sum(worker["losses"][position] for worker in workers) / job.batch,
                "seconds": max(worker["seconds"][position] for worker in workers),
            }
            for position in range(job.steps - job.start)
        ],
        "late": dict(sorted(late.items(), key=lambda pair: int(pair[0]))),
        **{
            name: [sum(counts) for counts in zip(*(server[name] for server in servers), strict=True)]
            for name in ("hits", "lookups")
        },
    }
