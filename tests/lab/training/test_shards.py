"""Shards as files: any division of a tensor is read by any other, and nothing but podsim's own files is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from podsim.errors import CheckpointError
from podsim.lab.training.shards import FORMAT, Shard, read_shards, shapes_of, write_shards

files = pytest.importorskip(
    "safetensors.numpy", reason="safetensors is not installed: pip install podsim[lab]"
)

WHOLE = np.arange(35, dtype=np.float32).reshape(5, 7)
ROWS = [(slice(0, 3), slice(0, 7)), (slice(3, 5), slice(0, 7))]
COLUMNS = [(slice(0, 5), slice(0, 4)), (slice(0, 5), slice(4, 6)), (slice(0, 5), slice(6, 7))]
BLOCKS = [(rows, columns) for rows, _ in ROWS for _, columns in COLUMNS]
DIVISIONS = {"whole": [(slice(0, 5), slice(0, 7))], "rows": ROWS, "columns": COLUMNS, "blocks": BLOCKS}


def shard(block: tuple[slice, ...], shape: tuple[int, ...] = (5, 7)) -> Shard:
    return Shard(
        shape=shape, offset=tuple(each.start for each in block), size=tuple(each.stop - each.start for each in block)
    )  # fmt: skip


def write(folder: Path, blocks: list[tuple[slice, slice]], data: NDArray[Any] = WHOLE) -> None:
    for rank, block in enumerate(blocks):
        write_shards(folder, rank, {"w": shard(block)}, {"w": np.ascontiguousarray(data[block])})


@pytest.mark.parametrize("read", DIVISIONS)
@pytest.mark.parametrize("written", DIVISIONS)
def test_any_division_is_read_by_any_other(written: str, read: str, tmp_path: Path) -> None:
    write(tmp_path, DIVISIONS[written])
    assert shapes_of(tmp_path) == {"w": (5, 7)}
    for block in DIVISIONS[read]:
        assert (read_shards(tmp_path, {"w": shard(block)})["w"] == WHOLE[block]).all()


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    write(tmp_path, ROWS[:1])
    wanted = shard(COLUMNS[0])
    with pytest.raises(CheckpointError, match="w is missing or incomplete"):
        read_shards(tmp_path, {"w": wanted})
    with pytest.raises(CheckpointError, match="v is missing or incomplete"):
        read_shards(tmp_path, {"v": wanted})
    with pytest.raises(CheckpointError, match=r"w has shape \[5, 7\], not \[5, 8\]"):
        read_shards(tmp_path, {"w": shard(COLUMNS[0], (5, 8))})


@pytest.mark.parametrize(
    "metadata",
    [
        {"format": "pt"},
        {"format": FORMAT},
        {"format": FORMAT, "shards": "no JSON"},
        {"format": FORMAT, "shards": "{}"},
        {"format": FORMAT, "shards": json.dumps({"w": {"shape": [5], "offset": [0]}})},
        {"format": FORMAT, "shards": json.dumps({"w": {"shape": [5, 7], "offset": None}})},
    ],
)
def test_files_of_others_are_refused(metadata: dict[str, str], tmp_path: Path) -> None:
    files.save_file({"w": WHOLE}, tmp_path / "rank-0.safetensors", metadata)
    with pytest.raises(CheckpointError, match=r"rank-0.safetensors is no file of podsim's checkpoints"):
        shapes_of(tmp_path)
    (tmp_path / "rank-0.safetensors").write_bytes(b"no header")
    with pytest.raises(CheckpointError, match=r"rank-0.safetensors is no file"):
        shapes_of(tmp_path)


def test_a_full_drive_is_an_error_of_the_system(small: Path) -> None:
    large = np.zeros((5, 1 << 18), np.float32)
    with pytest.raises(OSError, match="No space left on device"):
        write_shards(small, 0, {"w": shard((slice(0, 5), slice(0, 1 << 18)), large.shape)}, {"w": large})
