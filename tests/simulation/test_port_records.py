"""What ports carry in a simulated step, and what enters messages, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.errors import SimulationError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.simulation.events import play
from podsim.simulation.lower import _bytes, lower
from podsim.simulation.lower_links import Trouble, with_slow_hosts
from podsim.simulation.pairs import _extend_piece
from podsim.simulation.pieces import MIX, Piece
from podsim.simulation.port_flows import planned_fabric
from podsim.simulation.port_records import _storage_rows, ranges_text, step_telemetry
from podsim.training.plan import Plan
from podsim.training.software import load_software
from podsim.workload.model import Model


@pytest.mark.parametrize(("zero", "times"), [(0, 2.0), (1, 1.0)])
def test_bytes_of_messages(two: Cluster, zero: int, times: float) -> None:
    """A stage of an embedding of 100 parameters, two layers of 7, one of 9 and a head of 50, and one with 1 expert each.

    Sixteen ranks on two nodes: half of the bytes leave a node, over eight adapters; an all-reduce twice.
    """
    entry = replace(load_software("megatron-core"), gradient_bytes=4.0)
    parameters: Any = SimpleNamespace(
        dense=np.array([[100.0], [6.0], [8.0], [50.0]]), expert=np.array([[0.0], [1.0], [1.0], [0.0]]),
        trained=None, stored=None,
    )  # fmt: skip
    plan = Plan(dp=16, zero=zero, global_batch=16).arrays()
    found = _bytes(two, plan.take(0), entry, np.array([[1.0], [2.0], [1.0], [1.0]]), parameters)
    messages = [173 * 4, 173 * 2, 9 * 2, 9 * 4, 150 * 4]
    assert [size for size, _ in found] == messages
    out = [size / 2 / 8 * more for size, more in zip(messages, (times, 1, 1, 1, 1), strict=True)]
    assert [leaving for _, leaving in found] == pytest.approx(out)


def test_a_piece_that_goes_on_has_the_parts_of_both() -> None:
    forward, sums = Piece(name="f", kind="compute", seconds=2.0), Piece(name="m", kind="compute", seconds=1.0)
    mixed = replace(sums, mix=MIX["tp"] * 1.0)
    plain = _extend_piece(forward, sums, same=True)
    assert (plain.seconds, plain.mix) == (3.0, None)
    for pair in ((forward, mixed), (mixed, forward)):
        both = _extend_piece(*pair, same=True)
        assert both.seconds == 3.0
        assert both.mix == pytest.approx(MIX["compute"] * 2 + MIX["tp"])
        assert _extend_piece(*pair, same=False).parts == pytest.approx(both.mix)


def test_adapters_carry_gradients_once_and_servers_read_their_samples(two: Cluster, small: Model) -> None:
    """An all-reduce of g bytes on two nodes: each node sends 2 x 1/2 x g, over eight adapters; samples of 4 B a token."""
    plan = Plan(dp=16, global_batch=32, micro_batch=2).arrays().take(0)
    lowered = lower(small, two, plan)
    played = play(lowered.ops)
    record = step_telemetry(two, plan, lowered, played, Trouble(), "test")
    assert (record.seconds, record.source) == (played.seconds, "simulated")
    whole = [row for row in record.rows if row.kind == "adapter" and not row.collective]
    gradients = lowered.ready.software.gradient_bytes * small.parameters
    for node in range(2):
        out = [row.bytes for row in whole if row.port.startswith(f"node{node}/") and row.port.endswith("out")]
        assert len(out) == 8
        assert sum(out) == pytest.approx(gradients, rel=0.02)
    read = [row for row in record.rows if row.kind == "storage"]
    assert [row.port for row in read] == ["node0/storage in", "node1/storage in"]
    assert [row.ranks for row in read] == ["0-7", "8-15"]
    assert [row.bytes for row in read] == pytest.approx([16 * 2048 * 4] * 2, rel=1e-3)


def test_a_slow_disk_reads_longer(two: Cluster) -> None:
    plan: Any = SimpleNamespace(gpus=12, global_batch=8)
    sound, slow = _storage_rows(two, plan, 1e6, 100.0, Trouble(disk={1: 10.0}))
    assert slow.ranks == "8-11"
    assert slow.capacity == sound.capacity
    assert sound.queued_rate / slow.queued_rate == pytest.approx(10, rel=0.5)
    assert slow.busy == pytest.approx(8 / 2 * 1e6 * 4 / slow.queued_rate)


def test_ranges() -> None:
    assert ranges_text([3, 1, 2, 12]) == "1-3,12"
    assert ranges_text([]) == ""
    assert ranges_text(range(0, 18, 2)) == "0,2,4,6,8,10,12,14,…"
    assert ranges_text(range(0, 16, 2)) == "0,2,4,6,8,10,12,14"


def test_servers_whose_traffic_passes_their_processors_have_a_part_of_their_adapters_left() -> None:
    """24.4 GB/s of copies over a way that two GPUs and two adapters share, each way: 6.1 of 25 GB/s an adapter."""
    two = load_cluster("dgx-a100:2")
    slow = with_slow_hosts(Trouble(hosts={1: "no-gpudirect"}, link={9: 0.1, 3: 0.5}), two, 12)
    left = 24.4 / 4 / 25
    assert slow.link == {
        3: 0.5,
        8: pytest.approx(left),
        9: 0.1,
        10: pytest.approx(left),
        11: pytest.approx(left),
    }
    one = replace(two, network=replace(two.network, bandwidth=1e9))
    assert with_slow_hosts(Trouble(hosts={1: "no-gpudirect"}), one, 12).link == dict.fromkeys(
        range(8, 12), 1.0
    )
    for server in (-1, 2):
        with pytest.raises(SimulationError, match="the job has 0 to 1"):
            with_slow_hosts(Trouble(hosts={server: "no-gpudirect"}), two, 12)


def test_exchanged_cables_lead_to_each_others_leaves(two: Cluster) -> None:
    """GPU 0 has adapter 0 of its node, and rank 9 adapter 1 of the next one."""

    def leaf(swap: dict[int, int], adapter: str) -> str:
        fabric = planned_fabric(two, swap)
        (link,) = fabric.find(f"{adapter}>leaf*")
        return fabric.link_name(int(link)).split(">")[1]

    assert (leaf({}, "node0/nic0"), leaf({}, "node1/nic1")) == ("leaf0", "leaf1")
    assert (leaf({0: 9}, "node0/nic0"), leaf({0: 9}, "node1/nic1")) == ("leaf1", "leaf0")
    assert leaf({0: 9}, "node1/nic0") == "leaf0"
