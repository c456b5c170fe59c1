"""Exchange with MSCCL: there and back, programs as others write them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import TableError
from podsim.network.collectives import ALGORITHMS, expand, prove, split, summary
from podsim.network.collectives.msccl import from_msccl, to_msccl
from podsim.network.collectives.rings import (
    chain_broadcast,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)

BY_NAME = {algorithm.name: algorithm.build for algorithm in ALGORITHMS}
KNOWN = [algorithm for algorithm in ALGORITHMS if algorithm.name != "in-network"]


SEVERAL_ROWS = ("hierarchical all-to-all", "torus all-to-all", "torus reduce-scatter", "torus all-gather")
"""in these, an edge has several rows in one step; in the last two, as chunks do not stay neighbours in MSCCL's buffers"""


def places(table):
    """Where MSCCL has each chunk: it numbers those of one rank in a row."""
    owner = {"all-gather": table.home, "reduce-scatter": table.goal}.get(
        table.collective, np.zeros(table.chunks)
    )
    return np.argsort(np.argsort(owner, kind="stable"))


def moved(table, *, steps=False):
    """Who sent which chunk to whom, and how: one entry a chunk, by its place in MSCCL's buffers."""
    flat, _ = expand(table)
    index = np.repeat(np.arange(len(flat.step)), flat.count)
    shift = np.arange(len(index)) - np.repeat(np.cumsum(flat.count) - flat.count, flat.count)
    columns = [flat.source, flat.destination, flat.reduce, flat.own, flat.channel] + [flat.step] * steps
    return sorted(
        zip(
            places(table)[flat.chunk[index] + shift].tolist(),
            *(c[index].tolist() for c in columns),
            strict=True,
        )
    )


@pytest.mark.parametrize("algorithm", KNOWN, ids=lambda a: a.name)
@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 12])
def test_there_and_back(algorithm, ranks):
    table = algorithm.build(ranks)
    if np.ptp(table.sizes) > 0:  # a torus of unequal axes
        assert algorithm.name.startswith("torus")
        with pytest.raises(TableError, match="chunks of different sizes"):
            to_msccl(table)
        table = replace(table, sizes=np.full(table.chunks, table.sizes.mean()))
    back = from_msccl(to_msccl(table))
    assert moved(back) == moved(table)
    prove(back)
    if algorithm.name not in SEVERAL_ROWS:
        assert summary(back).rounds <= summary(table).rounds
    again = from_msccl(to_msccl(back))
    assert moved(again, steps=True) == moved(back, steps=True)


def test_steps_of_a_pipeline_are_found_again():
    table = chain_broadcast(5, pieces=4)
    assert moved(from_msccl(to_msccl(table)), steps=True) == moved(table, steps=True)


def test_orders_of_rings_become_places_in_buffers():
    order = np.array([2, 0, 3, 1])
    prove(from_msccl(to_msccl(ring_all_gather(4, order))))
    prove(from_msccl(to_msccl(ring_reduce_scatter(4, order))))


# an all-reduce of two ranks as msccl-tools writes it: fused steps, one thread block for both directions
FUSED = """
<algo name="fused" proto="LL" nchannels="1" nchunksperloop="2" ngpus="3" coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="1" recv="2" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="rcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="2" recv="0" chan="0">
      <step s="0" type="rrs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="2" i_chunks="2" o_chunks="0" s_chunks="0">
    <tb id="0" send="0" recv="1" chan="0">
      <step s="0" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"""


def test_fused_steps_of_another_program():
    table = from_msccl(FUSED)
    prove(table)
    assert summary(table).rounds == 4
    assert list(zip(table.source.tolist(), table.destination.tolist(), table.count.tolist(), strict=True)) == [
        (0, 1, 2), (1, 2, 2), (2, 0, 2), (0, 1, 2),
    ]  # fmt: skip


def all_pairs(ranks):
    """As msccl-tools writes an all-reduce of all pairs: received beside the data, added there, sent to all."""
    gpus = []
    for rank in range(ranks):
        peers = [peer for peer in range(ranks) if peer != rank]
        blocks = []
        for place, peer in enumerate(peers):
            seat = [other for other in range(ranks) if other != peer].index(rank)
            blocks.append((place, peer, [
                ("s", ("i", peer), ("s", seat), -1, -1), ("r", ("i", rank), ("s", place), -1, -1),
                ("s", ("i", rank), ("i", rank), ranks - 1, ranks - 2), ("r", ("i", peer), ("i", peer), -1, -1),
            ]))  # fmt: skip
        adds = [("re", ("s", place), ("i", rank), place, 1) for place in range(ranks - 1)]
        blocks.append((ranks - 1, -1, adds))
        gpus.append(f'<gpu id="{rank}">' + "".join(
            f'<tb id="{number}" send="{peer}" recv="{peer}" chan="0">' + "".join(
                f'<step s="{s}" type="{kind}" srcbuf="{a}" srcoff="{b}" dstbuf="{c}" dstoff="{d}" cnt="1" '
                f'depid="{block}" deps="{step}" hasdep="0"/>'
                for s, (kind, (a, b), (c, d), block, step) in enumerate(steps)
            ) + "</tb>" for number, peer, steps in blocks
        ) + "</gpu>")  # fmt: skip
    return (
        f'<algo name="all pairs" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allreduce" inplace="1">'
        + "".join(gpus) + "</algo>"
    )  # fmt: skip


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_what_is_received_beside_the_data_and_added_is_a_transfer_that_adds(ranks):
    table = from_msccl(all_pairs(ranks))
    prove(table)
    assert moved(table) == moved(BY_NAME["partitioned"](ranks))
    assert summary(table).rounds == 2
    with pytest.raises(TableError, match=r"gpu 0 adds s\[7\], which it has not received"):
        from_msccl(all_pairs(ranks).replace('"re" srcbuf="s" srcoff="0"', '"re" srcbuf="s" srcoff="7"', 1))


