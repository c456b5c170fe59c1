"""Costs of captured graphs: sums, published runs of ResNet-50, buckets, and the step as a trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.accuracy.tables import load
from podsim.errors import ModelError, PlanError
from podsim.graphs.frozen_layers import trained_graph
from podsim.graphs.fusion import fuse
from podsim.graphs.graph_cost import graph_costs, update_seconds
from podsim.graphs.graph_step import bucket_sizes, reduce_gradients, tables_seconds
from podsim.graphs.graph_trace import step_trace
from podsim.graphs.networks import load_network
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.op_graph_json import read_graph
from podsim.graphs.trace_graph import KINDS, critical_seconds
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.training.shapes import group_seconds
from podsim.training.software import load_software

GRAPH = Path(__file__).parents[2] / "examples" / "modules" / "resnet50.json"
A100 = load_gpu("a100-sxm4-80gb")
SOFTWARE = load_software("megatron-core", A100)


@pytest.fixture(scope="module")
def resnet() -> OpGraph:
    return read_graph(GRAPH)


def test_ops_are_costed_by_their_own_laws(resnet: OpGraph) -> None:
    costs = graph_costs(resnet, A100, "fp16", SOFTWARE)
    last = len(resnet) - 1
    product = gemm_seconds(A100, 256, 1000, 2048, precision="fp16") / SOFTWARE.gemm_speed
    assert costs.forward[last] == pytest.approx(product)
    relu = resnet.targets.index("relu")
    assert costs.forward[relu] == pytest.approx(
        memory_seconds(A100, 2 * 2 * 256 * 64 * 112**2) / SOFTWARE.memory_speed
    )
    assert np.all(costs.light <= costs.forward + costs.backward)
    assert costs.passes == (max(costs.forward.sum(), costs.host), max(costs.backward.sum(), costs.host_back))


def test_half_the_bytes_in_16_bits(resnet: OpGraph) -> None:
    half, whole = (graph_costs(resnet, A100, p, SOFTWARE) for p in ("fp16", "tf32"))
    assert np.allclose(2 * half.moved, whole.moved)
    assert half.forward.sum() < whole.forward.sum()


def test_fusing_is_never_slower(resnet: OpGraph) -> None:
    eager, merged = (sum(graph_costs(g, A100, "fp16", SOFTWARE).passes) for g in (resnet, fuse(resnet)))
    assert merged < eager


def test_small_batches_wait_for_the_host(resnet: OpGraph) -> None:
    costs = graph_costs(resnet, A100, "fp16", SOFTWARE)
    assert costs.host == pytest.approx(227 * SOFTWARE.host_kernel)


def test_lamb_passes_over_weights_and_steps_twice_more_than_adam(resnet: OpGraph) -> None:
    adam, lamb = (update_seconds(resnet, A100, "fp32", name, SOFTWARE) for name in ("adam", "lamb"))
    assert 1.5 * adam < lamb < 2 * adam


def test_the_host_starts_an_update_op_by_op(resnet: OpGraph) -> None:
    slow = replace(SOFTWARE, host_update=1e-3)
    with_weights = sum(count > 0 for count in resnet.parameters)
    assert update_seconds(resnet, A100, "fp32", "sgd", slow) == pytest.approx(with_weights * 1e-3)


def test_gradients_that_come_at_once_are_exposed_after_a_cycle() -> None:
    cluster = load_cluster("dgx-a100-80gb:1")
    parameters, backward = np.full(10, 1e7), np.full(10, 1.0)
    late = replace(SOFTWARE, can_overlap=(), collective_wait=2.5e-3)
    hidden, exposed = (
        reduce_gradients(parameters, backward, cluster, software, gpus=8) for software in (SOFTWARE, late)
    )
    assert exposed.exposed == pytest.approx(exposed.seconds + 2.5e-3)
    assert hidden.exposed < exposed.exposed


def test_tables_with_sparse_gradients_are_divided_and_their_rows_exchanged() -> None:
    graph, node = load_network("dlrm", 8192), load_cluster("dgx-a100-80gb:1")
    rows = 8192 * 26 * 128 * 2.0
    sent = group_seconds(
        "all_to_all", np.array(rows), node, SOFTWARE, ranks=np.array(8), members=np.array(8.0)
    )
    found = tables_seconds(graph, "fp16", node, SOFTWARE, gpus=8)
    assert found == pytest.approx(2 * (float(sent) + SOFTWARE.host_collective))
    assert tables_seconds(graph, "fp16", node, SOFTWARE, gpus=1) == 0
    assert tables_seconds(load_network("ncf", 8192), "fp16", node, SOFTWARE, gpus=8) == 0
    made = podsim.graph("dlrm", batch=8192, on="dgx-a100-80gb:1", precision="fp16").data_parallel
    assert made is not None
    assert made.tables == pytest.approx(found, rel=0.5)
    assert made.bytes < 30e6  # the layers' gradients; those of the tables stay


def test_unknown_words(resnet: OpGraph) -> None:
    with pytest.raises(PlanError, match="precision"):
        graph_costs(resnet, A100, "fp12", SOFTWARE)
    with pytest.raises(PlanError, match="did you mean sgd"):
        update_seconds(resnet, A100, "fp16", "sgdm", SOFTWARE)


CASES = {
    "dle00046": ("MxNet", "dgx-a100-80gb:1", 1, "fp16", "chains"),
    "dle00050": ("MxNet", "dgx-a100-80gb:1", 8, "fp16", "chains"),
    "dle00058": ("MxNet", "dgx-1-v100-16gb:1", 8, "fp16", "chains"),
    "dle00059": ("MxNet", "dgx-1-v100-16gb:1", 8, "fp32", "chains"),
    "dle00503": ("PyTorch", "dgx-a100-80gb:1", 1, "fp16", "none"),
    "dle00515": ("PyTorch", "dgx-1-v100-16gb:1", 8, "fp16", "none"),
    "dle00514": ("PyTorch", "dgx-1-v100-16gb:1", 8, "fp32", "none"),
}
"""row: framework, cluster, GPUs, precision, fusion. None of them was fitted; TF32 is off by half (docs/graphs.md)"""


@pytest.mark.parametrize("row", CASES)
def test_published_runs_of_resnet(row: str) -> None:
    framework, on, gpus, precision, rule = CASES[row]
    measured = load("vision")[row]
    assert measured.text("framework") == framework
    made = podsim.graph(str(GRAPH), on=on, gpus=gpus, precision=precision, fuse=rule)
    found = made.data_parallel.samples_per_second if made.data_parallel else made.samples_per_second
    images = measured.number("throughput")
    assert images is not None
    assert abs(found / images - 1) < 0.16


def test_buckets_by_hand() -> None:
    """1 MiB starts, then 25 MiB; the op that fills a bucket goes into it whole."""
    sizes, last = bucket_sizes(np.array([0.5, 0.75, 30, 10, 20, 1]) * 2**20)
    assert (sizes / 2**20).tolist() == [1.25, 30, 30, 1]
    assert last.tolist() == [1, 2, 4, 5]
    assert bucket_sizes(np.zeros(3))[0].tolist() == []
    assert sizes[1] > 25 * 2**20


def test_reducing_hides_behind_the_backward_pass() -> None:
    cluster = load_cluster("dgx-a100-80gb:2")
    parameters = np.full(10, 5e6)
    slow = reduce_gradients(parameters, np.full(10, 1.0), cluster, SOFTWARE, gpus=16)
    assert slow.seconds < 1.0
    # the last bucket holds the first op's gradients, and only it can end after the backward pass
    assert slow.took[-1] <= slow.exposed + 1e-12 or slow.exposed == pytest.approx(
        slow.seconds * SOFTWARE.contention, rel=0.5
    )
    quick = reduce_gradients(parameters, np.full(10, 1e-9), cluster, SOFTWARE, gpus=16)
    assert quick.exposed == pytest.approx(quick.seconds, rel=1e-3)
    assert quick.bytes == 10 * 5e6 * SOFTWARE.gradient_bytes
    assert reduce_gradients(parameters, np.full(10, 1.0), cluster, SOFTWARE, gpus=1).exposed == 0


def test_the_step_as_a_trace(resnet: OpGraph) -> None:
    costs = graph_costs(resnet, A100, "fp16", SOFTWARE)
    reduction = reduce_gradients(
        resnet.parameters, costs.backward, load_cluster("dgx-a100-80gb:1"), SOFTWARE, gpus=8
    )
    trace = step_trace(resnet, costs, 1e-3, ranks=8, gradient_bytes=4.0, reduce=reduction.took)
    busy = costs.forward.sum() + costs.backward.sum() + 1e-3
    assert critical_seconds(trace) >= busy * (1 - 1e-12)
    assert critical_seconds(trace) <= busy + reduction.took.sum()
    messages = trace.bytes[trace.kind == KINDS.index("collective")]
    assert messages.sum() == 4.0 * resnet.parameters.sum()
    assert trace.flops.sum() == resnet.flops.sum() + resnet.flops_back.sum()
    alone = step_trace(resnet, costs, 1e-3, ranks=1, gradient_bytes=4.0, reduce=np.zeros(0))
    assert critical_seconds(alone) == pytest.approx(busy)


def test_frozen_layers_of_a_network_have_no_backward_pass(resnet: OpGraph) -> None:
    """Kept of ResNet-50's 54 layers: the last one, 2,048 x 1,000 weights and 1,000 biases, by hand."""
    last = trained_graph(resnet, "frozen:53")
    assert last.parameters.sum() == 2048 * 1000 + 1000
    assert last.frozen + last.parameters.sum() == resnet.parameters.sum()
    assert last.flops_back.sum() == 2 * 256 * 2048 * 1000  # of the weights alone: no op needs its input's
    assert last.kept.sum() == 256 * 2048 * resnet.element
    assert trained_graph(resnet, "full") is resnet
    sizes = [trained_graph(resnet, f"frozen:{layers}").flops_back.sum() for layers in (1, 20, 40, 53)]
    assert sorted(sizes, reverse=True) == sizes
    one = trained_graph(resnet, "frozen:1")
    first = 2 * 256 * 64 * 3 * 49 * 112**2  # the weights of the stem, whose images need no gradient
    inputs = 2 * 256 * 64 * (64 + 256) * 56**2  # of the two convolutions that read what the frozen stem made
    assert resnet.flops_back.sum() - one.flops_back.sum() == first + inputs


@pytest.mark.parametrize(
    ("training", "said"), [("frozen:54", "54 layers"), ("lora:4", "full or frozen:LAYERS")]
)
def test_what_a_network_cannot_freeze_is_refused(resnet: OpGraph, training: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        trained_graph(resnet, training)
