"""The ops that layers are made of, and those that mix tokens: attention in its kinds, and the scans of `state_layers`.

Traffic of a memory-bound op is that of one fused kernel: bias + dropout + residual sum, bias + activation, or
norm. The backward figure of a residual sum includes adding the two gradients that meet there.
"""

from __future__ import annotations

from dataclasses import replace

from podsim.workload.model import Saved, Split, TensorOp
from podsim.workload.plain_ops import linear, memory_op, saved_tensor
from podsim.workload.specification import Transformer
from podsim.workload.state_layers import state_ops


def norm(spec: Transformer, name: str, width: int, *, keep: bool = True) -> TensorOp:
    """A norm over `width` elements; its backward reads the gradient and its input, which it keeps."""
    return _norm(spec, name, width, width, "sequence", saved_tensor(width, "sequence") if keep else ())


def _norm(
    spec: Transformer, name: str, width: int, scales: int, split: Split, keep: tuple[Saved, ...]
) -> TensorOp:
    """A norm of `width` elements with `scales` weights, and as many biases where it has them."""
    size = scales * (spec.norm_scale + (spec.norm_bias and spec.norm == "layernorm"))
    ahead, back = (width, width), (2 * width, width)
    return memory_op(name, "norm", split, ahead=ahead, back=back, bias=size, saved=keep, fused=False)


def residual(spec: Transformer, name: str, branches: int = 1) -> TensorOp:
    """Bias, dropout and sum of `branches` outputs with the residual stream.

    A dropout mask is one byte per element: half an element of traffic.
    """
    h, added = spec.hidden, branches * spec.hidden
    if not spec.dropout:
        return memory_op(name, "elementwise", "sequence", ahead=(h + added, h), back=(2 * h, h))
    mask = (Saved(elements=added, split="sequence", bytes=1),)
    ahead, back = (h + added, h + 0.5 * added), (2 * h + 1.5 * added, h + added)
    return memory_op(name, "dropout", "sequence", ahead=ahead, back=back, saved=mask)


def activation(spec: Transformer, name: str, width: int, *, expert: bool = False) -> TensorOp:
    """The MLP's activation: of `width` elements out, and twice as many in if it is gated."""
    inputs = 2 * width if spec.gated else width
    is_kept = spec.activation != "relu" or spec.gated
    keep = saved_tensor(inputs, "column") if is_kept and inputs else ()
    ahead, back = (inputs, width), (width + inputs, inputs)
    return memory_op(name, "activation", "column", ahead=ahead, back=back, saved=keep, expert=expert)


def layer_input(spec: Transformer) -> tuple[Saved, ...]:
    """The input of a branch, which its first product keeps."""
    return saved_tensor(spec.hidden, "sequence")


def attention_core(spec: Transformer, name: str, *, causal: bool, window: int = 0) -> TensorOp:
    """Softmax(QK)V; keeps queries, keys and values (what an unfused core adds is the plan's to say)."""
    keep = spec.heads * spec.head_dim + spec.kv_heads * (spec.head_dim + spec.value_dim)
    return TensorOp(
        name=name, kind="attention", split="head", heads=spec.heads, kv_heads=spec.kv_heads, head_dim=spec.head_dim,
        value_dim=spec.value_dim, dropout=spec.dropout, causal=causal, window=window, core=True,
        saved=saved_tensor(keep, "column"),
    )  # fmt: skip


