"""Graphs of ops: rules worked by hand, fusion, JSON, cycles. Nothing here needs PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import ModelError, PlanError, PodsimError
from podsim.graphs.capture_walk import Walk
from podsim.graphs.fusion import _is_match, fuse
from podsim.graphs.graph_memory import graph_memory
from podsim.graphs.op_graph import KINDS, WIDTH, OpGraph, nets_of, topological_order
from podsim.graphs.op_graph_json import read_graph, to_text, to_value, write_value
from podsim.graphs.op_products import Facts, Operand
from podsim.graphs.op_rules import Call, facts_of
from podsim.graphs.replicated_network import _batch
from podsim.hardware.catalog import load_gpu
from podsim.training.software import load_software

RESNET = Path(__file__).parents[2] / "examples" / "modules" / "resnet50.json"


def tensor(*shape: int, trained: bool = True) -> Operand:
    return Operand(shape=shape, width=4.0, trained=trained)


def call(target: str, *arguments: Any, out: Operand, **named: Any) -> Call:
    return Call(target=target, arguments=arguments, named=named, output=out)


def small(
    ops: Sequence[tuple[str, str, float, Sequence[int]]], dims: dict[int, Sequence[int]] | None = None
) -> OpGraph:
    """(target, kind, B of the output, predecessors) of each op; every op reads and writes its tensors once."""
    n = len(ops)
    output = np.array([size for *_, size, _ in ops], float)
    before = [list(one) for *_, one in ops]
    inputs = np.array([sum(output[j] for j in one) for one in before])
    rows = np.zeros((n, WIDTH), dtype=np.int64)
    for op, row in (dims or {}).items():
        rows[op, : len(row)] = row
    memory = np.array([kind not in ("gemm", "conv", "attention") for _, kind, *_ in ops])
    free = np.array([target == "add" for target, *_ in ops])
    return OpGraph(
        name="small", source="by hand", batch=2, element=4.0, names=tuple(f"op{i}" for i in range(n)),
        targets=tuple(target for target, *_ in ops), shapes=((2,),) * n,
        kind=np.array([KINDS.index(kind) for _, kind, *_ in ops]), dims=rows,
        gradient=np.repeat(~memory[:, None], 2, axis=1), flops=np.zeros(n), flops_back=np.zeros(n), read=inputs,
        written=output, read_back=np.where(memory & ~free, 2 * output, 0.0),
        written_back=np.where(memory & ~free, inputs, 0.0), kernels=np.ones(n), kernels_back=np.ones(n),
        parameters=np.zeros(n), output=output, kept=np.zeros(n),
        first=np.cumsum([0, *(len(one) for one in before)]).astype(np.int64),
        before=np.array([j for one in before for j in one], dtype=np.int64),
        carried=np.array([output[j] for one in before for j in one], dtype=float),
    )  # fmt: skip


def test_linear_by_hand() -> None:
    """(2, 3, 8) by a weight 16 x 8 and a bias: m = 6, n = 16, k = 8; the bias's gradient sums the result's."""
    facts = facts_of(call("linear", tensor(2, 3, 8), tensor(16, 8), tensor(16), out=tensor(2, 3, 16)))
    assert facts.dims == (1, 6, 16, 8)
    assert (facts.flops, facts.flops_back) == (2 * 6 * 16 * 8, 4 * 6 * 16 * 8)
    assert facts.read == 4 * (48 + 128 + 16)
    assert (facts.written, facts.read_back, facts.written_back) == (4 * 96, 4 * 96, 4 * 16)
    first = facts_of(call("linear", tensor(6, 8, trained=False), tensor(16, 8), out=tensor(6, 16)))
    assert first.flops_back == first.flops
    assert first.gradient == (False, True)


def test_convolution_by_hand() -> None:
    """ResNet's first: 64 filters of 3 x 7 x 7 at 112 x 112 places of 224 x 224."""
    source, weight = tensor(2, 3, 224, 224, trained=False), tensor(64, 3, 7, 7)
    facts = facts_of(call("conv2d", source, weight, None, (2, 2), (3, 3), out=tensor(2, 64, 112, 112)))
    assert facts.dims == (2, 3, 64, 1, 49, 12544, 50176, 0)
    assert facts.flops == 2 * 2 * 12544 * 64 * 3 * 49
    depthwise = facts_of(
        call("conv2d", tensor(1, 8, 4, 4), tensor(8, 1, 3, 3), None, 1, 1, 1, 8, out=tensor(1, 8, 4, 4))
    )
    assert depthwise.flops == 2 * 16 * 8 * 9
    back = facts_of(
        call("conv_transpose2d", tensor(1, 8, 4, 4), tensor(8, 5, 2, 2), None, 2, out=tensor(1, 5, 8, 8))
    )
    assert back.dims == (1, 8, 5, 1, 4, 64, 16, 1)
    assert back.flops == 2 * 16 * 8 * 5 * 4


