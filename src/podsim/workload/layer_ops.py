"""The ops that layers of every kind are made of: products, norms, activations, residual sums.

Traffic of a memory-bound op is that of one fused kernel: bias + dropout + residual sum, bias + activation, or
norm. The backward figure of a residual sum includes adding the two gradients that meet there.
"""

from __future__ import annotations

from podsim.workload.model import Saved, Split, TensorOp
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


def layer_input(spec: Transformer) -> tuple[Saved, ...]:
    """The input of a branch, which its first product keeps."""
    return (Saved(elements=spec.hidden, split="sequence"),)
