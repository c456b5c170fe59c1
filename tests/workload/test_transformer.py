"""A transformer's ops: parameters, FLOPs and saved tensors against published formulas and sums by hand."""

import dataclasses
import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.errors import ModelError
from podsim.workload.model import Block, Model
from podsim.workload.specification import LIMITS, Transformer, resolve
from podsim.workload.transformer import build

GPT = Transformer(name="gpt", layers=4, hidden=96, heads=8, vocab=1000, sequence=64, dropout=True)
LLAMA = Transformer(
    name="llama",
    layers=2,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn=14336,
    vocab=128256,
    sequence=8192,
    gated=True,
    activation="silu",
    norm="rmsnorm",
    position="rope",
    qkv_bias=False,
    proj_bias=False,
    mlp_bias=False,
    tied=False,
)


def saved_bytes(block: Block, *, tp: int = 1, sequence_parallel: bool = False) -> float:
    """Bytes that one layer keeps per token on each of tp ranks, in bf16."""
    total = 0.0
    for op in block.ops:
        for tensor in op.saved:
            ranks = (
                tp if tensor.split == "column" or (tensor.split == "sequence" and sequence_parallel) else 1
            )
            total += tensor.elements * (tensor.bytes or 2) / ranks
    return total


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("hidden", [96, 6144, 12288])
def test_saved_bytes_are_those_of_korthikanti(hidden: int, tp: int) -> None:
    # Korthikanti et al. 2022, table 2, without the attention core's 5 a s: 34 h, 10 h + 24 h / t, 34 h / t
    layer = build(dataclasses.replace(GPT, hidden=hidden)).layers[0]
    assert saved_bytes(layer) == 34 * hidden
    assert saved_bytes(layer, tp=tp) == pytest.approx((10 + 24 / tp) * hidden)
    assert saved_bytes(layer, tp=tp, sequence_parallel=True) == pytest.approx(34 * hidden / tp)


def test_saved_bytes_outside_the_layers() -> None:
    # the same paper, section 4.3: the embedding's mask sbh; final norm 2sbh, input of logits 2sbh, loss 4sbv
    model = build(GPT)
    tokens = 8
    assert saved_bytes(model.embedding) == GPT.hidden + tokens
    assert saved_bytes(model.head) == 4 * GPT.hidden + 4 * GPT.vocab
    loss = model.head.ops[-1]  # six passes over fp32, which counts as two elements: all but the first read it
    assert (loss.read, loss.write, loss.read_back, loss.write_back) == (11_000, 8_000, 4_000, 3_000)


def test_saved_bytes_of_llama() -> None:
    h, f, q, kv = 4096, 14336, 4096, 1024
    layer = build(LLAMA).layers[0]
    assert saved_bytes(layer) == 2 * (4 * h + (q + 2 * kv) + q + 2 * f + f)


def test_saved_elements_of_other_layers() -> None:
    h = 96
    plain = dataclasses.replace(GPT, dropout=False)
    assert saved_bytes(build(plain).layers[0]) == 32 * h
    relu = dataclasses.replace(plain, activation="relu")
    assert saved_bytes(build(relu).layers[0]) == 24 * h
    parallel = dataclasses.replace(plain, parallel_residual=True)
    assert saved_bytes(build(parallel).layers[0]) == 30 * h, "one input of both norms"
    shared = dataclasses.replace(parallel, shared_norm=True)
    assert saved_bytes(build(shared).layers[0]) == 28 * h, "and one output"
    behind = dataclasses.replace(GPT, norm_first=False)
    assert saved_bytes(build(behind).layers[0]) == 34 * h


def test_ops_of_experts_are_marked_and_keep_what_a_copy_of_a_token_needs() -> None:
    spec = dataclasses.replace(LLAMA, experts=8, top_k=2, expert_ffn=1000)
    ops = {op.name: op for op in build(spec).layers[0].ops}
    kept = [t.elements for op in ops.values() for t in op.saved if op.expert]
    assert kept == [4096, 2000, 1000]
    assert all(op.expert == (op.name in ("moe.up", "moe.activation", "moe.down")) for op in ops.values())
    assert ops["moe.up"].weight == 8 * 4096 * 2000
    assert (ops["moe.up"].k, ops["moe.up"].n) == (4096, 2000)


