"""Networks built by a class, counted by hand on a small one; the class of transformers is a stand-in."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from podsim.errors import ModelError
from podsim.workload import transformers_class
from podsim.workload.transformer import build
from podsim.workload.transformers_class import _module, class_parameters, read_by_class

torch = pytest.importorskip("torch")
nn = torch.nn


class Attention(nn.Module):  # type: ignore[misc,name-defined]
    """Two heads of width 4, which share one of keys and values: 64 + 32 + 32 + 64 weights."""

    def __init__(self) -> None:
        super().__init__()
        for name, inner, outer in (("q_proj", 8, 8), ("k_proj", 8, 4), ("v_proj", 8, 4), ("o_proj", 8, 8)):
            setattr(self, name, nn.Linear(inner, outer, bias=False))


class Layer(nn.Module):  # type: ignore[misc,name-defined]
    """192 of attention, 16 of a norm; a dense MLP of 256 + 32 + 256, or four experts of 128 and 64 each."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(8), Attention()
        if experts:
            self.gate_up = nn.Parameter(torch.empty(experts, 16, 8))
            self.down = nn.Parameter(torch.empty(experts, 8, 8))
        else:
            self.up_proj, self.down_proj = nn.Linear(8, 32), nn.Linear(32, 8, bias=False)


class ToyForCausalLM(nn.Module):  # type: ignore[misc,name-defined]
    """A table of 100 x 8, two dense layers and one with experts, a norm of 16, logits of 800 or tied."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config, self.table = config, nn.Embedding(100, 8)
        self.layers = nn.ModuleList([Layer(0), Layer(0), Layer(4)])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 100, bias=False)
        if config.tied:
            self.head.weight = self.table.weight

    def get_input_embeddings(self) -> Any:
        return self.table

    def get_output_embeddings(self) -> Any:
        return self.head


RAW = {"model_type": "toy", "architectures": ["ToyForCausalLM"], "hidden_size": 8, "num_attention_heads": 2,
       "vocab_size": 100, "num_experts_per_tok": 2, "max_position_embeddings": 64, "head_dim": 4}  # fmt: skip
DENSE, MIXED = 192 + 16 + 256 + 32 + 256, 192 + 16 + 4 * (128 + 64)


def _config(kind: str, *, tied: bool = False, **keys: Any) -> Any:
    if keys.get("hidden_size", 8) != 8:
        raise ValueError("hidden_size must be 8")
    return SimpleNamespace(tied=tied, to_dict=lambda: {**keys, "model_type": kind})


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "IMAGE_CLASSIFICATION")
    names = {f"MODEL_FOR_{name}_MAPPING_NAMES": {} for name in tables}
    names["MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"] = {"toy": "ToyForCausalLM"}
    parts = {
        "transformers": SimpleNamespace(
            ToyForCausalLM=ToyForCausalLM, AutoConfig=SimpleNamespace(for_model=_config), __version__="0"
        ),
        "transformers.models.auto.modeling_auto": SimpleNamespace(**names, MODEL_MAPPING_NAMES={}),
        "transformers.models.auto.configuration_auto": SimpleNamespace(CONFIG_MAPPING_NAMES={"toy": "ToyConfig"}),
        "torch": SimpleNamespace(device=nullcontext), "torch.nn": nn,
    }  # fmt: skip
    monkeypatch.setattr(transformers_class, "import_module", parts.__getitem__)
    monkeypatch.setattr(transformers_class, "is_installed", lambda: True)


@pytest.mark.parametrize(("tied", "head"), [(False, 800), (True, 0)])
def test_every_parameter_of_the_class_is_counted_once(tied: bool, head: int) -> None:
    total = 800 + 2 * DENSE + MIXED + 16 + head
    spec = read_by_class({**RAW, "tied": tied}, "toy")
    assert build(spec).parameters == class_parameters({**RAW, "tied": tied}) == total
    assert spec.captured is not None
    assert [(block.name, block.count, block.parameters) for block in spec.captured.layers] == [
        ("Layer", 2, 2 * DENSE), ("Layer", 1, MIXED),
    ]  # fmt: skip
    assert (spec.layers, spec.heads, spec.head_dim, spec.vocab, spec.hidden) == (3, 2, 4, 100, 8)
    assert (spec.sequence, spec.family, spec.source) == (64, "toy", "ToyForCausalLM of transformers")
    assert build(spec).tied_embeddings == tied


def test_the_ops_of_a_layer_by_hand() -> None:
    spec = read_by_class(RAW, "toy")
    assert spec.captured is not None
    dense, mixed = ({op.name: op for op in block.ops} for block in spec.captured.layers)
    core = dense["attention.core"]
    assert (core.heads, core.kv_heads, core.head_dim, core.causal) == (2, 1, 4, True)
    assert core.saved[0].elements == (2 + 2 * 1) * 4
    products = {name: (op.n, op.k, op.split, op.expert) for name, op in dense.items() if op.kind == "gemm"}
    assert products["attention.k_proj"] == (4, 8, "column", False)
    assert products["attention.o_proj"] == (8, 8, "row", False)
    assert products["up_proj"] == (32, 8, "column", False)
    assert products["down_proj"] == (8, 32, "row", False)
    assert dense["norm_1"].bias == 16 + 32  # the norm's and the bias of the MLP
    assert (mixed["gate_up"].n, mixed["gate_up"].k, mixed["gate_up"].weight) == (16, 8, 4 * 128)
    assert (mixed["gate_up"].split, mixed["down"].split, mixed["down"].expert) == ("column", "row", True)
    blocks = spec.captured.layers
    assert [(block.experts, block.top_k, block.syncs) for block in blocks] == [(0, 0, 2), (4, 2, 2)]


def test_the_ends_by_hand() -> None:
    """A lookup reads and writes a row of 8; the loss takes 11 and 8 passes over 100 logits, and keeps them in fp32."""
    captured = read_by_class(RAW, "toy").captured
    assert captured is not None
    (lookup,) = captured.embedding.ops
    assert (lookup.read, lookup.write, lookup.read_back, lookup.write_back) == (8, 8, 16, 8)
    plain, logits, loss = captured.head.ops
    first, second = (
        [op for op in captured.layers[0].ops if op.kind == kind] for kind in ("norm", "elementwise")
    )
    for norm, residual in zip(first, second, strict=True):
        assert (norm.read, norm.write, norm.read_back, norm.write_back, norm.fused) == (8, 8, 16, 8, False)
        assert (residual.read, residual.write, residual.read_back, residual.write_back) == (16, 8, 16, 8)
        assert (norm.saved[0].elements, residual.fused, residual.saved) == (8, True, ())
    assert (captured.embedding.syncs, captured.embedding.count, captured.head.syncs) == (1, 1, 0)
    assert (plain.bias, logits.n, logits.k, logits.weight) == (16, 100, 8, 800)
    assert (loss.read, loss.write, loss.read_back, loss.write_back) == (1100, 800, 400, 300)
    assert (loss.saved[0].elements, loss.saved[0].bytes, loss.fused, lookup.fused) == (100, 4, False, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 1001}, "num_hidden_layers=1001 is beyond what is built"),
        ({"vocab_size": 2**26 + 1}, "vocab_size=67108865 is beyond"),
        ({"hidden_size": 9}, "refuses the config: ValueError: hidden_size must be 8"),
        ({"model_type": "other", "architectures": ["Other"]}, "transformers 0 has no class for"),
    ],
)
def test_what_a_class_cannot_be_built_of(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        _module({**RAW, **changes}, "toy")
    assert _module({**RAW, "num_hidden_layers": 1000, "vocab_size": 2**26}, "toy").config
    assert class_parameters({**RAW, **changes}) == 0
    assert class_parameters({**RAW, "model_type": None}) == 0
