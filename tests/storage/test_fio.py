"""fio and mdtest predicted: the reference architecture's text, Little's law, and every pattern."""

from __future__ import annotations

import pytest

from podsim.errors import StorageError
from podsim.storage.catalog import load_storage
from podsim.storage.fio import PATTERNS, Job, fio_row, fio_rows, idle_latency
from podsim.storage.mdtest import OPERATIONS, mdtest_rows


def _rates(rw: str, bs: int, clients: int = 4, **overrides: str) -> list[float]:
    system, _ = load_storage("weka-ra", overrides)
    rows = fio_rows(system, Job.of(rw, bs), clients)
    return [row.bandwidth if bs >= 65536 else row.iops for row in rows]


def test_reads_are_linear_to_four_clients() -> None:
    assert _rates("read", 1 << 20) == pytest.approx([16e9, 32e9, 48e9, 64e9])
    assert _rates("randread", 4096) == pytest.approx([885e3, 1.77e6, 2.655e6, 3.54e6])


def test_one_client_writes_near_the_ceiling_and_two_reach_it_in_operations() -> None:
    written = _rates("write", 1 << 20)
    assert 8e9 < written[-1] < 25e9
    assert written[0] > 0.99 * written[-1]
    small = _rates("randwrite", 4096)
    assert small[0] < 0.9 * small[-1]
    assert small[1] == pytest.approx(small[-1])


def test_past_what_was_measured_the_servers_do_no_more() -> None:
    assert _rates("read", 1 << 20, 8)[-1] == pytest.approx(64e9)
    system, _ = load_storage("weka-ra")
    assert fio_row(system, Job.of("read", 1 << 20), 8).most == pytest.approx(128e9)


@pytest.mark.parametrize("rw", PATTERNS)
def test_little_holds(rw: str) -> None:
    system, _ = load_storage("weka-ra")
    for jobs, depth in ((1, 1), (4, 8), (64, 8)):
        job = Job.of(rw, 4096, jobs, depth)
        row = fio_row(system, job, 2)
        assert row.latency * row.iops == pytest.approx(2 * jobs * depth)
        assert row.latency >= row.alone * (1 - 1e-12)


def test_one_access_at_a_time_is_latency() -> None:
    """The documentation's own example: 4,583 reads a second at 217 us, 4,401 writes at 226 us."""
    system, _ = load_storage("weka-ra")
    assert fio_row(system, Job.of("randread", 4096, 1, 1), 1).iops == pytest.approx(4583, rel=0.01)
    assert fio_row(system, Job.of("randwrite", 4096, 1, 1), 1).iops == pytest.approx(4401, rel=0.01)


def test_latency_of_a_large_block_by_hand() -> None:
    """BeeGFS: 150 us, and 1 MiB less 4 KiB over one port of 25 GB/s; NFS: one thread moves 1.5 GB/s, however it waits."""
    system, _ = load_storage("beegfs-ef600")
    assert idle_latency(system, 1 << 20, write=False) == pytest.approx(150e-6 + (1048576 - 4096) / 25e9)
    nfs, _ = load_storage("nfs-a400")
    assert idle_latency(nfs, 4096, write=False) == pytest.approx(400e-6)
    assert idle_latency(nfs, 1 << 20, write=False) == pytest.approx(1048576 / 1.5e9)


def test_one_thread_over_nfs_moves_what_it_was_seen_to() -> None:
    system, _ = load_storage("nfs-a400")
    row = fio_row(system, Job.of("read", 1 << 20, 1, 8), 1)
    assert row.bandwidth == pytest.approx(1.5e9)
    assert row.limit == fio_row(system, Job.of("read", 1 << 20, 1, 1), 1).limit == "threads"


def test_mixed_reads_and_writes_lie_between() -> None:
    system, _ = load_storage("weka-ra")
    reads, mixed, writes = (
        fio_row(system, Job.of("randrw", 4096, mix=mix), 4).iops for mix in (1.0, 0.5, 0.0)
    )
    assert writes < mixed < reads
    assert 1 / mixed == pytest.approx(0.5 / reads + 0.5 / writes)


def test_a_local_drive_is_each_nodes_own() -> None:
    system, _ = load_storage("local-nvme")
    rows = fio_rows(system, Job.of("read", 1 << 20), 3)
    assert [row.bandwidth for row in rows] == pytest.approx([26e9, 52e9, 78e9])


def test_rows_are_every_number_then_doublings() -> None:
    system, _ = load_storage("weka-ra")
    assert [row.clients for row in fio_rows(system, Job.of("read", 1 << 20), 100)] == [
        *range(1, 17),
        32,
        64,
        100,
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rw": "erase"}, "unknown pattern"),
        ({"block": 0}, "512 B to 1 GiB"),
        ({"block": 4096.5}, "whole bytes"),
        ({"numjobs": 0}, "numjobs=0"),
        ({"iodepth": -1}, "iodepth=-1"),
        ({"mix": 1.5}, "rwmixread"),
    ],
)
def test_jobs_that_make_no_sense(given: dict[str, object], says: str) -> None:
    with pytest.raises(StorageError, match=says):
        Job.of(**{"rw": "read", "block": 4096, **given})  # type: ignore[arg-type]


def test_no_clients() -> None:
    with pytest.raises(StorageError, match="0 clients"):
        fio_rows(load_storage("weka-ra")[0], Job.of("read", 4096), 0)


def test_mdtest_by_hand() -> None:
    """64 tasks that each wait 217 us for a stat; a creation waits for one read and two writes."""
    rows = {row.operation: row for row in mdtest_rows(load_storage("weka-ra")[0], 4, 64)}
    assert set(rows) == set(OPERATIONS)
    assert rows["File stat"].rate == pytest.approx(64 / 217e-6)
    assert rows["File creation"].rate == pytest.approx(64 / (217e-6 + 2 * 226e-6))


def test_many_tasks_fill_the_servers_and_data_slows_creation() -> None:
    system, _ = load_storage("weka-ra")
    rows = {row.operation: row for row in mdtest_rows(system, 8, 16384)}
    assert rows["File stat"].rate == pytest.approx(3.54e6, rel=1e-6)
    assert rows["File stat"].limit == "servers"
    with_data = {row.operation: row for row in mdtest_rows(system, 8, 16384, size=1 << 20)}
    assert with_data["File creation"].rate < rows["File creation"].rate
    assert with_data["File stat"].rate == rows["File stat"].rate


@pytest.mark.parametrize(("clients", "tasks", "size"), [(0, 1, 0.0), (4, 3, 0.0), (1, 1, -1.0)])
def test_mdtest_refuses(clients: int, tasks: int, size: float) -> None:
    with pytest.raises(StorageError):
        mdtest_rows(load_storage("weka-ra")[0], clients, tasks, size=size)