@pytest.mark.parametrize(("layers", "hidden", "heads"), [(24, 2304, 24), (96, 12288, 96), (128, 25600, 160)])
def test_flops_are_those_of_narayanan(layers: int, hidden: int, heads: int) -> None:
    # SC'21, equation 3: F = 96 B s l h^2 (1 + s/6h + V/16lh): layers forward twice, backward at double cost
    s, vocab = 2048, 51200
    model = build(Transformer(name="g", layers=layers, hidden=hidden, heads=heads, vocab=vocab, sequence=s))
    flops = model.forward_flops()
    ours = 4 * (flops["gemm"] + flops["attention"]) + 3 * flops["logits"]
    theirs = 96 * layers * hidden**2 * (1 + s / (6 * hidden) + vocab / (16 * layers * hidden))
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(("layers", "hidden", "heads"), [(24, 2304, 24), (96, 12288, 96), (128, 25600, 160)])
def test_parameters_are_those_of_narayanan(layers: int, hidden: int, heads: int) -> None:
    # SC'21, equation 2: P = 12 l h^2 (1 + 13/12h + (V + s)/12lh), which leaves out the final norm
    model = build(
        Transformer(name="g", layers=layers, hidden=hidden, heads=heads, vocab=51200, sequence=2048)
    )
    theirs = 12 * layers * hidden**2 + 13 * layers * hidden + (51200 + 2048) * hidden
    assert model.parameters == theirs + 2 * hidden


def test_names_follow_megatron() -> None:
    assert [op.name for op in build(GPT).layers[0].ops] == [
        "attention.norm",
        "attention.qkv",
        "attention.core",
        "attention.proj",
        "attention.dropout_add",
        "mlp.norm",
        "mlp.up",
        "mlp.activation",
        "mlp.down",
        "mlp.dropout_add",
    ]
    assert "attention.rope" in [op.name for op in build(LLAMA).layers[0].ops]


def test_syncs() -> None:
    assert build(GPT).layers[0].syncs == 2
    assert build(dataclasses.replace(GPT, parallel_residual=True)).layers[0].syncs == 1
    encoder, decoder = build(dataclasses.replace(GPT, encoder_layers=2)).layers
    assert (encoder.syncs, decoder.syncs) == (2, 3)
    assert (encoder.encoder, decoder.encoder) == (True, False)
    moe = build(dataclasses.replace(GPT, experts=4, top_k=1, shared_ffn=8, shared_experts=1))
    assert moe.layers[0].syncs == 2


def test_windows_keep_their_order_and_share_ops() -> None:
    model = build(dataclasses.replace(GPT, layers=7, windows=(16, 16, 0)))
    assert [block.count for block in model.layers] == [2, 1, 2, 1, 1]
    assert model.layers[0].ops is model.layers[2].ops
    assert model.layer_count == 7
    assert [op.window for block in model.layers for op in block.ops if op.core] == [16, 0, 16, 0, 16]


def test_window_bounds_attention_flops() -> None:
    full = build(GPT).forward_flops()["attention"]
    assert build(dataclasses.replace(GPT, windows=(16,))).forward_flops()["attention"] == full * 16 / 64
    assert build(dataclasses.replace(GPT, windows=(999,))).forward_flops()["attention"] == full


def test_dense_layers_of_a_mixture() -> None:
    spec = dataclasses.replace(LLAMA, layers=5, experts=8, top_k=2, dense_layers=(0, 3, 77))
    model = build(spec)
    assert [(b.name, b.count, b.experts) for b in model.layers] == [
        ("layer", 1, 0),
        ("moe layer", 2, 8),
        ("layer", 1, 0),
        ("moe layer", 1, 8),
    ]
    assert model.active_parameters < model.parameters


