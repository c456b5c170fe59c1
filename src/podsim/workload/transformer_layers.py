"""The ops of one transformer layer: shapes, parameters, traffic and saved tensors per token.

Legend: h hidden, f inner width of the MLP, t tensor-parallel degree; bytes are at 2 per element (bf16).

Saved tensors follow Korthikanti et al. 2022 (arXiv 2205.05198, section 4), whose GPT layer keeps, in addition to the
attention core's own 5 heads x sequence bytes, 34h bytes per token:

    attention   2h input of qkv | 6h queries, keys, values | 2h input of proj | 1h dropout mask
    MLP         2h input of up | 8h input of GeLU | 8h input of down | 1h dropout mask
    norms       4h inputs of both

of which 24h is divided by t, and the other 10h only under sequence parallelism. The other families follow the
same rule: each op keeps what its gradient needs, and a tensor needed twice is kept once. A gated activation
keeps its 2f inputs; ReLU keeps none (its output, which `down` keeps, tells the sign); grouped-query attention
keeps q + 2 kv heads; a norm of queries and keys also keeps its input; parallel branches share the
input of their norms.

Traffic of a memory-bound op is that of one fused kernel: bias + dropout + residual sum, bias + activation, or
norm. The backward figure of a residual sum includes adding the two gradients that meet there.
"""

from __future__ import annotations

from dataclasses import replace

from podsim.workload.model import Kind, Saved, Split, TensorOp
from podsim.workload.specification import Transformer


def linear(
    name: str,
    split: Split,
    k: int,
    n: int,
    *,
    bias: bool = False,
    copies: int = 1,
    keep: tuple[Saved, ...] = (),
) -> TensorOp:
    """A GEMM of inner width k and output width n; `copies` of it, if it is of experts."""
    return TensorOp(
        name=name,
        kind="gemm",
        split=split,
        n=n,
        k=k,
        weight=copies * k * n,
        bias=copies * n * bias,
        saved=keep,
        expert=copies > 1,
    )


def norm(
    spec: Transformer, name: str, width: int, *, keep: bool = True, split: Split = "sequence"
) -> TensorOp:
    """A norm over `width` elements; its backward reads the gradient and its input, which it keeps."""
    size = width * (spec.norm_scale + (spec.norm_bias and spec.norm == "layernorm"))
    saved = (Saved(elements=width, split="sequence"),) if keep else ()
    return TensorOp(
        name=name,
        kind="norm",
        split=split,
        bias=size,
        read=width,
        write=width,
        read_back=2 * width,
        write_back=width,
        saved=saved,
        fused=False,
    )


def residual(spec: Transformer, name: str, branches: int = 1) -> TensorOp:
    """Bias, dropout and sum of `branches` outputs with the residual stream.

    A dropout mask is one byte per element: half an element of traffic.
    """
    h = spec.hidden
    if not spec.dropout:
        return TensorOp(
            name=name,
            kind="elementwise",
            split="sequence",
            read=(1 + branches) * h,
            write=h,
            read_back=2 * h,
            write_back=h,
        )
    return TensorOp(
        name=name,
        kind="dropout",
        split="sequence",
        read=(1 + branches) * h,
        write=h + 0.5 * branches * h,
        read_back=2 * h + 1.5 * branches * h,
        write_back=h + branches * h,
        saved=(Saved(elements=branches * h, split="sequence", bytes=1),),
    )


def activation(spec: Transformer, name: str, width: int, *, expert: bool = False) -> TensorOp:
    """The MLP's activation: of `width` elements out, and twice as many in if it is gated."""
    inputs = 2 * width if spec.gated else width
    keep = 0 if spec.activation == "relu" and not spec.gated else inputs
    return TensorOp(
        name=name,
        kind="activation",
        split="column",
        read=inputs,
        write=width,
        read_back=width + inputs,
        write_back=inputs,
        saved=(Saved(elements=keep, split="column", expert=expert),) if keep else (),
        expert=expert,
    )


def rotary(width: int) -> TensorOp:
    """Rotation of queries and keys, `width` elements of both together; keeps nothing."""
    return TensorOp(
        name="attention.rope",
        kind="elementwise",
        split="column",
        read=width,
        write=width,
        read_back=width,
        write_back=width,
        fused=False,
    )


def attention_core(spec: Transformer, name: str, *, causal: bool, window: int = 0) -> TensorOp:
    """Softmax(QK)V; keeps queries, keys and values (what an unfused core adds is the plan's to say)."""
    keep = spec.heads * spec.head_dim + spec.kv_heads * (spec.head_dim + spec.value_dim)
    return TensorOp(
        name=name,
        kind="attention",
        split="head",
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        value_dim=spec.value_dim,
        dropout=spec.dropout,
        causal=causal,
        window=window,
        core=True,
        saved=(Saved(elements=keep, split="column"),),
    )


