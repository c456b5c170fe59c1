"""A simulated step as traces: groups, messages and their other ends, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.graphs.trace_graph import COLLECTIVES, KINDS, TraceGraph
from podsim.hardware.cluster import Cluster
from podsim.simulation.events import play
from podsim.simulation.export import _stream_order, trace_graphs
from podsim.simulation.lower import lower
from podsim.training.plan import Plan
from podsim.workload.model import Model

SEND, RECEIVE, COLLECTIVE = (KINDS.index(kind) for kind in ("send", "recv", "collective"))


@pytest.fixture(scope="module")
def traces(two: Cluster, small: Model) -> list[TraceGraph]:
    """Two stages of 2 x 4 ranks, four micro-batches of 1 x 2,048 tokens of hidden 2,304."""
    plan = Plan(tp=4, pp=2, dp=2, global_batch=8).arrays().take(0)
    lowered = lower(small, two, plan)
    return trace_graphs(lowered, play(lowered.ops), plan, two)


def test_groups_are_ranks_of_the_job(traces: list[TraceGraph]) -> None:
    assert [trace.rank for trace in traces] == [0, 8]
    for trace in traces:
        first = trace.rank
        assert {group.name: group.ranks for group in trace.groups} == {
            "tp": tuple(range(first, first + 4)), "dp": (first, first + 4), "ends": (0, 8), "all": tuple(range(16)),
        }  # fmt: skip


def test_every_send_has_a_receive_with_its_tag(traces: list[TraceGraph]) -> None:
    for sender, receiver in (traces, traces[::-1]):
        sent, came = np.flatnonzero(sender.kind == SEND), np.flatnonzero(receiver.kind == RECEIVE)
        assert len(sent) == len(came) == 4  # one each micro-batch: activations forward, gradients back
        assert sorted(sender.tag[sent]) == sorted(receiver.tag[came])
        assert len(set(sender.tag[sent])) == 4
        assert set(sender.peer[sent]) == {receiver.rank}
        assert set(receiver.peer[came]) == {sender.rank}
        assert receiver.seconds[came].tolist() == [0.0] * 4
        whole = 2048 * 2304 * 2
        for trace, ops in ((sender, sent), (receiver, came)):
            assert all(size in (whole, whole / 4) for size in trace.bytes[ops])
        ends = dict(zip(sender.tag[sent], (sender.start + sender.seconds)[sent], strict=True))
        assert [ends[tag] for tag in receiver.tag[came]] == pytest.approx(receiver.start[came])


def test_collectives_have_their_group_and_bytes(traces: list[TraceGraph]) -> None:
    for trace in traces:
        told = {
            (COLLECTIVES[trace.collective[op]], trace.groups[trace.group[op]].name, float(trace.bytes[op]))
            for op in np.flatnonzero(trace.kind == COLLECTIVE)
        }
        assert ("all_reduce", "tp", 2048 * 2304 * 2.0) in told
        assert ("barrier", "all", 0.0) in told
        ours = [
            op
            for op in np.flatnonzero(trace.kind == COLLECTIVE)
            if trace.groups[trace.group[op]].name == "dp"
        ]
        # fp32 gradients of twelve layers of 12 h^2 over four ranks; the first stage has words over four, and positions
        parameters = 12 * 12 * 2304**2 / 4 + (trace.rank == 0) * (51200 * 2304 / 4 + 2048 * 2304)
        assert trace.bytes[ours].sum() == pytest.approx(4 * parameters, rel=2e-3)
        others = trace.group[trace.kind != COLLECTIVE]
        assert (others == -1).all()


def test_ops_of_a_stream_follow_one_another(traces: list[TraceGraph]) -> None:
    assert _stream_order(np.array([0, 1, 0, 1, 1])).tolist() == [[0, 1, 3], [2, 3, 4]]
    for trace in traces:
        after = np.repeat(np.arange(len(trace)), np.diff(trace.first))
        ready = (trace.start + trace.seconds)[trace.before]
        assert (trace.start[after] >= ready - 1e-9).all()
        names = [trace.streams[stream] for stream in trace.stream]
        assert {name for name, kind in zip(names, trace.kind, strict=True) if kind == RECEIVE} == {"receive"}
