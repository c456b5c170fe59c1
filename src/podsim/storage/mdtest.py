"""The predicted results of mdtest: each operation on names as small reads and logged writes on the servers.

    operation            reads   writes        reason
    file creation          1       2           a lookup; the file and its name in the directory
    directory creation     1       2
    file stat              1       0
    directory stat         1       0
    file read              2       0           the opening, and its data
    file removal           1       2           a lookup; the name and the file
    directory removal      2       2           also a check that it is empty

A read is the work of a 4 KiB read, a write that of a logged 4 KiB write (podsim.storage.stripe). Files with data (-w) add
its accesses. A task waits for each operation, so the rate is also tasks over the sum of latencies. Source: this module's
reasoning. Known error: none is known, as no mdtest rate of an all-flash cluster of A100 servers was published.
Stops being true: separate metadata servers, and directories with locks (mdtest without -u).
"""

from __future__ import annotations

from podsim.answers.storage import MdtestRow
from podsim.errors import StorageError, raise_all
from podsim.storage.fio import idle_latency
from podsim.storage.storage_links import Stream, access, link_of, share, storage_links
from podsim.storage.storage_parts import SMALL, StorageSystem

OPERATIONS = {
    "Directory creation": (1, 2),
    "Directory stat": (1, 0),
    "Directory removal": (2, 2),
    "File creation": (1, 2),
    "File stat": (1, 0),
    "File read": (2, 0),
    "File removal": (1, 2),
}
"""mdtest's name -> small reads and logged writes"""


def mdtest_rows(
    system: StorageSystem, clients: int, tasks: int, *, size: float = 0.0
) -> tuple[MdtestRow, ...]:
    """Rates of each operation with `tasks` tasks on `clients` nodes, files of `size` B.

    Raises StorageError for no clients or tasks and a negative size.
    """
    problems = [f"{clients} clients: at least one must run mdtest"] if clients < 1 else []
    problems += (
        [f"{tasks} tasks: at least one for each of {clients} clients"] if tasks < max(clients, 1) else []
    )
    problems += [f"file size {size:g} B: 0 or more"] if size < 0 else []
    raise_all(problems, StorageError)
    return tuple(_row(system, clients, tasks, name, size) for name in OPERATIONS)


def _row(system: StorageSystem, clients: int, tasks: int, name: str, size: float) -> MdtestRow:
    links = storage_links(system, clients)
    links["tasks"] = link_of("tasks", tasks)
    reads, writes = OPERATIONS[name]
    blocks = [(False, float(SMALL))] * reads + [(True, float(SMALL))] * writes
    if size > SMALL and name in ("File creation", "File read"):
        blocks.append((name == "File creation", size))
    use = {"tasks": sum(idle_latency(system, block, write=write) for write, block in blocks)}
    for write, block in blocks:
        for link, value in access(system, links, block, write=write, sequential=False).items():
            use[link] = use.get(link, 0.0) + value * block
    flow = share(links, [Stream(name=name, use=use, copies=clients)])[0]
    return MdtestRow(operation=name, rate=flow.rate * clients, limit=flow.limit)
