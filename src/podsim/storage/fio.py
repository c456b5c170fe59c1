"""The predicted results of fio: accesses of one size from clients, as one stream through the links of a storage system.

    rate = max-min share of every link, and of
    outstanding     jobs x depth accesses at once, each of which takes `alone` seconds on an idle system (Little's law)
    threads         jobs x the demonstrated speed of one thread, if it is known
    latency         outstanding accesses / rate of accesses, or `alone` if that is longer

`alone` is the system's latency of a small access plus the time of the rest of the block in the client and on one port;
at least that of one thread.
Source: Little 1961; the defaults of jobs and depth are wekatester's (github.com/weka/tools). Known error: the published
totals are met by construction; the text's statements on scaling are not used. Stops being true: distributions (only
means are given), bursts, caches (fio must run with direct=1), and loads beyond the measured ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.storage import FioRow
from podsim.errors import StorageError, raise_all, unknown_name
from podsim.storage.storage_links import Stream, access, link_of, share, storage_links
from podsim.storage.storage_parts import SMALL, StorageSystem

PATTERNS = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw")
"""fio's --rw that are predicted"""
_BLOCKS = (512, 1 << 30)
_SEQUENTIAL = 1 << 16
"""B from which on fio is run for bandwidth"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one client runs."""

    rw: str
    block: float
    """B. The size of one access."""
    numjobs: int
    iodepth: int
    read_share: float = 1.0
    """share. The share of the accesses that read."""

    @property
    def outstanding(self) -> int:
        """Accesses that a client has under way."""
        return self.numjobs * self.iodepth

    @classmethod
    def of(
        cls, rw: str, block: float, numjobs: int | None = None, iodepth: int | None = None, mix: float = 0.5
    ) -> Job:
        """A job as given; without numbers 32 jobs of depth 1 for large blocks, 64 of depth 8 for small ones.

        Raises StorageError with everything that is wrong.
        """
        large = block >= _SEQUENTIAL
        jobs = numjobs if numjobs is not None else 32 if large else 64
        depth = iodepth if iodepth is not None else 1 if large else 8
        problems = [] if rw in PATTERNS else [unknown_name("pattern (--rw)", rw, PATTERNS)]
        if not _BLOCKS[0] <= block <= _BLOCKS[1] or block != int(block):
            problems.append(f"bs={block:g} B: an access is of 512 B to 1 GiB, in whole bytes")
        for what, value, most in (("numjobs", jobs, 4096), ("iodepth", depth, 65536)):
            if not 1 <= value <= most:
                problems.append(f"{what}={value}: 1 to {most} will do")
        if not 0.0 <= mix <= 1.0:
            problems.append(f"rwmixread={mix:g}: a share of the accesses, 0 to 1")
        raise_all(problems, StorageError)
        reads = {"read": 1.0, "randread": 1.0, "write": 0.0, "randwrite": 0.0}.get(rw, mix)
        return cls(rw=rw, block=float(block), numjobs=jobs, iodepth=depth, read_share=reads)


def idle_latency(system: StorageSystem, block: float, *, write: bool) -> float:
    """Seconds of one access alone: that of 4 KiB, and the rest of the block through one core, port and drive.

    At least those of one thread at the speed that one was seen to move.
    """
    client, ssd = system.client, system.server.ssd
    software = client.write if write else client.read
    each = software.per_byte if software else 0.0
    each += 1.0 / client.port if client.port else 0.0
    if system.local and ssd is not None:
        each += 1.0 / (ssd.write_bandwidth if write else ssd.read_bandwidth)
    alone = (system.write_latency if write else system.read_latency) + max(block - SMALL, 0.0) * each
    return max(alone, block / client.stream)


def fio_row(system: StorageSystem, job: Job, clients: int) -> FioRow:
    """What `clients` nodes running the job at once find together. Raises StorageError for no clients."""
    if clients < 1:
        raise StorageError(f"{clients} clients: at least one must run fio")
    alone = sum(
        part * idle_latency(system, job.block, write=write)
        for write, part in ((False, job.read_share), (True, 1.0 - job.read_share))
    )
    flow, most = (_flow(system, job, clients, alone, parts_only=parts) for parts in (False, True))
    rate = flow[0] * clients
    accesses = rate / job.block
    return FioRow(
        clients=clients, bandwidth=rate, iops=accesses, latency=max(job.outstanding * clients / accesses, alone),
        alone=alone, limit=flow[1], most=most[0] * clients,
    )  # fmt: skip


def _flow(
    system: StorageSystem, job: Job, clients: int, alone: float, *, parts_only: bool
) -> tuple[float, str]:
    """(B/s of one client, the link that is full)."""
    links = storage_links(system, clients, parts_only=parts_only)
    use = {}
    if system.client.stream < float("inf"):
        links["threads"] = link_of("threads", clients * job.numjobs * system.client.stream)
        use["threads"] = 1.0
    links["outstanding"] = link_of("outstanding", clients * job.outstanding)
    use["outstanding"] = alone / job.block
    sequential = not job.rw.startswith("rand")
    for write, part in ((False, job.read_share), (True, 1.0 - job.read_share)):
        if part > 0.0:
            for name, value in access(system, links, job.block, write=write, sequential=sequential).items():
                use[name] = use.get(name, 0.0) + part * value
    flow = share(links, [Stream(name="fio", use=use, copies=clients)])[0]
    return flow.rate, flow.limit


def fio_rows(system: StorageSystem, job: Job, clients: int) -> tuple[FioRow, ...]:
    """Rows for one to `clients` nodes: each number up to 16, then doublings, and the last."""
    if clients < 1:
        raise StorageError(f"{clients} clients: at least one must run fio")
    counts = sorted(
        {*range(1, min(clients, 16) + 1), *(2**k for k in range(4, 18) if 2**k < clients), clients}
    )
    return tuple(fio_row(system, job, count) for count in counts)
