"""The ops that layers are made of: products, and ops bound by memory."""

from __future__ import annotations

from typing import Any

from podsim.workload.model import Kind, Saved, Split, TensorOp


def saved_tensor(elements: float, split: Split) -> tuple[Saved, ...]:
    """One tensor that is kept for the backward pass, of `elements` per token."""
    return (Saved(elements=elements, split=split),)


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
        name=name, kind="gemm", split=split, n=n, k=k, weight=copies * k * n, bias=copies * n * bias, saved=keep,
        expert=copies > 1,
    )  # fmt: skip


def memory_op(
    name: str, kind: Kind, split: Split, *, ahead: tuple[float, float], back: tuple[float, float], **more: Any
) -> TensorOp:
    """An op bound by memory: the elements per token that it reads and writes ahead, and in the backward pass.

    `more` are other fields of TensorOp.
    """
    return TensorOp(
        name=name, kind=kind, split=split, read=ahead[0], write=ahead[1], read_back=back[0], write_back=back[1], **more
    )  # fmt: skip
