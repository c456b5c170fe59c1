"""2:4 sparsity of files of weights: which tensors are pruned, which channels move for free, and what is written.

A tensor is pruned if it is a matrix or a kernel of a convolution in floating point, with inputs in multiples of 16 and
outputs in multiples of 8, as NVIDIA's own tool asks (apex.contrib.sparsity, "asp.py"). Hidden channels of an MLP may be
permuted: rows of the layer before and columns of the layer after together, which leaves the network's function alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints
from podsim.errors import PodsimError
from podsim.learning.sparsity import GROUP, Sparsity24, best_mask, compress, compressed_bytes, kept_magnitude
from podsim.learning.sparsity_permutation import best_order
from podsim.learning.tensor_files import BITS, WIDTHS, TensorEntry, TensorFile

Array: TypeAlias = NDArray[Any]
LEAST_INPUTS, LEAST_OUTPUTS = 16, 8
FORMAT = "podsim-2:4"
VALUES, INDICES, SHAPE, METADATA = ".sparse_values", ".sparse_indices", "shape:", "metadata"
MLPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("down_proj", ("gate_proj", "up_proj")), ("mlp.out", ("mlp.gate", "mlp.up")), ("fc2", ("fc1",)),
    ("mlp.c_proj", ("mlp.c_fc",)), ("w2", ("w1", "w3")), ("output.dense", ("intermediate.dense",)),
    ("dense_4h_to_h", ("dense_h_to_4h",)), ("fc_out", ("fc_in",)), ("linear2", ("linear1",)),
)  # fmt: skip
"""the layer after an MLP's hidden channels, and those before: names at the end of their modules' paths"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The tensors that are pruned."""

    only: tuple[str, ...]
    skip: tuple[str, ...]
    is_first: bool
    """Whether a matrix's inputs are on its first axis."""

    def reason(self, entry: TensorEntry) -> str:
        """The reason why a tensor stays dense; empty for one that is pruned."""
        if len(entry.shape) not in (2, 3, 4):
            return f"{len(entry.shape)} axes"
        if any(fnmatchcase(entry.name, pattern) for pattern in self.skip):
            return "skipped by name"
        if not any(fnmatchcase(entry.name, pattern) for pattern in self.only):
            return "not chosen"
        if entry.kind not in BITS:
            return f"type {entry.kind}"
        inputs, outputs = entry.shape[self.inputs(entry)], entry.shape[self.outputs(entry)]
        if inputs % LEAST_INPUTS or outputs % LEAST_OUTPUTS:
            return f"{inputs} inputs, {outputs} outputs"
        return ""

    def inputs(self, entry: TensorEntry) -> int:
        """The axis of the inputs: of a kernel (outputs, inputs, height, width) the second, of experts the last."""
        return {2: 0 if self.is_first else 1, 3: 1 if self.is_first else 2, 4: 1}[len(entry.shape)]

    def outputs(self, entry: TensorEntry) -> int:
        """The axis of the outputs."""
        return {2: 1 if self.is_first else 0, 3: 2 if self.is_first else 1, 4: 0}[len(entry.shape)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pruning:
    """A file, and what happens to its tensors."""

    file: TensorFile
    choice: Choice
    orders: Mapping[str, tuple[int, Ints]] = field(default_factory=dict)
    """The axis and the new order of the channels of each permuted tensor."""

    def rows(self, entry: TensorEntry) -> Array:
        """The bits of a tensor with permuted channels, inputs on the last axis."""
        return np.moveaxis(self.permuted(entry), self.choice.inputs(entry), -1)

    def permuted(self, entry: TensorEntry) -> Array:
        """The bits of a tensor with permuted channels."""
        bits = self.file.bits(entry)
        axis, order = self.orders.get(entry.name, (0, None))
        return bits if order is None else np.take(bits, order, axis=axis)

    def masked(self, entry: TensorEntry) -> Array:
        """The bits of a pruned tensor, inputs on the last axis."""
        rows = self.rows(entry)
        return np.where(best_mask(_unsigned(rows)), rows, 0)

    def kept(self, entry: TensorEntry) -> tuple[float, float]:
        """(magnitude that is kept, all magnitude) of a tensor."""
        size = np.abs(floats_of(self.rows(entry), entry.kind))
        total = float(size.sum(dtype=np.float64))
        if not math.isfinite(total):
            raise PodsimError(f"{entry.name} holds numbers that are not finite; masks need magnitudes")
        return kept_magnitude(size), total


def _unsigned(bits: Array) -> Array:
    """The bits without their sign: as integers they are in the order of the magnitudes."""
    return np.asarray(bits & np.array((1 << (8 * bits.dtype.itemsize - 1)) - 1, bits.dtype))


def floats_of(bits: Array, kind: str) -> Array:
    """The numbers that bits stand for."""
    if kind == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.view({"F64": np.float64, "F32": np.float32, "F16": np.float16}[kind]).astype(
        np.float64 if kind == "F64" else np.float32
    )


def permutations(file: TensorFile, choice: Choice) -> dict[str, tuple[int, Ints]]:
    """The orders of hidden channels of all MLPs whose second layer is pruned, by tensor; empty if none keeps more."""
    known = {entry.name: entry for entry in file.entries}
    orders: dict[str, tuple[int, Ints]] = {}
    for entry in file.entries:
        before = _layers_before(entry.name, known)
        if choice.reason(entry) or len(entry.shape) != 2 or not before:
            continue
        inputs = choice.inputs(entry)
        if any(known[name].shape[choice.outputs(known[name])] != entry.shape[inputs] for name in before):
            continue
        if _has_other_readers(entry, before, entry.shape[inputs], known):
            continue
        matrix = np.moveaxis(floats_of(file.bits(entry), entry.kind), inputs, -1)
        order = best_order(np.abs(matrix))
        if (order == np.arange(len(order))).all():
            continue
        orders[entry.name] = (inputs, order)
        for name in before:
            orders[name] = (choice.outputs(known[name]), order)
            bias = name.removesuffix("weight") + "bias"
            if bias in known:
                orders[bias] = (0, order)
    return orders


def _layers_before(name: str, known: Mapping[str, TensorEntry]) -> list[str]:
    """The weights of the layers that make the hidden channels that a layer reads; empty if it is none of an MLP."""
    for after, before in MLPS:
        if name.endswith(f"{after}.weight"):
            path = name.removesuffix(f"{after}.weight")
            names = [f"{path}{each}.weight" for each in before]
            there = [each for each in names if each in known and len(known[each].shape) == 2]
            if there:
                return there
    return []


def _has_other_readers(
    entry: TensorEntry, before: Sequence[str], hidden: int, known: Mapping[str, TensorEntry]
) -> bool:
    """Whether the modules of an MLP hold one more tensor of its hidden channels, such as a norm between its layers."""
    own = {entry.name, *before, *(f"{name.removesuffix('weight')}bias" for name in before)}
    modules = {name.removesuffix(".weight").rpartition(".")[0] for name in (entry.name, *before)}
    return any(
        hidden in other.shape and name not in own
        for name, other in known.items()
        if any(name.startswith(f"{module}.") or not module for module in modules)
    )


def packed_bytes(entry: TensorEntry, choice: Choice) -> int:
    """B of a pruned tensor in the compressed layout."""
    inputs = entry.shape[choice.inputs(entry)]
    return compressed_bytes(math.prod(entry.shape) // inputs, inputs, WIDTHS[entry.kind])


Named: TypeAlias = tuple[str, str, tuple[int, ...]]


def new_entries(pruning: Pruning, *, packed: bool) -> list[Named]:
    """(name, type, shape) of the tensors of the new file."""
    entries: list[Named] = []
    for entry in pruning.file.entries:
        if pruning.choice.reason(entry) or not packed:
            entries.append((entry.name, entry.kind, entry.shape))
            continue
        inputs = entry.shape[pruning.choice.inputs(entry)]
        rows = math.prod(entry.shape) // inputs
        entries.append((entry.name + VALUES, entry.kind, (rows, inputs // 2)))
        entries.append((entry.name + INDICES, "U8", (rows, -(-inputs // (2 * GROUP)))))
    return entries


def new_parts(pruning: Pruning, *, packed: bool) -> Iterator[Array]:
    """The bits of the tensors of the new file, one after the other."""
    for entry in pruning.file.entries:
        if pruning.choice.reason(entry):
            yield pruning.permuted(entry) if entry.name in pruning.orders else pruning.file.raw(entry)
            continue
        masked = pruning.masked(entry)
        if packed:
            matrix = compress(masked.reshape(-1, masked.shape[-1]))
            yield from (matrix.values, matrix.indices)
        else:
            yield np.moveaxis(masked, -1, pruning.choice.inputs(entry))


def packed_metadata(pruning: Pruning) -> dict[str, str]:
    """The metadata of a compressed file: shapes of tensors, the axis of their inputs, and the metadata that was."""
    shapes = {
        SHAPE + entry.name: ",".join(map(str, (*entry.shape, pruning.choice.inputs(entry))))
        for entry in pruning.file.entries
        if not pruning.choice.reason(entry)
    }
    return {"format": FORMAT, METADATA: json.dumps(dict(pruning.file.metadata)), **shapes}


def restored_metadata(file: TensorFile) -> dict[str, str]:
    """The metadata that a file had before it was compressed; empty if it does not say."""
    try:
        kept = json.loads(file.metadata.get(METADATA, "{}"))
    except (ValueError, RecursionError):
        return {}
    return (
        {key: value for key, value in kept.items() if isinstance(value, str)}
        if isinstance(kept, dict)
        else {}
    )


def restored_entries(file: TensorFile) -> list[tuple[TensorEntry, TensorEntry | None, tuple[int, ...], int]]:
    """(tensor, its indices, shape of the dense one, axis of the inputs) of a compressed file.

    A tensor that is not compressed has no indices. Raises PodsimError for a file that holds no compressed tensors, and
    for pieces that do not belong together.
    """
    known = {entry.name: entry for entry in file.entries}
    if file.metadata.get("format") != FORMAT:
        raise PodsimError(
            f"{file.path}: not compressed by podsim prune --compressed; its format is not {FORMAT}"
        )
    restored: list[tuple[TensorEntry, TensorEntry | None, tuple[int, ...], int]] = []
    for entry in file.entries:
        name = entry.name.removesuffix(VALUES)
        if entry.name.endswith(INDICES) and entry.name.removesuffix(INDICES) + VALUES in known:
            continue
        if name == entry.name:
            restored.append((entry, None, entry.shape, 0))
            continue
        shape, axis = _dense_shape(file, name)
        indices, rows = known.get(name + INDICES), math.prod(shape) // max(1, shape[axis])
        packed = (rows, -(-shape[axis] // (2 * GROUP)))
        if indices is None or entry.shape != (rows, shape[axis] // 2) or indices.shape != packed:
            raise PodsimError(
                f"{file.path}: values and indices of {name[:80]} do not make shape {list(shape)}"
            )
        restored.append((entry, indices, shape, axis))
    return restored


def _dense_shape(file: TensorFile, name: str) -> tuple[tuple[int, ...], int]:
    """The shape of a tensor before it was compressed, and the axis of its inputs."""
    words = file.metadata.get(SHAPE + name, "").split(",")
    if len(words) not in (3, 4, 5) or not all(word.isdecimal() and len(word) < 12 for word in words):
        raise PodsimError(f"{file.path}: its header does not say the shape of {name[:80]}")
    *shape, axis = map(int, words)
    if axis >= len(shape) or 0 in shape:
        raise PodsimError(f"{file.path}: shape {shape} of {name[:80]} has no axis {axis}")
    return tuple(shape), axis


def restored_part(
    file: TensorFile, entry: TensorEntry, indices: TensorEntry | None, shape: tuple[int, ...], axis: int
) -> Array:
    """The bits of a tensor of a compressed file, dense."""
    if indices is None:
        return file.raw(entry)
    if entry.kind not in BITS:
        raise PodsimError(f"{file.path}: {entry.name[:80]} has type {entry.kind}")
    matrix = Sparsity24(values=file.bits(entry), indices=file.raw(indices).reshape(indices.shape))
    wide = [size for position, size in enumerate(shape) if position != axis]
    return np.moveaxis(matrix.dense().reshape(*wide, shape[axis]), -1, axis)