def test_the_input_of_an_all_gather_is_a_ranks_own_part():
    gpus = []
    for rank in range(2):
        send = "".join(
            f'<step s="{k}" type="s" srcbuf="i" srcoff="{k}" dstbuf="o" dstoff="{2 * rank + k}" cnt="1"/>'
            for k in range(2)
        )
        take = f'<step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{2 - 2 * rank}" cnt="1"/>'
        take += f'<step s="3" type="r" srcbuf="i" srcoff="1" dstbuf="o" dstoff="{3 - 2 * rank}" cnt="1"/>'
        own = f'<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{2 * rank}" cnt="2"/>'
        gpus.append(
            f'<gpu id="{rank}"><tb id="0" send="{1 - rank}" recv="{1 - rank}" chan="0">{send}{take}</tb>'
            f'<tb id="1" send="-1" recv="-1" chan="0">{own}</tb></gpu>'
        )
    head = '<algo name="gather" nchunksperloop="4" ngpus="2" coll="allgather" inplace="0">'
    table = from_msccl(head + "".join(gpus) + "</algo>")
    prove(table)
    assert [(row[1], row[2], row[0]) for row in moved(table)] == [(0, 1, 0), (0, 1, 1), (1, 0, 2), (1, 0, 3)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('type="rrcs"', 'type="magic"', "gpu 2 tb 0 step 0 has type 'magic'; known: cpy, nop, r"),
        ('ngpus="3"', 'ngpus="2"', "gpu 0 tb 0 has peer 2; ranks are 0 to 1"),
        ('ngpus="3"', 'ngpus="lots"', "ngpus='lots'; a whole number is needed"),
        ('ngpus="3"', 'ngpus="100000"', "ngpus=100000; 1 to 65536"),
        ('coll="allreduce"', 'coll="alldance"', "coll='alldance'; known: allreduce"),
        ('nchunksperloop="2"', 'nchunksperloop="900000000"', "nchunksperloop=900000000"),
        ('type="s" srcbuf="i"', 'type="s" srcbuf="s"', r"gpu 0 reads s\[0\], where nothing has been put"),
        (
            'type="s"',
            'type="nop"',
            "deadlock, 3 thread blocks wait for ever: gpu 0 tb 0 step 1, gpu 1 tb 0 step 0",
        ),
        ('cnt="2" depid="-1"', 'cnt="1" depid="-1"', "gpu 1 receives 2 chunks from 0, which sent 1"),
        ('cnt="2" depid="-1"', 'cnt="7" depid="-1"', "cnt=7.*too many chunks"),
        ('depid="-1" deps="-1"', 'depid="5" deps="0"', "deadlock"),
        ('<gpu id="1"', '<gpu id="7"', "gpu id=7; there are ranks 0 to 2"),
        ("</algo>", "", "not XML"),
        ("<algo ", "<program ", "not XML"),
    ],
)
def test_refusals(old, new, message):
    with pytest.raises(TableError, match=message):
        from_msccl(FUSED.replace(old, new, 1))


def test_declarations_are_not_read():
    bomb = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><algo name="&b;"/>'
    with pytest.raises(TableError, match="a document type or entity declaration"):
        from_msccl(bomb)
    with pytest.raises(TableError, match="the document is a <graphs>"):
        from_msccl("<graphs/>")
    assert from_msccl(FUSED.replace("<gpu", "<!-- a comment --><gpu", 1)).ranks == 3


def test_only_so_many_characters_are_read(monkeypatch):
    monkeypatch.setattr("podsim.network.collectives.msccl.LARGEST", 100)
    with pytest.raises(TableError, match="characters; at most 100"):
        from_msccl(FUSED)


def test_a_sum_of_different_chunks_cannot_be_said():
    wrong = FUSED.replace('type="rrs" srcbuf="i" srcoff="0"', 'type="rrs" srcbuf="i" srcoff="1"', 1).replace(
        'cnt="2"', 'cnt="1"'
    )
    with pytest.raises(TableError, match="adds chunk 0 to another one"):
        from_msccl(wrong)


def test_what_msccl_cannot_say():
    for table, message in (
        (next(a.build(4) for a in ALGORITHMS if a.name == "in-network"), "1 switches; MSCCL has ranks only"),
        (split(ring_all_reduce(3), 4), "chunks of different sizes"),
        (chain_broadcast(4, root=2), "MSCCL cannot say so"),
        (replace(ring_all_gather(3), home=np.array([0, 0, 1])), "ranks own different numbers of chunks"),
    ):
        with pytest.raises(TableError, match=message):
            to_msccl(table)