def test_products_by_hand() -> None:
    batched = facts_of(call("matmul", tensor(2, 3, 5, 7), tensor(2, 3, 7, 4), out=tensor(2, 3, 5, 4)))
    assert batched.dims == (6, 5, 4, 7)
    added = facts_of(call("addmm", tensor(4), tensor(5, 7), tensor(7, 4), out=tensor(5, 4)))
    assert added.dims == (1, 5, 4, 7)
    letters = facts_of(
        call("einsum", "bhqd,bhkd->bhqk", (tensor(2, 3, 5, 7), tensor(2, 3, 4, 7)), out=tensor(2, 3, 5, 4))
    )
    assert letters.dims == (6, 5, 4, 7)
    mixed = facts_of(call("scaled_dot_product_attention", *[tensor(2, 3, 5, 7)] * 3, out=tensor(2, 3, 5, 7)))
    assert mixed.flops == 2 * 2 * 2 * 3 * 5 * 5 * 7
    assert mixed.flops_back == 2 * mixed.flops


def test_traffic_by_hand() -> None:
    relu = facts_of(call("relu", tensor(10), out=tensor(10)))
    assert (relu.read, relu.written, relu.read_back, relu.written_back) == (40, 40, 80, 40)
    assert relu.saves_output
    add = facts_of(call("add", tensor(10), tensor(10), out=tensor(10)))
    assert (add.read, add.written, add.read_back, add.written_back) == (80, 40, 0, 0)
    norm = facts_of(call("batch_norm", tensor(2, 4), *[None] * 4, True, out=tensor(2, 4)))
    assert (norm.read, norm.written) == (64, 32)
    idle = facts_of(call("dropout", tensor(10), 0.1, False, out=tensor(10)))
    assert (idle.read, idle.kernels) == (0, 0)
    unknown = facts_of(call("bessel_j0", tensor(10), out=tensor(10)))
    assert unknown.unknown
    assert (unknown.read, unknown.kind) == (40, "other")
    assert (relu.unknown, relu.kind) == (False, "elementwise")
    joined = call("cat", (tensor(10), tensor(20)), 0, other=[tensor(5)], out=tensor(30))
    assert [each.shape for each in joined.tensors] == [(10,), (20,), (5,)]


BOTH, NONE = tensor(2, 4), tensor(2, 4, trained=False)  # 32 B each
TABLE, FIXED, INDEX = (
    tensor(10, 4),
    tensor(10, 4, trained=False),
    Operand(shape=(2,), width=8.0, trained=False),
)


