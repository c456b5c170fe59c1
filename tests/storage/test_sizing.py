"""What `podsim storage size` asks for is what `podsim storage input` needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podsim.questions.machine.storage_input import storage_input
from podsim.questions.machine.storage_size import storage_size
from podsim.storage import sizing
from podsim.storage.cache import Cache
from podsim.storage.sizing import read_needed

MEMORY = Cache(kind="page", size=512e9, read=1e12, write=1e12)


def test_one_cold_epoch_by_hand() -> None:
    """All waiting is in the first of 41 epochs: full / R - 1 = 0.05 x 41."""
    for shuffle, nodes in (("shard", 32), ("shard", 1), ("global", 1)):
        need = read_needed(
            80e9, data=147e9, cache=MEMORY, nodes=nodes, epochs=41.0, slower=0.05, shuffle=shuffle
        )
        assert need == pytest.approx(80e9 / (1 + 0.05 * 41))


def test_two_epochs_over_two_nodes_by_hand() -> None:
    """A global shuffle: the first epoch misses all, the second half; at R = full / 2.5 they take 2.5 and 1.25 of one."""
    need = read_needed(10e9, data=1e9, cache=MEMORY, nodes=2, epochs=2.0, slower=0.875, shuffle="global")
    assert need == pytest.approx(10e9 / 2.5)


def test_data_that_no_cache_holds_are_read_each_epoch() -> None:
    none = Cache(kind="none", size=0.0, read=0.0, write=0.0)
    for epochs in (1.0, 40.0):
        need = read_needed(10e9, data=1e15, cache=none, nodes=8, epochs=epochs, slower=0.05, shuffle="global")
        assert need == pytest.approx(10e9 / 1.05)


def test_a_part_of_an_epoch_counts_for_its_part() -> None:
    """Half an epoch, all of it cold."""
    need = read_needed(10e9, data=1e9, cache=MEMORY, nodes=1, epochs=0.5, slower=0.25, shuffle="shard")
    assert need == pytest.approx(10e9 / 1.25)


@pytest.mark.parametrize("shuffle", ["shard", "global"])
@pytest.mark.parametrize("nodes", [1, 4, 32])
def test_the_run_is_as_much_longer_as_was_allowed(nodes: int, shuffle: str) -> None:
    """On storage that reads what was asked for, the epochs take a twentieth longer than on storage without a limit."""
    need = storage_size("resnet50", on=f"dgx-a100-40gb:{nodes}", slower=0.05, shuffle=shuffle).read

    def epochs(read: float) -> float:
        ports = {"server.read": f"{read} B/s", "server.port": "1000 GB/s"}
        run = storage_input(
            "resnet50", on=f"beegfs:{nodes}", shuffle=shuffle, overrides=ports, client="dgx-a100-40gb"
        )
        assert run.training is not None
        return run.training.seconds - run.training.start - run.training.evaluation

    assert epochs(need) == pytest.approx(1.05 * epochs(1e13), rel=2e-3)


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_small_batches_are_sized_too(batch: int) -> None:
    size = storage_size("resnet50", on="dgx-a100-40gb:1", batch=batch)
    assert 0.0 < size.read < size.needs[0].value


def test_a_global_shuffle_asks_for_more_and_each_says_so() -> None:
    sharded, mixed = (
        storage_size("resnet50", on="dgx-a100-40gb:32", shuffle=how) for how in ("shard", "global")
    )
    assert mixed.read > 2 * sharded.read
    assert any("--shuffle global" in note for note in sharded.notes)
    assert any("--shuffle shard" in note for note in mixed.notes)


def test_space_that_no_number_of_servers_has_is_told_as_such() -> None:
    notes = storage_size("gpt3-175b", on="dgx-a100:8", tokens="1e18").notes
    assert "Not weka-ra: 4,096 servers of it do not hold 4 EB" in notes


@pytest.mark.parametrize(
    ("read", "write", "capacity", "servers"),
    [(10.0, 1.0, 1.0, 5), (10.1, 1.0, 1.0, 6), (1.0, 7.0, 1.0, 7), (1.0, 1.0, 8.0, 4), (1.0, 1.0, 8.5, 5),
     (0.1, 0.1, 0.1, 3), (1e9, 1.0, 1.0, 0)],
)  # fmt: skip
def test_the_fewest_servers_that_read_write_and_hold_enough(
    monkeypatch: pytest.MonkeyPatch, read: float, write: float, capacity: float, servers: int
) -> None:
    """Each reads 2 B/s, writes 1 B/s and holds 2 B; three at least."""

    def row(system: Any, job: Any, nodes: int) -> Any:
        assert (job.block, nodes) == (1 << 20, 4)
        return SimpleNamespace(bandwidth=system * (2.0 if job.read_share else 1.0))

    monkeypatch.setattr(sizing, "fio_row", row)
    monkeypatch.setattr(sizing, "net_capacity", lambda system: system * 2.0)
    build: Any = int
    assert sizing.servers_needed(build, 4, read=read, write=write, capacity=capacity, least=3) == servers
