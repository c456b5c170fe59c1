"""The ops of a mixer that carries a state along the sequence: Mamba, gated linear attention, short convolutions.

    in projection -> short convolution -> scan -> out projection

A chunked scan (state-space duality, Dao and Gu 2024, arXiv 2405.21060, section 6; gated delta rule, Yang et al. 2024,
arXiv 2412.06464) is products: within a chunk every channel reads `chunk` tokens, and its state of `state_dim` elements
is written once and read once. The scan of Mamba-1 (Gu and Dao 2023, arXiv 2312.00752) runs step by step and is bound
by memory. Known error: kernels of scans reach less of the peak than a product of these shapes.
"""

from __future__ import annotations

from podsim.workload.model import TensorOp
from podsim.workload.plain_ops import linear, memory_op, saved_tensor
from podsim.workload.specification import Transformer


def state_ops(spec: Transformer) -> list[TensorOp]:
    """The ops from the input of a scan's projection to the output of its last; see the module."""
    width = spec.state_width
    product = linear(
        "state.in", "column", spec.hidden, spec.state_input, keep=saved_tensor(spec.hidden, "sequence")
    )
    ops = [product, *([_convolution(spec)] if spec.state_channels else [])]
    if spec.state_dim:
        ops.append(_scan(spec))
    ops.append(_gate(width))
    return [*ops, linear("state.out", "row", width, spec.hidden, keep=saved_tensor(width, "column"))]


def extra_ops(spec: Transformer) -> list[TensorOp]:
    """Further products of a layer, and its parameters that no product reads."""
    ops = [
        linear(f"extra.{name}", "sequence", inner, outer, keep=saved_tensor(inner, "sequence"))
        for name, inner, outer in spec.extras
    ]
    if spec.plain:
        ops.append(TensorOp(name="extra.plain", kind="elementwise", split="none", bias=spec.plain))
    return ops


def _convolution(spec: Transformer) -> TensorOp:
    channels = spec.state_channels
    return memory_op(
        "state.convolution", "elementwise", "column", ahead=(channels, channels), back=(2 * channels, channels),
        weight=channels * spec.state_taps, bias=channels * spec.state_bias, saved=saved_tensor(channels, "column"),
        fused=False,
    )  # fmt: skip


def _scan(spec: Transformer) -> TensorOp:
    width, keep = spec.state_width, saved_tensor(spec.state_channels or spec.state_width, "column")
    if spec.state_chunk:
        inner = spec.state_chunk + 2 * spec.state_dim
        return TensorOp(name="state.scan", kind="gemm", split="column", n=width, k=inner, saved=keep)
    moved = 3.0 * width
    ahead, back = (moved, width), (2 * moved, moved)
    return memory_op("state.scan", "elementwise", "column", ahead=ahead, back=back, saved=keep, fused=False)


def _gate(width: int) -> TensorOp:
    """The gate on a scan's output, with its norm where it has one."""
    ahead, back = (2 * width, width), (3 * width, 2 * width)
    keep = saved_tensor(2 * width, "column")
    return memory_op("state.gate", "activation", "column", ahead=ahead, back=back, saved=keep)
