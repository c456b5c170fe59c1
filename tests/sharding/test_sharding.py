"""Annotations spread, ops exchange what they must, and the search finds hand-made parallelism again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.errors import PodsimError
from podsim.graphs.networks import load_network
from podsim.questions.train.predict import predict
from podsim.questions.train.shard import shard
from podsim.sharding.dimension_graph import NONE, DimensionGraph, link
from podsim.sharding.exchanges import Exchange, convert
from podsim.sharding.layer_graph import layer_graph
from podsim.sharding.mesh import Mesh
from podsim.sharding.op_dimensions import dimension_graph
from podsim.sharding.sharded_step import _exposed_seconds
from podsim.training.software import load_software
from podsim.workload.catalog import load_model

MESH = Mesh(sizes={"data": 4, "tensor": 8})
A100 = {"on": "dgx-a100-80gb:8", "gpus": 64, "batch": 64, "software": "megatron-core"}
MEGATRON = ("attention.qkv=,tensor", "mlp.up=,tensor", "embedding.lookup=tensor,", "head.logits=,tensor")


@pytest.mark.parametrize(
    ("source", "target", "linked"),
    [
        ((8, 512, 1024), (8, 16, 512, 64), (0, 2, 1)),  # heads, moved before the tokens
        ((8, 16, 512, 64), (8, 512, 1024), (0, 2, 1, NONE)),
        ((8, 512, 1024), (4096, 1024), (0, NONE, 1)),  # tokens of all samples in one dimension
        ((512, 1024), (8, 512, 1024), (1, 2)),  # a broadcast
        ((8, 512, 3072), (8, 16, 512, 64), (0, 2, 1)),  # a fused projection
        ((7, 5), (3, 11), (NONE, NONE)),
    ],
)
def test_views_keep_what_they_can(
    source: tuple[int, ...], target: tuple[int, ...], linked: tuple[int, ...]
) -> None:
    assert link(source, target) == linked


@pytest.mark.parametrize(
    ("stored", "needed", "partial", "collectives"),
    [
        ({"tensor": 1}, {}, (), [("all_gather", ("tensor",), 16.0)]),
        ({}, {"tensor": 1}, (), []),
        ({"tensor": 0}, {"tensor": 1}, (), [("all_to_all", ("tensor",), 2.0)]),
        ({}, {}, ("tensor",), [("all_reduce", ("tensor",), 16.0)]),
        ({"data": 0}, {"data": 0, "tensor": 1}, ("tensor",), [("reduce_scatter", ("tensor",), 4.0)]),
        (
            {},
            {"data": 0},
            ("tensor",),
            [("all_reduce", ("tensor",), 4.0)],
        ),  # sums of the slice that is needed
        ({"data": 0, "tensor": 1}, {"data": 0}, (), [("all_gather", ("tensor",), 4.0)]),
    ],
)
def test_conversions(
    stored: dict[str, int],
    needed: dict[str, int],
    partial: tuple[str, ...],
    collectives: list[tuple[str, tuple[str, ...], float]],
) -> None:
    assert list(convert(16.0, stored, needed, frozenset(partial), MESH)) == collectives


def test_tensor_parallelism_follows_from_columns_alone() -> None:
    answer = shard("llama-7b", **A100, mesh="data=8,tensor=8", annotate=MEGATRON, sequence=2048)
    assert answer.weights["attention.proj"] == "tensor,"
    assert answer.weights["mlp.down"] == "tensor,"
    exchanges = {op.name: [text.split(" over ")[0] for text in op.exchanges] for op in answer.ops}
    # Shoeybi et al. 2019: an all-reduce forward behind rows, one backward before columns
    assert exchanges["mlp.up"].count("all-reduce") == exchanges["mlp.down"].count("all-reduce") == 2
    assert exchanges["mlp.activation"] == []
    assert answer.command.startswith("podsim predict llama-7b --on dgx-a100-80gb:8 --gpus 64")
    planned = predict("llama-7b", **A100, tp=8, micro_batch=8, sequence=2048, zero=answer.zero)
    assert answer.step_time == pytest.approx(planned.step_time, rel=1e-6)


def test_sequence_parallelism_gathers_and_scatters() -> None:
    stream = (
        "*norm.out*=data,tensor,",
        "*dropout_add.out*=data,tensor,",
        "embedding.lookup.out=data,tensor,",
    )
    answer = shard(
        "llama-7b",
        **A100,
        mesh="data=8,tensor=8",
        annotate=(*MEGATRON, *stream, "input=data,"),
        sequence=2048,
    )
    up, down = (next(op for op in answer.ops if op.name == name) for name in ("mlp.up", "mlp.down"))
    assert [text.split(" over ")[0] for text in up.exchanges][:2] == ["all-gather", "reduce-scatter"]
    assert [text.split(" over ")[0] for text in down.exchanges if "gradients" not in text] == [
        "reduce-scatter", "all-gather",
    ]  # fmt: skip
    plain = shard("llama-7b", **A100, mesh="data=8,tensor=8", annotate=MEGATRON, sequence=2048)
    assert answer.memory < plain.memory  # Korthikanti et al. 2022


def test_a_captured_file_keeps_its_batch() -> None:
    answer = shard("examples/modules/resnet50.json", on="dgx-a100-80gb:1", mesh="data=8")
    assert answer.batch == 256
    assert set(answer.collectives) == {"all-reduce over data"}


def test_image_rows_exchange_halos() -> None:
    answer = shard(
        "resnet50", on="dgx-a100-80gb:1", annotate=("input=data,,tensor,",), mesh="data=4,tensor=2", batch=64
    )
    first, *others = (op for op in answer.ops if op.op == "conv2d")
    # a kernel of seven by strides of two lacks six rows of 16 images of 3 x 224, half of them from either side
    rows = f"{6 * 16 * 3 * 224 * 2 / 1e3:.0f} kB"
    assert first.exchanges[:2] == tuple(
        f"send-recv over tensor {rows} {way}" for way in ("forward", "backward")
    )
    wide = [op for op in others if op.name.endswith("conv2") and "tensor" in op.division]
    assert wide
    assert all(any("send-recv" in text for text in op.exchanges) for op in wide)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama-7b", {"sequence": 2048}),
        ("t5-11b", {"sequence": 512}),
        ("mixtral-8x7b", {"sequence": 1024, "gpus": 16, "batch": 32, "limit": {"tp": 1}}),
    ],
)
def test_the_search_finds_plans_again(model: str, options: dict[str, object]) -> None:
    answer = shard(model, **{**A100, **options})
    assert answer.fits
    again = shard(model, **{**A100, **options}, mesh=answer.mesh, annotate=answer.annotations)
    assert again.step_time == pytest.approx(answer.step_time, rel=1e-9)
    if model.startswith("mixtral"):
        assert answer.weights["moe.up"].startswith("expert")
        assert any("all-to-all over expert" in text for op in answer.ops for text in op.exchanges)


def test_a_network_is_no_slower_than_its_replicas() -> None:
    options = {**A100, "batch": 4096, "software": "dle-pytorch"}
    replicas = shard("resnet50", **options, mesh="data=64", annotate=("input=data,,,",))
    assert shard("resnet50", **options).step_time <= 1.001 * replicas.step_time


def test_what_no_plan_has_is_priced_beside_the_nearest_plan() -> None:
    fewer = tuple(text for text in MEGATRON if not text.startswith("mlp"))
    whole = shard("llama-7b", **A100, mesh="data=8,tensor=8", annotate=MEGATRON, sequence=2048)
    part = shard("llama-7b", **A100, mesh="data=8,tensor=8", annotate=fewer, sequence=2048)
    assert whole.beyond == 0.0
    assert part.beyond == pytest.approx(part.step_time - whole.step_time)
    # each rank computes the mlp whole: 8 x its 2/3 of the layers' arithmetic, and the head's and attention's as before
    assert 3.0 < part.compute / whole.compute < 7.0


def test_a_what_if_memory_divides_weights() -> None:
    plain = shard("llama-7b", **A100, sequence=2048)
    small = shard("llama-7b", **A100, sequence=2048, overrides={"gpu.memory": "24GB"})
    assert plain.mesh == "data=64"
    assert small.fits
    assert small.memory < plain.memory
    assert small.step_time > plain.step_time


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (("mlp.up=,tensor", "mlp.down=,tensor"), ("mlp.up", "mlp.down", "contradict")),
        (("mlp.up=,tensor", "mlp.down=data,"), ("mlp.up", "mlp.down", "contradict")),
        (("mlp.up=,tensor", "mlp.up=tensor,"), ("mlp.up", "twice")),
        (("mlp.up=tensor,tensor",), ("stands twice",)),
        (("mlp.upp=,tensor",), ("no tensor has that name", "mlp.up")),
        (("mlp.up=,tensors",), ("has no axis 'tensors'", "data, tensor")),
        (("attention.norm=tensor",), ("1 dimensions", "has 2")),
        (("mlp.up",), ("expected TENSOR=AXES",)),
        (("input=,data+tensor",), ("does not divide the 2,049",)),
    ],
)
def test_annotations_that_cannot_be(annotations: tuple[str, ...], words: tuple[str, ...]) -> None:
    given = (*annotations, *(() if any(a.startswith("input") for a in annotations) else ("input=,",)))
    with pytest.raises(PodsimError) as caught:
        shard("llama-7b", **A100, mesh="data=8,tensor=8", annotate=given, sequence=2049)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("mesh", ["data=8,tensor=7", "data=8,data=8", "data", "=64", "a=2,b=2,c=2,d=2,e=4"])
def test_meshes_that_cannot_be(mesh: str) -> None:
    with pytest.raises(PodsimError, match="mesh"):
        shard("llama-7b", **A100, mesh=mesh)


def test_every_network_has_dimensions() -> None:
    for name in ("bert-large-128", "unet3d", "gnmt", "dlrm", "transformer-xl-base"):
        graph = dimension_graph(load_network(name, 8))
        assert all(size >= 1 for op in graph.ops for size in op.sizes)
        assert len(graph.ops) == len(graph.graph)
    software = load_software("megatron-core")
    for model in ("deepseek-v3", "t5-11b", "llama-3-70b", "gpt2"):
        _check_products(layer_graph(load_model(model), 8, software), load_model(model).parameters)


def _check_products(graph: DimensionGraph, parameters: int) -> None:
    """Every weight of every layer is a tensor of the graph."""
    held = 0
    for op, copies in zip(graph.ops, graph.copies, strict=True):
        for operand in op.operands:
            tensor = graph.tensors[operand.tensor]
            size = 1
            for each in tensor.shape:
                size *= each
            held += copies * size * (tensor.role == "weight" and graph.graph.parameters[op.position] > 0)
    assert held == pytest.approx(parameters, rel=0.03)


def test_an_exchange_names_its_phase() -> None:
    assert Exchange._fields == ("collective", "axes", "elements", "phase", "end")


def test_compute_hides_exchanges_but_for_what_they_slow() -> None:
    """Passes of 1 and 2 s hide 0.5 s of gathers and 0.3 s of reductions; a tenth of each is what kernels lose."""
    entry = replace(load_software("megatron-core"), contention=0.1)
    both = replace(entry, can_overlap=("overlap_param", "overlap_grad"))
    assert _exposed_seconds(0.5, 0.3, (1.0, 2.0), both) == pytest.approx(0.08)
    one = replace(entry, can_overlap=("overlap_grad",))
    assert _exposed_seconds(0.5, 0.3, (1.0, 2.0), one) == pytest.approx(0.5 + 0.03)
    assert _exposed_seconds(0.5, 0.3, (1.0, 2.0), replace(entry, can_overlap=())) == pytest.approx(0.8)


def test_a_convolution_by_hand() -> None:
    """7 x 7 with stride 2 over 224 pixels of 3 channels: 64 filters of 112 pixels, and 6 of 224 rows of a neighbour."""
    graph = dimension_graph(load_network("resnet50", 8))
    first = graph.ops[graph.graph.kind_names.index("conv")]
    assert (first.sizes, first.columns) == ((8, 64, 112, 112, 3), (0, 2, 5, 5, 1))
    assert first.halo == ((2, pytest.approx(6 / 224)), (3, pytest.approx(6 / 224)))
    # the input has all but the filters, the weight filters and channels, and nothing divides its window
    assert [(end.d, end.dim, end.parts) for end in graph.ends[first.position]] == [
        (0, 0, 8), (1, 4, 3), (2, 2, 112), (3, 3, 112), (0, 1, 64), (1, 4, 3), (0, 0, 8), (1, 1, 64), (2, 2, 112),
        (3, 3, 112),
    ]  # fmt: skip


def test_groups_of_channels_divide_with_their_filters() -> None:
    graph = dimension_graph(load_network("efficientnet-b0", 8))
    grouped = [op for op in graph.ops if graph.graph.kind_names[op.position] == "conv" and len(op.sizes) == 4]
    assert grouped[0].sizes == (8, 32, 112, 112)  # behind a stem of stride 2, a filter of each of 32 channels
    assert {op.columns for op in grouped} == {(0, 3, 5, 5)}


@pytest.mark.parametrize(
    ("model", "core", "reads"),
    [
        # 32 heads of queries and 8 of keys and values: 8 + 8 of 48 heads of a fused product are keys and values
        (
            "llama-3.1-8b",
            "attention.core",
            [("attention.rope.out", 2, 2 / 3), ("attention.rope.out", 4, 1 / 3)],
        ),
        ("gpt-1.7b", "attention.core", [("attention.qkv.out", 2, 1 / 3), ("attention.qkv.out", 4, 2 / 3)]),
        ("t5-3b", "cross.core", [("cross.q.out", 2, 1.0), ("cross.kv.out", 4, 1.0)]),
        ("deepseek-v3", "attention.core", [("attention.q_up.out", 2, 1.0), ("attention.rope.out", 4, 1.0)]),
    ],
)
def test_attention_reads_queries_by_its_rows_and_keys_by_their_own_dimension(
    model: str, core: str, reads: list[tuple[str, int, float]]
) -> None:
    found = layer_graph(load_model(model), 8, load_software("megatron-core"))
    op = next(op for op in found.ops if found.graph.names[op.position] == core)
    assert [
        (found.tensors[each.tensor].name, each.dims[1], pytest.approx(each.share)) for each in op.operands
    ] == reads
    keys = found.graph.dims[op.position][4]
    assert op.sizes[4] == keys
    assert op.fixed == {3, 4}  # a row of the result has its whole width, and needs all keys
    assert op.sizes[1] == found.graph.dims[op.position][2]  # heads divide as those of the keys do
    assert op.columns[:3] == (0, 1, 3)