def _with(**changes: object) -> Transformer:
    values: dict[str, object] = dict(changes)
    return dataclasses.replace(GPT, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 0, "heads": -1}, ["layers=0", "heads=-1"]),
        ({"hidden": True}, ["hidden=True"]),
        ({"hidden": 1.5}, ["hidden=1.5"]),
        ({"heads": 7}, ["heads=7 does not divide hidden=96", "1, 2, 3, 4, 6, 8, 12"]),
        ({"kv_heads": 3, "heads": 8}, ["kv_heads=3 does not divide heads=8", "1, 2, 4, 8"]),
        ({"layers": 10**9}, ["layers=1000000000", "10000"]),
        ({"sequence": 128, "positions": 64}, ["sequence=128", "positions=64"]),
        ({"experts": 4, "top_k": 5}, ["top_k=5", "experts=4"]),
        ({"top_k": 2}, ["need experts"]),
        ({"norm": "batchnorm"}, ["layernorm, rmsnorm"]),
        ({"windows": (-1,)}, ["windows"]),
        ({"windows": 4}, ["windows"]),
        ({"tied": 1}, ["tied=1"]),
        ({"kv_rank": 8, "head_dim": 5}, ["latent attention"]),
        ({"encoder_layers": 2, "experts": 2, "top_k": 1}, ["encoder"]),
        ({"hidden": 10**5000}, ["a number of"]),
    ],
)
def test_broken_rules_are_told(changes: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        build(_with(**changes))
    for word in words:
        assert word in str(caught.value)


@st.composite
def shapes(draw: st.DrawFn) -> Transformer:
    """Any transformer that obeys the rules, of any kind."""
    kv = draw(st.integers(1, 4))
    flag = st.booleans()
    experts = draw(st.sampled_from([0, 0, 4]))
    return Transformer(
        name="any",
        layers=draw(st.integers(1, 6)),
        hidden=draw(st.integers(1, 64)),
        heads=kv * draw(st.integers(1, 4)),
        kv_heads=kv,
        head_dim=draw(st.integers(1, 16)),
        ffn=draw(st.integers(1, 99)),
        vocab=draw(st.integers(1, 99)),
        sequence=draw(st.integers(1, 99)),
        gated=draw(flag),
        norm=draw(st.sampled_from(["layernorm", "rmsnorm"])),
        qkv_bias=draw(flag),
        mlp_bias=draw(flag),
        tied=draw(flag),
        dropout=draw(flag),
        position=draw(st.sampled_from(["learned", "rope", "alibi", "none"])),
        parallel_residual=draw(flag),
        shared_norm=draw(flag),
        sandwich_norms=draw(flag),
        qk_norm=draw(st.sampled_from(["none", "head", "full"])),
        windows=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
        experts=experts,
        top_k=1 if experts else 0,
    )


@given(shapes())
def test_any_shape_counts_up(spec: Transformer) -> None:
    model: Model = build(spec)
    assert model.layer_count == spec.layers
    assert model.parameters == sum(block.parameters for block in model.blocks)
    assert 0 < model.active_parameters <= model.parameters
    for block in model.blocks:
        for op in block.ops:
            sizes = (op.n, op.k, op.weight, op.bias, op.read, op.write, op.read_back, op.write_back)
            assert all(size >= 0 for size in sizes)
            assert (
                op.kind != "gemm"
                or op.n * op.k * (spec.experts if op.expert else 1) == op.weight
                or spec.tied
            )
            assert all(tensor.elements > 0 for tensor in op.saved)


@given(shapes(), st.integers(1, 9))
def test_layers_add_equally(spec: Transformer, more: int) -> None:
    plain = dataclasses.replace(spec, windows=())
    one, two = build(plain), build(dataclasses.replace(plain, layers=spec.layers + more))
    assert two.parameters - one.parameters == more * one.layers[0].parameters // one.layers[0].count


def test_resolved_specification_is_a_fixed_point() -> None:
    for spec in (GPT, LLAMA):
        assert resolve(resolve(spec)) == resolve(spec)


def test_limits_are_of_fields() -> None:
    assert set(LIMITS) <= {field.name for field in dataclasses.fields(Transformer)}


def test_what_stands_in_a_head_by_hand() -> None:
    """Hidden 64, 1,000 words: an encoder's output and its norm are kept, and the loss has 26 passes of fp32."""
    plain = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 1000, "sequence": 32}
    names = {}
    for name, more in (("alone", {}), ("both", {"encoder_layers": 2}), ("bare", {"final_norm": False})):
        model = build(resolve(Transformer(name="it", source="us", **plain | more)))  # type: ignore[arg-type]
        names[name] = [op.name for op in model.head.ops]
    assert names["alone"] == ["head.norm", "head.logits", "head.loss"]
    assert names["both"] == ["head.encoder_norm", *names["alone"]]
    assert names["bare"] == names["alone"][1:]
    loss = model.head.ops[-1]
    assert (loss.read, loss.write, loss.read_back, loss.write_back) == (11000, 8000, 4000, 3000)
    assert [(kept.elements, kept.bytes, kept.split) for kept in loss.saved] == [(1000, 4, "column")]