@pytest.mark.parametrize(
    ("target", "arguments", "traffic", "kernels", "extra"),
    [
        ("batch_norm", (BOTH, None, None, None, None, True), (64, 32, 128, 32), (1, 1), 0),
        ("batch_norm", (BOTH, None, None, None, None, False), (32, 32, 64, 32), (1, 1), 0),
        ("layer_norm", (BOTH, (4,)), (32, 32, 64, 32), (1, 1), 0),
        ("layer_norm", (BOTH, (4,), tensor(4), tensor(4)), (32 + 32, 32, 128 + 32, 32 + 32), (1, 1), 0),
        ("group_norm", (BOTH, 2), (64, 32, 128, 32), (1, 1), 0), ("instance_norm", (BOTH,), (64, 32, 128, 32), (1, 1), 0),
        ("native_group_norm", (BOTH,), (64, 32, 128, 32), (1, 1), 0),
        ("_weight_norm", (BOTH,), (64, 32, 128, 32), (1, 1), 0),
        ("softmax", (BOTH, 1), (32, 32, 64, 32), (1, 1), 0), ("softmax", (NONE, 1), (32, 32, 0, 0), (1, 0), 0),
        ("avg_pool2d", (BOTH,), (32, 32, 32, 32), (1, 1), 0),
        ("max_pool2d", (BOTH,), (32, 32 + 64, 32 + 64, 32), (1, 1), 64),  # with positions of 8 B
        ("max_pool2d", (NONE,), (32, 96, 0, 0), (1, 0), 0),
        ("embedding", (TABLE, INDEX), (32 + 16, 32, 64 + 16, 160 + 32), (1, 2), 0),  # the table's gradient is cleared
        ("embedding", (FIXED, INDEX), (48, 32, 0, 0), (1, 0), 0),
        ("embedding", (TABLE, INDEX, -1, False, True), (48, 32, 80, 32), (1, 1), 0),
        ("cross_entropy_loss", (BOTH, INDEX), (64, 64, 64, 64), (2, 2), 32),
    ],
)  # fmt: skip
def test_traffic_of_each_rule_by_hand(
    target: str, arguments: tuple[Any, ...], traffic: tuple[int, ...], kernels: tuple[int, int], extra: int
) -> None:
    facts = facts_of(call(target, *arguments, out=tensor(2, 4)))
    assert (facts.read, facts.written, facts.read_back, facts.written_back) == traffic
    assert (facts.kernels, facts.kernels_back, facts.extra) == (*kernels, extra)
    assert facts.sparse == (len(arguments) == 5)


