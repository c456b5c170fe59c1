"""What is read of a class of modules, by hand: weights that only have a shape."""

from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

from podsim.errors import ModelError
from podsim.workload.model import Block, TensorOp
from podsim.workload.transformers_class import _ends, _merge_runs, _module, _passes, _product


def weight(*shape: int) -> Any:
    return SimpleNamespace(shape=shape, numel=lambda: prod(shape))


def test_tables_logits_and_the_rest() -> None:
    """A table of 100 x 8, logits of 100 x 8 of its own or tied, a norm of 8, and a layer of 50 that is read elsewhere."""
    table, logits, norm, layer = weight(100, 8), weight(100, 8), weight(8), weight(50)

    def module(last: Any) -> Any:
        return SimpleNamespace(
            get_input_embeddings=lambda: SimpleNamespace(weight=table),
            get_output_embeddings=lambda: last and SimpleNamespace(weight=last),
            parameters=lambda: [table, norm, layer, *([last] if last is logits else [])],
        )

    for last, own in ((logits, 800), (table, 0)):
        embedding, head = _ends(module(last), 8, {id(layer)})
        assert [(op.name, op.weight, op.read, op.read_back) for op in embedding] == [
            ("embedding.lookup", 800, 8, 16)
        ]
        assert [op.name for op in head] == ["head.plain", "head.logits", "head.loss"]
        assert (head[0].bias, head[1].weight, head[1].n, head[1].k) == (8, own, 100, 8)
        assert (head[2].read, head[2].write, head[2].read_back, head[2].write_back) == (1100, 800, 400, 300)
    assert [op.name for op in _ends(module(None), 8, {id(layer)})[1]] == ["head.plain"]
    bare = SimpleNamespace(parameters=lambda: [norm])
    embedding, head = _ends(bare, 8, set())
    assert (embedding, [op.bias for op in head]) == ((), [8])


def test_equal_neighbours_are_one_block() -> None:
    one, two = (TensorOp(name=name, kind="gemm", split="column", n=1, k=1) for name in "ab")
    blocks = [Block(name="x", ops=(op,), experts=experts) for op, experts in (
        (one, 0), (one, 0), (two, 0), (two, 4), (two, 4), (two, 4), (one, 0),
    )]  # fmt: skip
    assert [(run.ops[0].name, run.experts, run.count) for run in _merge_runs(blocks)] == [
        ("a", 0, 2), ("b", 0, 1), ("b", 4, 3), ("a", 0, 1)
    ]  # fmt: skip
    assert list(_merge_runs([])) == []


@pytest.mark.parametrize(
    ("name", "copies", "outer", "split"),
    [
        ("q_proj", 1, 8, "column"),
        ("o_proj", 1, 8, "row"),
        ("experts.up", 4, 16, "column"),
        ("experts.x", 4, 8, "row"),
    ],
)
def test_products_that_end_in_the_stream_are_divided_by_rows(
    name: str, copies: int, outer: int, split: str
) -> None:
    op = _product(name, 32, outer, copies, 8)
    assert (op.split, op.n, op.k, op.weight, op.expert) == (split, outer, 32, copies * 32 * outer, copies > 1)
    assert op.saved[0].split == ("column" if split == "row" else "sequence")


def test_two_norms_and_two_sums_hold_what_is_left() -> None:
    ops = list(_passes(8, 100))
    assert [(op.kind, op.bias, op.read, op.write) for op in ops] == [
        ("norm", 100, 8, 8), ("elementwise", 0, 16, 8), ("norm", 0, 8, 8), ("elementwise", 0, 16, 8)
    ]  # fmt: skip


@pytest.mark.parametrize("raw", [{"num_hidden_layers": 1001}, {"hidden_size": 2**26 + 1}])
def test_what_is_too_large_is_not_built(raw: dict[str, int]) -> None:
    with pytest.raises(ModelError, match=f"{next(iter(raw))}=.* is beyond what is built"):
        _module(raw, "it")