def _projection(spec: Transformer, name: str) -> TensorOp:
    width = spec.heads * spec.value_dim
    return linear(
        name, "row", width, spec.hidden, bias=spec.proj_bias, keep=(Saved(elements=width, split="column"),)
    )


def _input(spec: Transformer) -> tuple[Saved, ...]:
    return (Saved(elements=spec.hidden, split="sequence"),)


def _attention(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """Attention from the input of its GEMM to the output of its projection."""
    queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    width = queries + keys + spec.kv_heads * spec.value_dim
    product = linear("attention.qkv", "column", spec.hidden, width, bias=spec.qkv_bias, keep=_input(spec))
    if spec.kv_heads < spec.heads:
        product = replace(product, kv_heads=spec.kv_heads, head_dim=spec.head_dim, value_dim=spec.value_dim)
    ops = [product]
    if spec.qk_norm != "none":
        ops.append(_query_key_norm(spec, queries + keys))
    if spec.position == "rope":
        ops.append(rotary(queries + keys))
    return [
        *ops,
        attention_core(spec, "attention.core", causal=causal, window=window),
        _projection(spec, "attention.proj"),
    ]


def _query_key_norm(spec: Transformer, width: int) -> TensorOp:
    weights = 2 * spec.head_dim if spec.qk_norm == "head" else width
    size = weights * (spec.norm_scale + (spec.norm_bias and spec.norm == "layernorm"))
    return TensorOp(
        name="attention.qk_norm",
        kind="norm",
        split="column",
        bias=size,
        read=width,
        write=width,
        read_back=2 * width,
        write_back=width,
        saved=(Saved(elements=width, split="column"),),
        fused=False,
    )


def _latent_attention(spec: Transformer, *, causal: bool, window: int) -> list[TensorOp]:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), keys and values decompressed.

    The down-projections are repeated on every tensor-parallel rank, each over its own tokens under sequence
    parallelism; the up-projections are divided by heads. One rotary key of `rope_dim` serves all heads.
    """
    h, heads = spec.hidden, spec.heads
    queries = heads * spec.head_dim
    low = linear("attention.kv_down", "sequence", h, spec.kv_rank + spec.rope_dim, bias=spec.qkv_bias)
    if spec.q_rank:
        kept = (Saved(elements=spec.q_rank, split="sequence"),)
        ops = [
            linear("attention.q_down", "sequence", h, spec.q_rank, bias=spec.qkv_bias, keep=_input(spec)),
            norm(spec, "attention.q_norm", spec.q_rank),
            linear("attention.q_up", "column", spec.q_rank, queries, keep=kept),
        ]
    else:
        ops = [linear("attention.q", "column", h, queries, keep=_input(spec))]
    return [
        *ops,
        low,
        norm(spec, "attention.kv_norm", spec.kv_rank),
        linear(
            "attention.kv_up",
            "column",
            spec.kv_rank,
            heads * (spec.nope_dim + spec.value_dim),
            keep=(Saved(elements=spec.kv_rank, split="sequence"),),
        ),
        rotary((heads + 1) * spec.rope_dim),
        attention_core(spec, "attention.core", causal=causal, window=window),
        _projection(spec, "attention.proj"),
    ]


def _cross_attention(spec: Transformer) -> list[TensorOp]:
    """Attention to the encoder's output, which is kept once, by the encoder's last norm."""
    keys = spec.kv_heads * (spec.head_dim + spec.value_dim)
    queries = spec.heads * spec.head_dim
    return [
        norm(spec, "cross.norm", spec.hidden),
        linear("cross.q", "column", spec.hidden, queries, bias=spec.qkv_bias, keep=_input(spec)),
        linear("cross.kv", "column", spec.hidden, keys, bias=spec.qkv_bias),
        attention_core(spec, "cross.core", causal=False),
        _projection(spec, "cross.proj"),
        residual(spec, "cross.dropout_add"),
    ]


def _mlp(spec: Transformer, *, keep_input: bool = True) -> list[TensorOp]:
    up = spec.ffn * (2 if spec.gated else 1)
    kept = _input(spec) if keep_input else ()
    return [
        linear("mlp.up", "column", spec.hidden, up, bias=spec.mlp_bias, keep=kept),
        activation(spec, "mlp.activation", spec.ffn),
        linear(
            "mlp.down",
            "row",
            spec.ffn,
            spec.hidden,
            bias=spec.mlp_bias,
            keep=(Saved(elements=spec.ffn, split="column"),),
        ),
    ]


def _mixture(spec: Transformer) -> list[TensorOp]:
    """A mixture of experts: router, copies to the experts and back, and the shared experts.

    The router runs over each rank's own tokens under sequence parallelism. `moe.dispatch` is softmax, top-k
    and the permutation of the copies in memory (the exchange between ranks is the plan's); probabilities are
    applied at the activation, as Megatron-Core does, so that the experts' outputs need not be kept.
    """
    h, f, experts, k = spec.hidden, spec.expert_ffn, spec.experts, spec.top_k
    wide = 2 if spec.gated else 1
    router = TensorOp(
        name="moe.router",
        kind="gemm",
        split="sequence",
        n=experts,
        k=h,
        weight=h * experts,
        bias=experts * spec.router_bias,
        saved=_input(spec),
    )
    dispatch = _router_op(
        "moe.dispatch", read=h + 2.0 * experts, write=k * h + 2.0 * experts, back=(k * h, h)
    )
    inner = (Saved(elements=f, split="column", expert=True),)
    outer = (Saved(elements=h, split="sequence", expert=True),)
    ops = [
        router,
        dispatch,
        _expert(linear("moe.up", "column", h, wide * f, bias=spec.mlp_bias, copies=experts, keep=outer)),
        activation(spec, "moe.activation", f, expert=True),
        _expert(linear("moe.down", "row", f, h, bias=spec.mlp_bias, copies=experts, keep=inner)),
        _router_op("moe.combine", read=k * h, write=h, back=(h, k * h)),
    ]
    return ops + _shared_experts(spec)


def _shared_experts(spec: Transformer) -> list[TensorOp]:
    f = spec.shared_ffn
    if not f:
        return []
    ops = [
        linear("moe.shared_up", "column", spec.hidden, f * (2 if spec.gated else 1), bias=spec.mlp_bias),
        activation(spec, "moe.shared_activation", f),
        linear(
            "moe.shared_down",
            "row",
            f,
            spec.hidden,
            bias=spec.mlp_bias,
            keep=(Saved(elements=f, split="column"),),
        ),
    ]
    if spec.shared_gate:
        ops.append(linear("moe.shared_gate", "sequence", spec.hidden, 1, keep=_input(spec)))
    return ops


def _expert(op: TensorOp) -> TensorOp:
    """The op as an expert's even if there is only one expert."""
    return op if op.expert else TensorOp(**{**vars(op), "expert": True})


def _router_op(name: str, *, read: float, write: float, back: tuple[float, float]) -> TensorOp:
    kind: Kind = "router"
    return TensorOp(
        name=name,
        kind=kind,
        split="sequence",
        read=read,
        write=write,
        read_back=back[0],
        write_back=back[1],
        fused=False,
    )


def layer_ops(
    spec: Transformer, *, window: int = 0, mixture: bool = False, causal: bool = True, cross: bool = False
) -> tuple[TensorOp, ...]:
    """Ops of one layer of a resolved specification, in order."""
    h = spec.hidden
    if spec.kv_rank:
        attention = _latent_attention(spec, causal=causal, window=window)
    else:
        attention = _attention(spec, causal=causal, window=window)
    shared = spec.parallel_residual and spec.shared_norm
    mlp = _mixture(spec) if mixture else _mlp(spec, keep_input=not shared)
    if spec.parallel_residual:
        between = [] if shared else [norm(spec, "mlp.norm", h, keep=False)]
        both = residual(spec, "mlp.dropout_add", branches=2)
        return (norm(spec, "attention.norm", h), *attention, *between, *mlp, both)
    if spec.sandwich_norms:
        attention = [*attention, norm(spec, "attention.post_norm", h)]
        mlp = [*mlp, norm(spec, "mlp.post_norm", h)]
    attention.append(residual(spec, "attention.dropout_add"))
    mlp.append(residual(spec, "mlp.dropout_add"))
    norms = norm(spec, "attention.norm", h), norm(spec, "mlp.norm", h)
    middle = _cross_attention(spec) if cross else []
    if spec.norm_first:
        return (norms[0], *attention, *middle, norms[1], *mlp)
    return (*attention, norms[0], *middle, *mlp, norms[1])


def syncs(spec: Transformer, ops: tuple[TensorOp, ...]) -> int:
    """Tensor-parallel all-reduces of a layer's forward pass.

    One after each of attention, cross-attention and MLP (or experts): 2 in a standard layer, 3 in a T5
    decoder's. With a parallel residual both partial sums are added before a single all-reduce, as GPT-NeoX
    does (`gpt_j_residual`); Megatron-LM has no such layer.
    """
    if spec.parallel_residual:
        return 1
    return sum(op.split == "row" for op in ops if op.name != "moe.shared_down")