@pytest.mark.parametrize(
    ("target", "arguments", "groups", "is_transposed"),
    [
        ("conv2d", (None, 1, 1, 1, 4), 4, 0), ("conv_transpose2d", (None, 1, 0, 0, 4), 4, 1),
        ("convolution", (None, 1, 1, 1, False, 0, 4), 4, 0), ("convolution", (None, 1, 1, 1, True, 0, 2), 2, 1),
        ("convolution", (None, 1, 1, 1, False, 1, 1), 1, 0),
    ],
)  # fmt: skip
def test_groups_and_directions_of_convolutions(
    target: str, arguments: tuple[Any, ...], groups: int, is_transposed: int
) -> None:
    weight = tensor(8, 8 // groups, 3, 3)
    facts = facts_of(call(target, tensor(1, 8, 4, 4), weight, *arguments, out=tensor(1, 8, 4, 4)))
    assert (facts.dims[3], facts.dims[7], facts.flops) == (groups, is_transposed, 2 * 16 * 8 * 8 * 9 / groups)


def test_memory_by_hand() -> None:
    """5 weights in fp32 and a copy in 16 bits, gradients and Adam's moments; 40 B kept of 2 samples in fp32."""
    graph = small([("relu", "elementwise", 40, [])])
    graph = OpGraph(
        **{**graph.__dict__, "parameters": np.array([5.0]), "kept": np.array([40.0]), "table_weights": 12.0}
    )
    gpu, software = load_gpu("a100-sxm4-80gb"), load_software("megatron-core")
    for precision, copy, activations in (("fp32", 0, 40), ("fp16", 2, 20)):
        held = graph_memory(graph, gpu, precision, software, optimizer="adam", gpus=3)
        assert (held.weights, held.gradients, held.states) == (5 * (4 + copy), 20, 40)
        assert (held.tables, held.activations, held.runtime) == (16, activations, software.memory_floor)
        left = gpu.memory - software.memory_floor - held.weights - 60 - 16
        assert held.largest_batch == left * 2 // activations
    assert graph_memory(graph, gpu, "fp32", software, optimizer="sgd", gpus=1, tables=7.0).tables == 7
    assert graph_memory(graph, gpu, "fp32", software, optimizer="sgd", gpus=1).states == 20
    with pytest.raises(PlanError, match="did you mean adam"):
        graph_memory(graph, gpu, "fp32", software, optimizer="adamm", gpus=1)


@pytest.mark.parametrize(
    ("target", "word"), [("quantized_lstm", "linear layers"), ("_cudnn_rnn", "hides its products")]
)
def test_hidden_arithmetic_is_refused(target: str, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        facts_of(call(target, tensor(2, 3), out=tensor(2, 3)))


def test_einsum_beyond_two_operands_is_refused() -> None:
    with pytest.raises(ModelError, match="two operands"):
        facts_of(call("einsum", "a,b,c->abc", tuple([tensor(2)] * 3), out=tensor(2, 2, 2)))


def test_a_chain_is_one_kernel() -> None:
    """conv -> norm -> relu: the norm's result is neither written nor read, forward or backward."""
    graph = small([("conv2d", "conv", 40, []), ("batch_norm", "norm", 40, [0]), ("relu", "elementwise", 40, [1])],
                  {0: (1, 1, 1, 1, 1, 1, 1, 0)})  # fmt: skip
    one = fuse(graph, ("chains",))
    assert one.targets == ("conv2d", "batch_norm+relu")
    assert (one.read[1], one.written[1]) == (40, 40)
    assert (one.read_back[1], one.written_back[1]) == (2 * 80 - 40, 2 * 40 - 40)
    assert one.kernels[1] == 1
    assert one.before.tolist() == [0]


def test_a_sum_hands_its_gradient_on() -> None:
    """norm -> add -> relu: the relu writes the gradient that the norm reads, through the sum, which moves none."""
    graph = small([("batch_norm", "norm", 40, []), ("conv2d", "conv", 40, []), ("add", "elementwise", 40, [0, 1]),
                   ("relu", "elementwise", 40, [2])], {1: (1, 1, 1, 1, 1, 1, 1, 0)})  # fmt: skip
    one = fuse(graph, ("chains",))
    place = one.targets.index("batch_norm+add+relu")
    assert one.written_back[place] == graph.written_back.sum() - 40
    assert one.read_back[place] == graph.read_back.sum() - 40


def test_a_tensor_read_twice_is_written() -> None:
    graph = small(
        [
            ("relu", "elementwise", 40, []),
            ("relu", "elementwise", 40, [0]),
            ("add", "elementwise", 40, [0, 1]),
        ]
    )
    assert fuse(graph, ("chains",)).targets == ("relu", "relu+add")


def test_attention_written_out_is_found() -> None:
    products = {0: (6, 5, 5, 7), 4: (6, 5, 7, 5)}
    ops = [
        ("matmul", "gemm", 600.0, []), ("div", "elementwise", 600.0, [0]), ("softmax", "softmax", 600.0, [1]),
        ("dropout", "elementwise", 600.0, [2]), ("matmul", "gemm", 840.0, [3]), ("relu", "elementwise", 840.0, [4]),
    ]  # fmt: skip
    graph = small(ops, products)
    graph = OpGraph(**{**graph.__dict__, "shapes": ((2, 3, 5, 5),) * 6})
    one = fuse(graph, ("attention",))
    assert one.targets == ("attention", "relu")
    assert one.dims[0].tolist() == [2, 3, 3, 5, 5, 7, 7, 0]
    assert one.read[0] == 4 * 6 * (5 * 7 + 5 * 14)
    two = fuse(
        small(
            [*ops[:2], ("softmax", "softmax", 600, [1]), ("relu", "elementwise", 600, [2])], {0: products[0]}
        )
    )
    assert "attention" not in two.targets


@pytest.mark.parametrize(
    ("left", "right", "is_found"),
    [
        ((2, 5, 6, 7), (2, 5, 8, 6), True), ((1, 5, 6, 7), (1, 5, 8, 6), False),  # one product alone is no head
        ((2, 5, 6, 7), (3, 5, 8, 6), False), ((2, 5, 6, 7), (2, 4, 8, 6), False), ((2, 5, 6, 7), (2, 5, 8, 5), False),
    ],
)  # fmt: skip
def test_attention_has_the_batch_queries_and_keys_of_both_products(
    left: tuple[int, ...], right: tuple[int, ...], is_found: bool
) -> None:
    ops = [("matmul", "gemm", 240.0, []), ("softmax", "softmax", 240.0, [0]), ("matmul", "gemm", 320.0, [1])]
    graph = small(ops, {0: left, 2: right})
    graph = OpGraph(**{**graph.__dict__, "shapes": ((left[0], 5, 6),) * 3})
    one = fuse(graph, ("attention",))
    assert (one.targets == ("attention",)) == is_found
    if is_found:  # of one head each: queries and keys 7 wide, values 8
        assert one.dims[0].tolist() == [2, 1, 1, 5, 6, 7, 8, 0]
        assert one.read[0] == 4 * 2 * (5 * 7 + 6 * (7 + 8))


def test_unknown_rule_of_fusion() -> None:
    with pytest.raises(ModelError, match="did you mean chains"):
        fuse(small([("relu", "elementwise", 4, [])]), ("chain",))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 14), st.integers(0, 10**6))
