"""2:4 sparsity: masks against all six patterns, the compressed layout, channel orders, and files of weights."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsim import PodsimError, prune
from podsim.learning.sparsity import PATTERNS, best_mask, compress, compressed_bytes, kept_magnitude
from podsim.learning.sparsity_permutation import best_order
from podsim.learning.tensor_files import read_tensor_file, write_tensor_file


def drawn(*shape: int, seed: int = 0, kind: Any = np.float32) -> Any:
    """Weights with channels of unequal size, some of them equal."""
    draws = np.random.default_rng(seed)
    return np.round(draws.normal(size=shape) * np.exp(draws.normal(size=shape[-1])), 1).astype(kind)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.int8])
def test_the_mask_is_the_best_of_six(kind: Any) -> None:
    weights = np.abs(drawn(64, 48, kind=kind))
    mask = best_mask(weights)
    fours = weights.reshape(-1, 4).astype(float)
    best = max(fours[:, list(pattern)].sum(axis=1) for pattern in [PATTERNS[0]])
    for pattern in PATTERNS:
        best = np.maximum(best, fours[:, list(pattern)].sum(axis=1))
    assert (mask.reshape(-1, 4).sum(axis=1) == 2).all()
    assert ((weights * mask).reshape(-1, 4).astype(float).sum(axis=1) == best).all()
    assert kept_magnitude(weights) == pytest.approx(best.sum())


def test_bits_of_a_pattern() -> None:
    """The layout of the PTX ISA: positions rise, the first in the lower bits, two fours a byte."""
    matrix = np.array([[0, 5, 0, 7, 3, 0, 0, 4, 0, 0, 1, 2]], np.int16)
    packed = compress(matrix)
    assert packed.values.tolist() == [[5, 7, 3, 4, 1, 2]]
    assert packed.indices.tolist() == [[0b11_00_11_01, 0b11_10]]
    assert (packed.dense() == matrix).all()


@pytest.mark.parametrize("columns", [4, 12, 16, 60])
@pytest.mark.parametrize("kind", [np.uint8, np.float16, np.float32, np.float64])
def test_compressed_and_back(columns: int, kind: Any) -> None:
    weights = np.abs(drawn(7, columns, seed=columns)).astype(kind)
    sparse = np.where(best_mask(np.abs(weights)), weights, 0).astype(kind)
    sparse[0] = 0  # fours with less than two weights
    packed = compress(sparse)
    assert packed.dense().tobytes() == sparse.tobytes()
    assert packed.bytes == compressed_bytes(7, columns, sparse.itemsize)
    with pytest.raises(PodsimError, match="more than two"):
        compress(np.ones((2, 4)))
    with pytest.raises(PodsimError, match="multiple of 4"):
        compress(np.ones((2, 6)))


def test_a_better_order_of_channels() -> None:
    magnitudes = np.abs(drawn(96, 64, seed=5))
    order = best_order(magnitudes)
    assert sorted(order) == list(range(64))
    assert kept_magnitude(magnitudes[:, order]) > 1.01 * kept_magnitude(magnitudes)
    eight = np.abs(drawn(20, 8, seed=6))
    ways = [(*first, *(k for k in range(8) if k not in first)) for first in combinations(range(8), 4)]
    best = max(kept_magnitude(eight[:, list(way)]) for way in ways)
    assert kept_magnitude(eight[:, best_order(eight)]) == pytest.approx(
        best
    )  # one pair: the search is complete


def mlp(tensors: dict[str, Any], inputs: Any) -> Any:
    hidden = inputs @ tensors["mlp.fc1.weight"].T + tensors["mlp.fc1.bias"]
    return np.maximum(hidden, 0) @ tensors["mlp.fc2.weight"].T


def written(path: Path, tensors: dict[str, Any], kind: str = "F32") -> Path:
    write_tensor_file(
        path, [(name, kind, each.shape) for name, each in tensors.items()], tensors.values(), {"format": "pt"}
    )
    return path


def read(path: Path) -> dict[str, Any]:
    file = read_tensor_file(path)
    return {entry.name: file.raw(entry).view(np.float32).reshape(entry.shape) for entry in file.entries}


def test_a_file(tmp_path: Path) -> None:
    tensors = {
        "mlp.fc1.weight": drawn(64, 32), "mlp.fc1.bias": drawn(64), "mlp.fc2.weight": drawn(16, 64, seed=1),
        "conv.weight": drawn(8, 16, 3, 3), "experts": drawn(4, 8, 16, seed=2), "embed.weight": drawn(50, 32),
    }  # fmt: skip
    source = written(tmp_path / "all.safetensors", tensors)
    plain = prune(source, to=tmp_path / "dense.safetensors")
    prune(source, to=tmp_path / "packed.safetensors", compressed=True)
    prune(tmp_path / "packed.safetensors", to=tmp_path / "back.safetensors", restore=True)
    assert (tmp_path / "back.safetensors").read_bytes() == (tmp_path / "dense.safetensors").read_bytes()
    dense = read(tmp_path / "dense.safetensors")
    kernel = dense["conv.weight"].transpose(0, 2, 3, 1).reshape(-1, 4)
    assert ((kernel != 0).sum(axis=1) <= 2).all()
    assert (
        np.count_nonzero(dense["experts"].reshape(-1, 4), axis=1) <= 2
    ).all()  # of the inputs, the last axis
    assert dense["embed.weight"].tobytes() == tensors["embed.weight"].tobytes()
    assert [each.name for each in plain.tensors if each.reason] == ["mlp.fc1.bias", "embed.weight"]
    header = 8 + int.from_bytes((tmp_path / "packed.safetensors").read_bytes()[:8], "little")
    assert (tmp_path / "packed.safetensors").stat().st_size - header == plain.compressed_bytes


def test_channels_of_an_mlp_move_for_free(tmp_path: Path) -> None:
    tensors = {
        "mlp.fc1.weight": drawn(64, 32),
        "mlp.fc1.bias": drawn(64),
        "mlp.fc2.weight": drawn(16, 64, seed=1),
    }
    source = written(tmp_path / "all.safetensors", tensors)
    moved = prune(source, permute=True, to=tmp_path / "moved.safetensors")
    assert moved.before is not None
    assert moved.kept > moved.before
    pruned, order = read(tmp_path / "moved.safetensors"), best_order(np.abs(tensors["mlp.fc2.weight"]))
    first = {
        "mlp.fc1.weight": tensors["mlp.fc1.weight"][order],
        "mlp.fc1.bias": tensors["mlp.fc1.bias"][order],
    }
    permuted = first | {"mlp.fc2.weight": tensors["mlp.fc2.weight"][:, order]}
    inputs = drawn(5, 32, seed=9)
    assert mlp(permuted, inputs) == pytest.approx(mlp(tensors, inputs), rel=1e-4)
    for name in ("mlp.fc1.weight", "mlp.fc2.weight"):
        assert (pruned[name] == np.where(best_mask(np.abs(permuted[name])), permuted[name], 0)).all()
    assert (pruned["mlp.fc1.bias"] == first["mlp.fc1.bias"]).all()


def test_channels_that_others_read_stay(tmp_path: Path) -> None:
    tensors = {"mlp.fc1.weight": drawn(64, 32), "mlp.fc2.weight": drawn(16, 64, seed=1)}
    free = prune(written(tmp_path / "a.safetensors", tensors), permute=True)
    bound = prune(written(tmp_path / "b.safetensors", tensors | {"mlp.norm.weight": drawn(64)}), permute=True)
    assert free.kept > bound.kept == bound.before
    with pytest.raises(PodsimError, match="whole network"):
        prune(written(tmp_path / "model-00001-of-00002.safetensors", tensors), permute=True)


def test_half_precision_is_ordered_by_its_bits(tmp_path: Path) -> None:
    """A mask of bf16 is that of the numbers, which no type of numpy holds."""
    bits = (drawn(16, 32).view(np.uint32) >> 16).astype(np.uint16)
    write_tensor_file(tmp_path / "b.safetensors", [("w", "BF16", bits.shape)], [bits], {})
    prune(tmp_path / "b.safetensors", to=tmp_path / "c.safetensors")
    file = read_tensor_file(tmp_path / "c.safetensors")
    numbers = (bits.astype(np.uint32) << 16).view(np.float32)
    assert (file.bits(file.entries[0]) == np.where(best_mask(np.abs(numbers)), bits, 0)).all()


def headed(kind: str, count: int) -> bytes:
    """The header of a file with one tensor of four bytes."""
    entry = {"w": {"dtype": kind, "shape": [count], "data_offsets": [0, 4]}}
    return (64).to_bytes(8, "little") + json.dumps(entry).encode().ljust(64)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no safetensors"), (b"PK a zip file", "no safetensors"), ((2**60).to_bytes(8, "little"), "no safetensors"),
        ((3).to_bytes(8, "little") + b"[1]", "no table"), ((2000).to_bytes(8, "little") + b"[" * 2000, "no JSON"),
        (headed("F32", 2) + b"1234", "does not fill"), (headed("F32", 1) + b"12345", "no tensor"),
        (headed("F3", 1) + b"1234", "has type"), (headed("F32", 1) + b"1234", "nothing to prune"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(PodsimError, match=why):
        prune(path)


def test_what_makes_no_sense(tmp_path: Path) -> None:
    source = written(tmp_path / "w.safetensors", {"w": drawn(16, 32)})
    for given, why in (
        ({"to": source}, "itself"), ({"to": tmp_path / "no" / "x"}, "no such folder"), ({"restore": True}, "give --to"),
        ({"restore": True, "to": tmp_path / "x"}, "not compressed"), ({"only": "q*"}, "nothing to prune"),
    ):  # fmt: skip
        with pytest.raises(PodsimError, match=why):
            prune(source, **given)
    broken = drawn(16, 32)
    broken[3, 3] = np.nan
    with pytest.raises(PodsimError, match="not finite"):
        prune(written(source, {"w": broken}), to=tmp_path / "x")
    assert not (tmp_path / "x").exists()