@pytest.mark.parametrize("module", ["podsim.workload.specification"])
def test_limits_are_believable(module: str) -> None:
    """No width or number of heads has reached 2^24 (the widest MLP of the catalog has 106,496), nor a table 2^28 rows."""
    free = {"plain", "head_plain", "rotary_base"}  # counts of parameters, and a base of angles
    limits = importlib.import_module(module).LIMITS
    widths = {name: most for name, most in limits.items() if name not in free}
    assert max(widths.values()) <= 2**27
    assert all(
        most <= 2**24 for name, most in widths.items() if name.endswith(("dim", "heads", "ffn", "input"))
    )
    assert [limits[name] for name in ("layers", "encoder_layers", "image_percent", "mtp")] == [
        10_000,
        10_000,
        100,
        64,
    ]


def test_a_scan_by_hand() -> None:
    """A norm of two vectors, projections in and out, and if there is one a convolution of four taps and a bias."""
    bare = dataclasses.replace(GPT, mixer="state", feed=False, state_input=200, state_width=96, state_dim=16)
    layer = build(bare).layers[0]
    assert layer.parameters == 4 * (2 * 96 + 96 * 200 + 96 * 96)
    scan = next(op for op in layer.ops if op.name == "state.scan")
    assert (scan.read, scan.write, scan.read_back, scan.write_back) == (288, 96, 576, 288)
    assert [op.name for op in layer.ops if op.name.startswith("state.")] == [
        "state.in", "state.scan", "state.gate", "state.out",
    ]  # fmt: skip
    assert scan.saved[0].elements == 96
    more = dataclasses.replace(bare, state_channels=128, state_taps=4, state_bias=True, state_chunk=64)
    ops = {op.name: op for op in build(more).layers[0].ops}
    assert build(more).layers[0].parameters == layer.parameters + 4 * (4 * 128 + 128)
    assert (ops["state.scan"].n, ops["state.scan"].k) == (96, 64 + 2 * 16)
    assert ops["state.scan"].saved[0].elements == ops["state.convolution"].read == 128


USUAL = {
    "TensorOp": {"share": 1.0, "key_share": 1.0, "causal": True, "fused": True}, "Block": {"count": 1}, "Saved": {},
    "Transformer": dict.fromkeys(("norm_scale", "norm_bias", "qkv_bias", "proj_bias", "mlp_bias", "tied", "final_norm",
                                  "norm_first", "lm_head", "feed"), True) | {"image_percent": 25},
}  # fmt: skip
"""What a GPT-2 has: all other numbers and flags of a network, a layer, an op and a tensor add nothing."""


@pytest.mark.parametrize("module", ["podsim.workload.specification", "podsim.workload.model"])
def test_what_is_not_said_adds_nothing(module: str) -> None:
    found = {name: kind for name, kind in vars(importlib.import_module(module)).items() if name in USUAL}
    for name, kind in found.items():
        told = {field.name: field.default for field in dataclasses.fields(kind)}
        numbers = {
            key: value for key, value in told.items() if value and isinstance(value, (bool, int, float))
        }
        assert numbers == USUAL[name]
    assert found
