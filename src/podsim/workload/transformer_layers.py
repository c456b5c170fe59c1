"""The ops of one transformer layer: shapes, parameters, traffic and saved tensors per token.

Legend: h hidden, f inner width of the MLP, t tensor-parallel degree; bytes are at 2 per element (bf16).

Saved tensors follow arXiv 2205.05198 (section 4), whose GPT layer keeps, in addition to the
attention core's own 5 heads x sequence bytes, 34h bytes per token:

    attention   2h input of qkv | 6h queries, keys, values | 2h input of proj | 1h dropout mask
    MLP         2h input of up | 8h input of GeLU | 8h input of down | 1h dropout mask
    norms       4h inputs of both

of which 24h is divided by t, and the other 10h only under sequence parallelism. The other families follow the
same rule: each op keeps what its gradient needs, and a tensor needed twice is kept once. A gated activation
keeps its 2f inputs; ReLU keeps none (its output, which `down` keeps, tells the sign); grouped-query attention
keeps q + 2 kv heads; a norm of queries and keys also keeps its input; parallel branches share the
input of their norms.
"""

from __future__ import annotations

from podsim.workload.attention_layers import (
    activation,
    cross_attention,
    layer_input,
    mixer_ops,
    norm,
    residual,
)
from podsim.workload.model import TensorOp
from podsim.workload.plain_ops import linear, memory_op, saved_tensor
from podsim.workload.specification import Transformer
from podsim.workload.state_layers import extra_ops


def _mlp(spec: Transformer, *, keep_input: bool = True) -> list[TensorOp]:
    up = spec.ffn * (2 if spec.gated else 1)
    keep, inner = layer_input(spec) if keep_input else (), saved_tensor(spec.ffn, "column")
    return [
        linear("mlp.up", "column", spec.hidden, up, bias=spec.mlp_bias, keep=keep),
        activation(spec, "mlp.activation", spec.ffn),
        linear("mlp.down", "row", spec.ffn, spec.hidden, bias=spec.mlp_bias, keep=inner),
    ]


def _mixture(spec: Transformer) -> list[TensorOp]:
    """A mixture of experts: router, copies to the experts and back, and the shared experts.

    The router runs over each rank's own tokens under sequence parallelism. `moe.dispatch` is softmax, top-k
    and the permutation of the copies in memory (the exchange between ranks is the plan's); probabilities are
    applied at the activation, as Megatron-Core does, so that the experts' outputs need not be kept.
    """
    h, f, experts, k = spec.hidden, spec.expert_ffn, spec.experts, spec.top_k
    wide, inside = 2 if spec.gated else 1, spec.expert_hidden or h
    router = linear("moe.router", "sequence", h, experts, bias=spec.router_bias, keep=layer_input(spec))
    scores = 2.0 * experts
    dispatch = _router_op("moe.dispatch", (inside + scores, k * inside + scores), (k * inside, inside))
    inner, outer = saved_tensor(f, "column"), saved_tensor(inside, "sequence")
    ops = [
        dispatch,
        _expert(linear("moe.up", "column", inside, wide * f, bias=spec.mlp_bias, copies=experts, keep=outer)),
        activation(spec, "moe.activation", f, expert=True),
        _expert(linear("moe.down", "row", f, inside, bias=spec.mlp_bias, copies=experts, keep=inner)),
        _router_op("moe.combine", (k * inside, inside), (inside, k * inside)),
    ]
    if spec.expert_hidden:
        keep = saved_tensor(inside, "sequence")
        narrow = linear("moe.latent_in", "sequence", h, inside, bias=spec.mlp_bias)
        ops = [narrow, *ops, linear("moe.latent_out", "sequence", inside, h, bias=spec.mlp_bias, keep=keep)]
    ops = [router, *ops]
    return ops + _shared_experts(spec) + (_mlp(spec, keep_input=False) if spec.dense_beside else [])


def _shared_experts(spec: Transformer) -> list[TensorOp]:
    f = spec.shared_ffn
    if not f:
        return []
    ops = [
        linear("moe.shared_up", "column", spec.hidden, f * (2 if spec.gated else 1), bias=spec.mlp_bias),
        activation(spec, "moe.shared_activation", f),
        linear("moe.shared_down", "row", f, spec.hidden, bias=spec.mlp_bias, keep=saved_tensor(f, "column")),
    ]
    if spec.shared_gate:
        ops.append(linear("moe.shared_gate", "sequence", spec.hidden, 1, keep=layer_input(spec)))
    return ops


def _expert(op: TensorOp) -> TensorOp:
    """The op as an expert's even if there is only one expert."""
    return op if op.expert else TensorOp(**{**vars(op), "expert": True})


def _router_op(name: str, ahead: tuple[float, float], back: tuple[float, float]) -> TensorOp:
    return memory_op(name, "router", "sequence", ahead=ahead, back=back, fused=False)


def layer_ops(
    spec: Transformer, *, window: int = 0, mixture: bool = False, causal: bool = True, cross: bool = False
) -> tuple[TensorOp, ...]:
    """Ops of one layer of a resolved specification, in order."""
    h = spec.hidden
    attention = mixer_ops(spec, causal=causal, window=window or (spec.index_keys if not spec.compress else 0))
    if spec.extras or spec.plain:
        attention += extra_ops(spec)
    if spec.mixer == "none" or not spec.feed:
        return _single_branch(spec, attention, mixture)
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
    middle = cross_attention(spec) if cross else []
    if spec.norm_first:
        return (norms[0], *attention, *middle, norms[1], *mlp)
    return (*attention, norms[0], *middle, *mlp, norms[1])


def _single_branch(spec: Transformer, mixer: list[TensorOp], mixture: bool) -> tuple[TensorOp, ...]:
    """A layer of one branch: a mixer without MLP, an MLP without mixer, or neither (its ops are those of `mixer`)."""
    feed = (_mixture(spec) if mixture else _mlp(spec)) if spec.feed else []
    if not (spec.feed or mixer):
        return (TensorOp(name="layer.skip", kind="elementwise", split="sequence"),)
    name = "mlp" if spec.feed else "attention"
    return (norm(spec, f"{name}.norm", spec.hidden), *mixer, *feed, residual(spec, f"{name}.dropout_add"))


def syncs(spec: Transformer, ops: tuple[TensorOp, ...]) -> int:
    """Tensor-parallel all-reduces of a layer's forward pass.

    One after each of attention, cross-attention and MLP (or experts): 2 in a standard layer, 3 in a T5
    decoder's. With a parallel residual both partial sums are added before a single all-reduce, as GPT-NeoX
    does (`gpt_j_residual`); Megatron-LM has no such layer.
    """
    if spec.parallel_residual:
        return 1
    return sum(op.split == "row" for op in ops if op.name != "moe.shared_down")