def test_fusion_keeps_arithmetic_and_order(count: int, seed: int) -> None:
    """Whatever the graph: no traffic is added, no weight is lost, edges still lead forward."""
    random = np.random.default_rng(seed)
    kinds = [("relu", "elementwise"), ("add", "elementwise"), ("batch_norm", "norm"), ("conv2d", "conv")]
    ops, dims = [], {}
    for op in range(count):
        target, kind = kinds[random.integers(4)]
        before = sorted({int(j) for j in random.integers(0, op, 2)}) if op else []
        ops.append((target, kind, float(random.integers(1, 9)), before))
        if kind == "conv":
            dims[op] = (1, 1, 1, 1, 1, 1, 1, 0)
    graph = small(ops, dims)
    one = fuse(graph)
    assert one.count("conv") == graph.count("conv")
    for key in ("read", "written", "read_back", "written_back"):
        assert getattr(one, key).sum() <= getattr(graph, key).sum() + 1e-9
        assert (getattr(one, key) >= 0).all()


def test_nets_by_hand() -> None:
    graph = small([("a", "copy", 8, []), ("b", "copy", 4, [0]), ("c", "copy", 2, [0, 1])])
    first, members, size = nets_of(graph)
    assert first.tolist() == [0, 3, 5]
    assert members.tolist() == [0, 1, 2, 1, 2]
    assert size.tolist() == [8, 4]


def test_json_gives_the_same_graph(tmp_path: Path) -> None:
    graph = read_graph(RESNET)
    write_value(to_value(graph), tmp_path / "again.json")
    again = read_graph(tmp_path / "again.json")
    assert to_text(to_value(again)) == RESNET.read_text("utf-8")
    assert (len(graph), graph.parameters.sum(), graph.count("conv")) == (227, 25_557_032, 53)
    assert np.array_equal(again.before, graph.before)


def test_json_ops_may_stand_in_any_order(tmp_path: Path) -> None:
    value = json.loads(to_text(to_value(small([("a", "copy", 8, []), ("b", "copy", 4, [0])]))))
    value["ops"] = [{**value["ops"][1], "before": [1]}, value["ops"][0]]
    (tmp_path / "g.json").write_text(json.dumps(value))
    assert read_graph(tmp_path / "g.json").targets == ("a", "b")


def test_a_cycle_is_named() -> None:
    with pytest.raises(ModelError, match=r"cycle: .*'b'.*'c'"):
        topological_order([[], [2, 0], [1]], ["a", "b", "c"])


