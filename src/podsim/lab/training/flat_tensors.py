"""Tensors as one flat buffer, which a single message or one sum carries, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsim.lab.wires import load_torch


def local_part(tensor: Any) -> Any:
    """This rank's part of a tensor: the same numbers in memory."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def flattened(tensors: Sequence[Any]) -> Any:
    """The numbers of some tensors, one after the other, in a new buffer."""
    return load_torch().cat([tensor.detach().reshape(-1) for tensor in tensors])


def parts_of(flat: Any, tensors: Sequence[Any]) -> list[Any]:
    """The parts of a flat buffer in the shapes of the tensors whose numbers it holds: views, not copies."""
    sizes = [tensor.numel() for tensor in tensors]
    return [part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors, strict=True)]


def fill(tensors: Sequence[Any], flat: Any) -> None:
    """Copy a flat buffer into the tensors."""
    with load_torch().no_grad():
        for tensor, part in zip(tensors, parts_of(flat, tensors), strict=True):
            tensor.copy_(part)
