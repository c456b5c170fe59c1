"""`podsim prune`: weights of a file pruned 2:4, dense or compressed, and how much of their magnitude stays."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.answers.pruned import Pruned, PrunedTensor
from podsim.errors import PodsimError, raise_all
from podsim.learning.sparsity_files import (
    Choice,
    Pruning,
    new_entries,
    new_parts,
    packed_bytes,
    packed_metadata,
    permutations,
    restored_entries,
    restored_metadata,
    restored_part,
)
from podsim.learning.tensor_files import TensorEntry, TensorFile, read_tensor_file, write_tensor_file
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question, wrong_choices

_PART = re.compile(r"-\d+-of-\d+\.")
"""in the name of a file that is one of several"""


@dataclass(frozen=True, kw_only=True)
class PruneOptions:
    """A file of weights, and which of them are pruned 2:4."""

    file: Path = option(MISSING, "Weights: FILE.safetensors.", argument=True, example="model.safetensors")
    to: Path | None = option(None, "File that gets the pruned weights; none: only say what it would be.")
    compressed: bool = option(
        False, "Write values and 2-bit indices, as sparse Tensor Cores read them.",
        flag="--compressed",
    )  # fmt: skip
    restore: bool = option(False, "FILE is compressed: write it dense again.", flag="--restore")
    permute: bool = option(
        False, "Permute the hidden channels of MLPs first, so that masks keep more; the network stays the same.",
        flag="--permute",
    )  # fmt: skip
    inputs: str = option(
        "last",
        "Axis of a matrix's inputs: last (torch's Linear), or first (GPT-2's Conv1D).",
        choices=("last", "first"),
    )
    skip: str = option(
        "*embed*,*wte*,*wpe*,*tokens*,*positions*,*lm_head*,*norm*,head.*",
        "Names that stay dense, with commas; * stands for anything.",
    )
    only: str = option("*", "Names that are pruned, with commas.")


@question(
    PruneOptions,
    output=PlotOutput,
)
def prune(options: PruneOptions) -> Pruned:
    """Prune the weights of a safetensors file 2:4 by magnitude, and write them with `to`.

    Dense, the file keeps its names and shapes, with zeros. Compressed, a tensor becomes values and 2-bit indices;
    `restore` writes such a file dense again, bit for bit. `permute` moves hidden channels of MLPs, which changes no
    output but lets masks keep more.

    Raises PodsimError for a file that is damaged or no safetensors file, and where nothing can be pruned.
    """
    raise_all(_problems(options))
    file = read_tensor_file(options.file)
    if options.restore:
        return _restored(file, options)
    choice = Choice(
        only=tuple(options.only.split(",")),
        skip=tuple(options.skip.split(",")),
        is_first=options.inputs == "first",
    )
    if all(choice.reason(entry) for entry in file.entries):
        reasons = ", ".join(sorted({choice.reason(entry) for entry in file.entries})[:4]) or "no tensors"
        raise PodsimError(
            f"{options.file.name}: nothing to prune ({reasons}); --only, --skip and --inputs choose tensors"
        )
    plain = Pruning(file=file, choice=choice)
    orders = permutations(file, choice) if options.permute else {}
    pruning = Pruning(file=file, choice=choice, orders=orders)
    answer = _summed(plain, pruning, options)
    if options.to is not None:
        metadata = packed_metadata(pruning) if options.compressed else dict(file.metadata)
        names = new_entries(pruning, packed=options.compressed)
        write_tensor_file(options.to, names, new_parts(pruning, packed=options.compressed), metadata)
    return answer


def _problems(options: PruneOptions) -> list[str]:
    problems = wrong_choices(options, "inputs")
    if options.to is not None and options.to.resolve() == options.file.resolve():
        problems.append("--to is the file itself; give another name")
    if options.to is not None and not options.to.resolve().parent.is_dir():
        problems.append(f"--to {options.to}: no such folder")
    if options.restore and (options.compressed or options.permute or options.to is None):
        problems.append(
            "--restore writes a compressed file dense again: give --to, but no --compressed or --permute"
        )
    if options.permute and _PART.search(options.file.name):
        problems.append(
            "--permute needs a whole network: the layers of an MLP may lie in other files of this one"
        )
    if options.compressed and options.to is None:
        problems.append("--compressed says how to write: give --to, too")
    return problems


def _summed(plain: Pruning, pruning: Pruning, options: PruneOptions) -> Pruned:
    """All tensors, and their sums."""
    tensors, sums = [], [0.0, 0.0, 0.0]
    for entry in pruning.file.entries:
        reason = pruning.choice.reason(entry)
        kept = moved = None
        if not reason:
            kept_first, total = plain.kept(entry)
            kept_last = pruning.kept(entry)[0] if entry.name in pruning.orders else kept_first
            kept, moved = kept_first / (total or 1.0), kept_last / (total or 1.0)
            sums = [
                first + second for first, second in zip(sums, (kept_first, kept_last, total), strict=True)
            ]
        tensors.append(_row(entry, pruning.choice, reason, kept, moved if options.permute else None))
    before, kept = (part / (sums[2] or 1.0) for part in sums[:2])
    return _pruned(options, tensors, kept, before if options.permute else None, compressed=options.compressed)


def _pruned(
    options: PruneOptions, tensors: list[PrunedTensor], kept: float, before: float | None, *, compressed: bool
) -> Pruned:
    """The answer: all tensors with their sums."""
    return Pruned(
        file=options.file.name, to=str(options.to or ""), compressed=compressed, tensors=tuple(tensors),
        weights=sum(math.prod(tensor.shape) for tensor in tensors),
        pruned=sum(math.prod(tensor.shape) for tensor in tensors if not tensor.reason), kept=kept, before=before,
        dense_bytes=sum(tensor.dense_bytes for tensor in tensors),
        compressed_bytes=sum(tensor.compressed_bytes for tensor in tensors),
    )  # fmt: skip


def _row(
    entry: TensorEntry, choice: Choice, reason: str, kept: float | None, moved: float | None
) -> PrunedTensor:
    size = entry.end - entry.begin
    return PrunedTensor(
        name=entry.name, kind=entry.kind, shape=entry.shape, reason=reason, kept=kept, permuted=moved, dense_bytes=size,
        compressed_bytes=size if reason else packed_bytes(entry, choice),
    )  # fmt: skip


def _restored(file: TensorFile, options: PruneOptions) -> Pruned:
    """A compressed file, written dense."""
    pieces = restored_entries(file)
    names = [
        entry.name if indices is None else entry.name.rpartition(".")[0] for entry, indices, *_ in pieces
    ]
    assert options.to is not None
    write_tensor_file(
        options.to,
        [(name, entry.kind, shape) for name, (entry, _, shape, _) in zip(names, pieces, strict=True)],
        (restored_part(file, *piece) for piece in pieces), restored_metadata(file),
    )  # fmt: skip
    tensors = []
    for name, (entry, indices, shape, _) in zip(names, pieces, strict=True):
        packed = entry.end - entry.begin + (indices.end - indices.begin if indices else 0)
        dense = math.prod(shape) * (entry.end - entry.begin) // max(1, math.prod(entry.shape))
        kept = 1.0 if indices else None
        tensors.append(
            PrunedTensor(
                name=name, kind=entry.kind, shape=shape, reason="" if indices else "as it was", kept=kept, permuted=None,
                dense_bytes=dense, compressed_bytes=packed,
            )
        )  # fmt: skip
    return _pruned(options, tensors, 1.0, None, compressed=False)