def _broken(**changes: Any) -> dict[str, Any]:
    value = json.loads(
        to_text(to_value(small([("a", "copy", 8, []), ("m", "gemm", 4, [0])], {1: (1, 2, 3, 4)})))
    )
    for key, item in changes.items():
        if key in value:
            value[key] = item
        else:
            value["ops"][1][key] = item
    return dict(value)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"before": [1], "carries": [1]}, "cycle"),
        ({"before": [7], "carries": [1]}, "must name ops"),
        ({"before": [0, 0]}, "carries 1"),
        ({"kind": "gem"}, "did you mean gemm"),
        ({"dims": [1, 2]}, "4 whole numbers"),
        ({"dims": [1, 2, 0, 4]}, "1 or more"),
        ({"flops": -1}, "zero or more"),
        ({"flops": 1e300}, "zero or more"),
        ({"gradient": [1, 2]}, "true and false"),
        ({"shape": "x"}, "lists of numbers"),
        ({"element": 0}, "positive"),
        ({"ops": []}, "at least one op"),
        ({"podsim_graph": 9}, "which a later podsim wrote"),
    ],
)
def test_broken_graphs_say_what_is_wrong(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    (tmp_path / "g.json").write_text(json.dumps(_broken(**change)))
    with pytest.raises(ModelError, match=word):
        read_graph(tmp_path / "g.json")


def test_files_that_are_no_graph(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("{")
    (tmp_path / "list").write_text("[1]")
    for name, word in (
        ("text", "not JSON"),
        ("list", "not a graph"),
        ("absent", "cannot be read"),
        (".", "cannot be read"),
    ):
        with pytest.raises(ModelError, match=word):
            read_graph(tmp_path / name)


def test_gradients_of_a_tensor_with_three_trained_readers_are_added_up() -> None:
    """Two additions, each of which reads two gradients of 40 B and writes one; a reader without a gradient adds none."""
    walk: Any = SimpleNamespace(
        names=["a", "b", "c", "d", "e"], targets=["relu"] * 5, shapes=[(10,)] * 5, facts=[Facts(kind="elementwise")] * 5,
        outputs=[40.0] * 5, trained=[True, True, True, True, False], before=[{}, *[{0: 40.0}] * 4], kept={0}, sparse=0,
        parameters=[0] * 5,
    )  # fmt: skip
    made = Walk.graph(walk, name="g", source="s", batch=1, element=4.0, notes=())
    assert made.read_back.tolist() == [160.0, 0, 0, 0, 0]
    assert made.written_back.tolist() == [80.0, 0, 0, 0, 0]
    assert made.kernels_back.tolist() == [2.0, 0, 0, 0, 0]
    assert made.kept.tolist() == [40.0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("left", "right", "matches"),
    [
        ((8, 64, 64, 16), (8, 64, 16, 64), True),
        ((8, 64, 32, 16), (8, 64, 16, 32), True),  # fewer keys than queries
        ((1, 64, 64, 16), (1, 64, 16, 64), False),  # one product is no attention
        ((8, 64, 64, 16), (4, 64, 16, 64), False),
        ((8, 64, 64, 16), (8, 32, 16, 64), False),
        ((8, 64, 64, 16), (8, 64, 16, 32), False),
    ],
)
def test_products_of_one_attention(left: tuple[int, ...], right: tuple[int, ...], matches: bool) -> None:
    assert _is_match(SimpleNamespace(dims=np.array([left, right])), 0, 1) is matches  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "kind", "unknown"), [("relu6", "elementwise", False), ("a_new_op", "other", True)]
)
def test_an_op_without_a_rule_is_counted_by_its_bytes_and_marked(
    target: str, kind: str, unknown: bool
) -> None:
    one = Operand(shape=(10,), trained=True)
    facts = facts_of(Call(target=target, arguments=(one,), output=one))
    assert (facts.kind, facts.unknown, facts.read, facts.written) == (kind, unknown, 40.0, 40.0)


@pytest.mark.parametrize("trained", [True, False])
def test_a_softmax_reads_its_output_and_its_gradient_back(trained: bool) -> None:
    one = Operand(shape=(10,), trained=trained)
    facts = facts_of(Call(target="softmax", arguments=(one, -1), output=one))
    back = float(trained)
    assert (facts.kind, facts.read, facts.written, facts.kernels) == ("softmax", 40.0, 40.0, 1.0)
    assert (facts.read_back, facts.written_back, facts.kernels_back) == (80 * back, 40 * back, back)
    assert facts.saves_output is trained


@pytest.mark.parametrize(
    ("batch", "gpus", "each"),
    [(None, 8, 32), ("64", 8, 8), ("1,024", 8, 128), (24, 8, 3), ("20", 8, None), (0, 8, None)],
)
def test_samples_of_each_gpu(batch: object, gpus: int, each: int | None) -> None:
    if each is None:
        with pytest.raises(PodsimError, match="a multiple of the 8 GPUs"):
            _batch(batch, gpus, 32)
    else:
        assert _batch(batch, gpus, 32) == each
