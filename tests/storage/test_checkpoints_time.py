"""Seconds of checkpoints: by hand on one server, bounds on many, published ones, and what cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import CatalogError, NoFitError, PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.storage.checkpoints import state_of
from podsim.storage.checkpoints_links import _run_flows, transfer, wires_of
from podsim.storage.checkpoints_stores import _catalog, load_store, read_stores
from podsim.storage.checkpoints_time import PLACES, Saving, checkpoint_times
from podsim.storage.sizing import guidance
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

NODE = load_cluster("dgx-a100:1")
TWO = load_cluster("dgx-a100:2")
SLOT = 24.4e9


def even(cluster: Cluster, each: float) -> np.ndarray:
    return np.full(cluster.gpus, each)


def test_to_the_servers_memory() -> None:
    """Two GPUs of a DGX A100 share the way from their PCIe switch to the processor."""
    found = transfer(wires_of(NODE), even(NODE, 12.2e9), to="host")
    assert found.seconds == pytest.approx(2 * 12.2e9 / SLOT)
    assert (found.link, found.size) == ("PCIe switch to processor", 8 * 12.2e9)


@pytest.mark.parametrize("sizes", [[-1.0] * 8, [math.nan] * 8, [math.inf] * 8, [1.0] * 7, []])
def test_sizes_that_are_none(sizes: list[float]) -> None:
    with pytest.raises(PodsimError, match="0 B or more for each GPU of whole servers of 8"):
        transfer(wires_of(NODE), np.array(sizes), to="host")


def test_nothing_takes_no_time() -> None:
    found = transfer(wires_of(NODE), np.zeros(8), to="host")
    assert (found.seconds, found.link) == (0.0, "nothing to move")


def test_one_gpu_has_the_slot_for_itself() -> None:
    alone = np.zeros(8)
    alone[3] = 12.2e9
    assert transfer(wires_of(NODE), alone, to="host").seconds == pytest.approx(12.2e9 / SLOT)


def test_the_rest_speeds_up_when_one_is_through() -> None:
    """GPUs 0 and 1 share a slot: after 1 s both have moved half of it, then GPU 1 has it all."""
    sizes = np.zeros(8)
    sizes[0], sizes[1] = SLOT / 2, SLOT
    assert transfer(wires_of(NODE), sizes, to="host").seconds == pytest.approx(1.5)


def test_to_drives_and_to_a_neighbour() -> None:
    drives = transfer(wires_of(NODE), even(NODE, 3.5e9), to="local")
    assert drives.seconds == pytest.approx(8 * 3.5e9 / (8 * 3.5e9))
    assert drives.link == "PCIe switch to drive"
    back = transfer(wires_of(NODE), even(NODE, 3.5e9), to="local", back=True)
    assert back.seconds == pytest.approx(3.5 / 6.5)
    assert back.link == "drive to PCIe switch"
    wire = transfer(wires_of(TWO), even(TWO, 24.4e9), to="neighbour")
    assert wire.seconds == pytest.approx(1.0)  # 24.4 GB/s through the slot, 25 on the wire


def test_the_store_is_one_link_for_all() -> None:
    store = load_store("10 GB/s")
    for cluster in (NODE, TWO):
        found = transfer(wires_of(cluster), even(cluster, 1e9), to="store", store=store)
        assert found.seconds == pytest.approx(cluster.gpus * 1e9 / 10e9)
        assert found.link == "the store"


def test_a_server_has_its_share_of_the_store() -> None:
    store = load_store("superpod-good").sized(320)
    found = transfer(wires_of(TWO), even(TWO, 1e9), to="store", store=store)
    assert found.seconds == pytest.approx(8e9 / 2e9)
    assert found.link == "one server's share of the store"
    back = transfer(wires_of(TWO), even(TWO, 1e9), to="store", store=store, back=True)
    assert back.seconds == pytest.approx(8e9 / 4e9)


def test_a_server_without_storage_adapters_sends_over_its_own() -> None:
    old = load_cluster("dgx-1-v100-16gb:2")
    assert old.system.storage_nics == 0
    found = transfer(wires_of(old), even(old, 1e9), to="store", store=load_store("100 TB/s"))
    assert found.seconds >= 8e9 / (old.nics * old.network.bandwidth) * (1 - 1e-9)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.0, 1e11), min_size=16, max_size=16), st.sampled_from(PLACES), st.booleans(),
    st.floats(1e9, 1e12),
)  # fmt: skip
def test_no_faster_than_any_cut(sizes: list[float], to: str, back: bool, speed: float) -> None:
    each = np.array(sizes)
    store = load_store(f"{speed} B/s") if to == "store" else None
    found = transfer(wires_of(TWO), each, to=to, store=store, back=back)
    whole = each.sum()
    assert found.size == pytest.approx(whole)
    cuts = [each.max() / SLOT, each.reshape(8, 2).sum(axis=1).max() / (2 * SLOT)]
    cuts += [whole / speed] if store else []
    assert found.seconds >= max(cuts) * (1 - 1e-6)
    doubled = transfer(wires_of(TWO), 2 * each, to=to, store=store, back=back)
    assert doubled.seconds == pytest.approx(2 * found.seconds)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(PLACES), st.floats(1e6, 1e11))
def test_equal_servers_are_one_class(to: str, each: float) -> None:
    store = load_store("1 TB/s") if to == "store" else None
    few, many = (load_cluster(f"dgx-a100:{n}") for n in (2, 40))
    times = [transfer(wires_of(c), even(c, each), to=to, store=store).seconds for c in (few, many)]
    if to == "store":
        assert times[1] == pytest.approx(max(times[0], 320 * each / 1e12), rel=1e-6)
    else:
        assert times[1] == pytest.approx(times[0])


# ------------------------------------------------------------------------------------------------------- published rows


def test_a_trillion_parameters_on_selene() -> None:
    """13.8 TB at 273 GB/s are 50.5 s; ours are 2.3 % more bytes. Each of six replicas reads: 85 s at 1 TB/s."""
    cluster = load_cluster("selene").subset(3072)
    plan = Plan(tp=8, pp=64, dp=6, global_batch=3072, precision="fp16")
    times = checkpoint_times(load_model("gpt-1t"), cluster, plan, Saving(store="selene", writers="replica"))
    assert times.stall == pytest.approx(13.8e12 / 273e9, rel=0.04)
    assert times.persist == 0
    assert times.write.link == "the store"
    assert times.read.seconds == pytest.approx(6 * times.state.size / 1e12, rel=0.01)


def test_bloom_on_jean_zay() -> None:
    """The bandwidth is that of this very row; what is predicted is the size, and that no server link is in the way."""
    cluster = load_cluster("dgx-a100:48")
    plan = Plan(tp=4, pp=12, dp=8, global_batch=2048, zero=1)
    times = checkpoint_times(load_model("bloom-176b"), cluster, plan, Saving(store="jean-zay"))
    assert times.stall == pytest.approx(40, rel=0.03)
    assert times.stall / (100 * 105 + times.stall) == pytest.approx(0.0037, abs=0.0001)


# --------------------------------------------------------------------------------------------------- sync, async, places

LLAMA = load_model("llama-3.1-8b")
PLAN = Plan(tp=1, dp=16, zero=1, global_batch=16)


def test_async_stops_for_the_copy_only() -> None:
    sync, late = (checkpoint_times(LLAMA, TWO, PLAN, Saving(mode=mode)) for mode in ("sync", "async"))
    assert late.stall == pytest.approx(2 * LLAMA.parameters * 14 / 16 / SLOT, rel=1e-3)
    assert late.stall < sync.stall
    assert late.persist == pytest.approx(sync.stall, rel=1e-6)  # the store is what is full, either way
    assert sync.persist == 0.0


@pytest.mark.parametrize("to", PLACES)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_every_place(to: str, mode: str) -> None:
    times = checkpoint_times(LLAMA, TWO, PLAN, Saving(to=to, mode=mode))
    assert 0 < times.stall < math.inf
    assert (times.persist > 0) == (mode == "async")
    assert times.read.seconds > 0
    assert state_of(LLAMA, PLAN).size == times.state.size


def test_what_does_not_fit() -> None:
    plan = Plan(dp=16, zero=1, global_batch=16)
    with pytest.raises(NoFitError, match=r"3 copies of .* do not fit the 2\.048 TB"):
        checkpoint_times(load_model("gpt-1t"), TWO, plan, Saving(to="neighbour", mode="async"))
    with pytest.raises(NoFitError, match=r"2 checkpoints of .* drives"):
        checkpoint_times(load_model("gpt4-1.8t"), NODE, Plan(dp=8, global_batch=8), Saving(to="local"))


def test_ways_that_are_not_there() -> None:
    with pytest.raises(PodsimError, match="has one node"):
        checkpoint_times(LLAMA, NODE, Plan(dp=8, global_batch=8), Saving(to="neighbour"))


def test_words_all_at_once() -> None:
    with pytest.raises(
        PodsimError, match=r"to='moon' may be store.*mode='now' may be sync.*writers='me' may be all"
    ):
        Saving(to="moon", mode="now", writers="me")
    with pytest.raises(
        PodsimError, match=f"to='{'x' * 40}' may be"
    ):  # of a long word as much as a line holds
        Saving(to="x" * 100)


def test_flows_share_again_when_one_is_through_and_the_first_names_the_full_link() -> None:
    """Two at 0.5 B/s through a link of 1 B/s; after 2 s the second has its 4 B left for its other link, of 0.9 B/s."""
    ways, sizes = [np.array([0]), np.array([0, 1])], np.array([1.0, 5.0])
    seconds, fullest = _run_flows(ways, sizes, np.ones(2), np.array([1.0, 0.9]))
    assert (seconds, fullest) == (pytest.approx(2 + 4 / 0.9), 0)


# ---------------------------------------------------------------------------------------------------------------- stores


def test_every_store_has_a_source() -> None:
    for store in _catalog().values():
        assert store.source
        assert 0 < store.write <= store.client_write * max(store.nodes, 1)
        assert store.read >= store.write or store.notes


def test_a_store_grows_with_the_cluster_if_it_is_sized_so() -> None:
    assert load_store("superpod-better").sized(128).write == 80e9  # as the guidance for four units says
    assert load_store("superpod-best").sized(128).read == 500e9
    assert load_store("selene").sized(1).write == 273e9


@pytest.mark.parametrize("name", ["good", "better", "best"])
@pytest.mark.parametrize("nodes", [1, 2, 16, 32])
def test_a_small_store_is_that_of_the_guidance(name: str, nodes: int) -> None:
    """One node has its own row of the table, and not a thirty-second of a unit's."""
    store = load_store(f"superpod-{name}").sized(nodes)
    assert (store.read, store.write) == pytest.approx(guidance(nodes)[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [("selena", "did you mean selene"), ("-3 GB/s", "no bandwidth"), ("0", "no bandwidth"), ("3 GB", "expected"),
     ("nan", "unknown store"), ("1e999 B/s", "not finite"), ("", "unknown store")],
)  # fmt: skip
def test_unknown_stores(name: str, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        load_store(name)


def test_a_wrong_file_of_stores() -> None:
    raw = {
        "sources": {"a": "b"},
        "stores": {"x": {"title": "t", "source": "c", "read": "-1 B/s", "colour": 3}},
    }
    with pytest.raises(CatalogError) as caught:
        read_stores(raw)
    for word in ("colour", "write is missing", "unknown source", "read must be positive"):
        assert word in str(caught.value)
