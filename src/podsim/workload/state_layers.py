"""The ops of a mixer that carries a state along the sequence: Mamba, gated linear attention, short convolutions.

    in projection -> short convolution -> scan -> out projection

A chunked scan (state-space duality, Dao and Gu 2024, arXiv 2405.21060, section 6; gated delta rule, Yang et al. 2024,
arXiv 2412.06464) is products: within a chunk every channel reads `chunk` tokens, and its state of `state_dim` elements
is written once and read once. The scan of Mamba-1 (Gu and Dao 2023, arXiv 2312.00752) runs step by step and is bound
by memory. Known error: kernels of scans reach less of the peak than a product of these shapes.
"""

from __future__ import annotations

from podsim.workload.model import Saved, TensorOp
from podsim.workload.specification import Transformer


def state_ops(spec: Transformer) -> list[TensorOp]:
    """The ops from the input of a scan's projection to the output of its last; see the module."""
    width = spec.state_width
    product = _product(
        "state.in", spec.hidden, spec.state_input, spec.hidden, split="column", saved="sequence"
    )
    ops = [product, *([_convolution(spec)] if spec.state_channels else [])]
    if spec.state_dim:
        ops.append(_scan(spec))
    ops.append(_gate(width))
    return [*ops, _product("state.out", width, spec.hidden, width, split="row", saved="column")]


def extra_ops(spec: Transformer) -> list[TensorOp]:
    """Further products of a layer, and its parameters that no product reads."""
    ops = [
        TensorOp(
            name=f"extra.{name}",
            kind="gemm",
            split="sequence",
            n=outer,
            k=inner,
            weight=inner * outer,
            saved=(Saved(elements=inner, split="sequence"),),
        )
        for name, inner, outer in spec.extras
    ]
    if spec.plain:
        ops.append(TensorOp(name="extra.plain", kind="elementwise", split="none", bias=spec.plain))
    return ops


def _product(name: str, inner: int, outer: int, kept: int, *, split: str, saved: str) -> TensorOp:
    return TensorOp(
        name=name,
        kind="gemm",
        split=split,  # type: ignore[arg-type]
        n=outer,
        k=inner,
        weight=inner * outer,
        saved=(Saved(elements=kept, split=saved),),  # type: ignore[arg-type]
    )


def _convolution(spec: Transformer) -> TensorOp:
    channels = spec.state_channels
    return TensorOp(
        name="state.convolution",
        kind="elementwise",
        split="column",
        weight=channels * spec.state_taps,
        bias=channels * spec.state_bias,
        read=channels,
        write=channels,
        read_back=2 * channels,
        write_back=channels,
        saved=(Saved(elements=channels, split="column"),),
        fused=False,
    )


def _scan(spec: Transformer) -> TensorOp:
    width, kept = spec.state_width, (Saved(elements=spec.state_channels or spec.state_width, split="column"),)
    if spec.state_chunk:
        inner = spec.state_chunk + 2 * spec.state_dim
        return TensorOp(name="state.scan", kind="gemm", split="column", n=width, k=inner, saved=kept)
    moved = 3.0 * width
    return TensorOp(
        name="state.scan",
        kind="elementwise",
        split="column",
        read=moved,
        write=width,
        read_back=2 * moved,
        write_back=moved,
        saved=kept,
        fused=False,
    )


def _gate(width: int) -> TensorOp:
    """The gate on a scan's output, with its norm where it has one."""
    return TensorOp(
        name="state.gate",
        kind="activation",
        split="column",
        read=2 * width,
        write=width,
        read_back=3 * width,
        write_back=2 * width,
        saved=(Saved(elements=2 * width, split="column"),),
    )