def _projection(spec: Transformer, name: str) -> list[TensorOp]:
    """The product that closes attention, or two of low rank, the first for each group of heads (DeepSeek-V4)."""
    width = spec.heads * spec.value_dim
    keep = saved_tensor(width, "column")
    if not spec.proj_rank:
        return [linear(name, "row", width, spec.hidden, bias=spec.proj_bias, keep=keep)]
    inner = spec.proj_groups * spec.proj_rank
    return [
        linear(f"{name}_down", "column", width // spec.proj_groups, inner, keep=keep),
        linear(name, "row", inner, spec.hidden, keep=saved_tensor(inner, "column")),
    ]


def _attention(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """Attention from the input of its GEMM to the output of its projection."""
    queries, keys = spec.heads * spec.head_dim, 0 if spec.shared_keys else spec.kv_heads * spec.head_dim
    values = 0 if spec.shared_keys or spec.keys_are_values else spec.kv_heads * spec.value_dim
    low = _low_queries(spec, queries) if spec.q_rank else []
    width = (0 if low else queries) + keys + values + spec.heads * spec.query_gate
    product = linear(
        "attention.qkv", "column", spec.hidden, width, bias=spec.qkv_bias, keep=layer_input(spec)
    )
    if spec.kv_heads < spec.heads and values:
        product = replace(product, kv_heads=spec.kv_heads, head_dim=spec.head_dim, value_dim=spec.value_dim)
    ops = [*low, product]
    if spec.qk_norm != "none":
        ops.append(_query_key_norm(spec, queries + keys))
    if spec.position == "rope":
        ops.append(rotary(queries + keys))
    return [
        *ops,
        *_cores(spec, causal=causal, window=window),
        *([_gate(spec)] if spec.query_gate else []),
        *_projection(spec, "attention.proj"),
    ]


def _low_queries(
    spec: Transformer, queries: int, *, bias: bool = False, keep: tuple[Saved, ...] = ()
) -> list[TensorOp]:
    """Queries by two products of low rank, with a norm between them."""
    return [
        linear("attention.q_down", "sequence", spec.hidden, spec.q_rank, bias=bias, keep=keep),
        norm(spec, "attention.q_norm", spec.q_rank),
        linear("attention.q_up", "column", spec.q_rank, queries, keep=saved_tensor(spec.q_rank, "sequence")),
    ]


def _cores(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """Attention, and that to compressed keys: to all of them, or to those that the indexer picks."""
    near = attention_core(spec, "attention.core", causal=causal, window=window)
    if not spec.compress:
        return [near]
    picked = spec.index_keys if spec.index_heads else 0
    far = attention_core(spec, "attention.far", causal=causal, window=picked)
    return [near, replace(far, key_share=1 / spec.compress, saved=())]


def _gate(spec: Transformer) -> TensorOp:
    """The sigmoid gate on attention's output, which is as wide as its values."""
    width, gates = spec.heads * spec.value_dim, spec.heads * spec.query_gate
    ahead, back = (width + gates, width), (2 * width + gates, width + gates)
    keep = saved_tensor(width + gates, "column")
    return memory_op("attention.gate", "activation", "column", ahead=ahead, back=back, saved=keep)


def _indexer(spec: Transformer) -> list[TensorOp]:
    """The indexer of sparse attention: its heads score every key, and each query attends to the best of them.

    DeepSeek-V3.2-Exp, section 2.1: queries from the compressed query, one key and a weight per head from the input.
    """
    wide = spec.index_heads * spec.index_dim
    source = spec.q_rank or spec.hidden
    scores = TensorOp(
        name="index.scores",
        kind="attention",
        split="head",
        heads=spec.index_heads,
        kv_heads=spec.index_heads,
        head_dim=spec.index_dim,
        value_dim=1,
        key_share=1 / max(spec.compress, 1),
    )
    return [
        linear("index.q", "sequence", source, wide),
        linear("index.k", "sequence", spec.hidden, spec.index_dim),
        TensorOp(name="index.k_norm", kind="norm", split="sequence", bias=2 * spec.index_dim, fused=True),
        linear("index.weights", "sequence", spec.hidden, spec.index_heads),
        scores,
    ]


def _query_key_norm(spec: Transformer, width: int) -> TensorOp:
    weights = 2 * spec.head_dim if spec.qk_norm == "head" else width
    return _norm(spec, "attention.qk_norm", width, weights, "column", saved_tensor(width, "column"))


def _latent_attention(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), keys and values decompressed.

    The down-projections are repeated on every tensor-parallel rank, each over its own tokens under sequence
    parallelism; the up-projections are divided by heads. One rotary key of `rope_dim` serves all heads.
    """
    h, heads = spec.hidden, spec.heads
    queries, opened = heads * spec.head_dim, heads * (spec.nope_dim + spec.value_dim)
    low = linear("attention.kv_down", "sequence", h, spec.kv_rank + spec.rope_dim, bias=spec.qkv_bias)
    if spec.q_rank:
        ops = _low_queries(spec, queries, bias=spec.qkv_bias, keep=layer_input(spec))
    else:
        ops = [linear("attention.q", "column", h, queries, keep=layer_input(spec))]
    return [
        *ops,
        low,
        norm(spec, "attention.kv_norm", spec.kv_rank),
        linear(
            "attention.kv_up", "column", spec.kv_rank, opened, keep=saved_tensor(spec.kv_rank, "sequence")
        ),
        rotary((heads + 1) * spec.rope_dim),
        attention_core(spec, "attention.core", causal=causal, window=window),
        *_projection(spec, "attention.proj"),
    ]


def cross_attention(spec: Transformer) -> list[TensorOp]:
    """Attention to the encoder's output, which is kept once, by the encoder's last norm."""
    keys = spec.kv_heads * (spec.head_dim + spec.value_dim)
    queries = spec.heads * spec.head_dim
    return [
        norm(spec, "cross.norm", spec.hidden),
        linear("cross.q", "column", spec.hidden, queries, bias=spec.qkv_bias, keep=layer_input(spec)),
        linear("cross.kv", "column", spec.hidden, keys, bias=spec.qkv_bias),
        attention_core(spec, "cross.core", causal=False),
        *_projection(spec, "cross.proj"),
        residual(spec, "cross.dropout_add"),
    ]


def rotary(width: int) -> TensorOp:
    """Rotation of queries and keys, `width` elements of both together; keeps nothing."""
    moved = (width, width)
    return memory_op("attention.rope", "elementwise", "column", ahead=moved, back=moved, fused=False)


def mixer_ops(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """What mixes tokens in a layer; sinks are parameters alone."""
    if spec.mixer == "state":
        return state_ops(spec)
    if spec.mixer == "none":
        return []
    if spec.kv_rank:
        ops = _latent_attention(spec, causal=causal, window=window)
    else:
        ops = _attention(spec, causal=causal, window=window)
    if spec.index_heads:
        ops = [*_indexer(spec), *ops]
    if spec.sinks:
        ops.append(TensorOp(name="attention.sinks", kind="elementwise", split="none", bias=spec.heads))
    return [*ops, *state_ops(spec)] if spec.mixer == "both" else ops
