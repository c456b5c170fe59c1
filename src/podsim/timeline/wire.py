"""Encoding millions of protobuf messages at once: columns of bytes, and rows cut to the needed bytes.

A block is a pair of arrays [rows, columns]: bytes, and a mask of the bytes in use. A list of blocks holds one message
per row. A variable-length number is as wide as the widest of its column, and the
bytes that a row does not need are left out when `join_rows` joins everything. This is the wire format as documented at
protobuf.dev/programming-guides/encoding; nothing of the protobuf library is needed to write it.
podsim.timeline.protobuf has it one message at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.timeline.protobuf import tag, varint

Block: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.bool_]]
_VARINT, _FIXED64, _BYTES = 0, 1, 2


def constant(held: bytes, rows: int) -> Block:
    """The same bytes in every row."""
    row = np.frombuffer(held, dtype=np.uint8)
    return np.broadcast_to(row, (rows, len(row))), np.broadcast_to(np.True_, (rows, len(row)))


def _varints(values: NDArray[np.integer]) -> Block:
    """A variable-length integer in each row."""
    integers = values.astype(np.int64).view(np.uint64)
    widest = len(varint(int(integers.max()))) if len(integers) else 1
    shifted = integers[:, None] >> (7 * np.arange(widest, dtype=np.uint64))
    there = shifted > 0
    there[:, 0] = True
    held = (shifted & np.uint64(0x7F)).astype(np.uint8)
    held[:, :-1] |= there[:, 1:].astype(np.uint8) << 7
    return held, there


def integers(field: int, values: NDArray[np.integer]) -> list[Block]:
    """An integer field in each row."""
    return [constant(tag(field, _VARINT), len(values)), _varints(values)]


def doubles(field: int, values: NDArray[np.floating]) -> list[Block]:
    """A double in each row."""
    held = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(len(values), 8)
    return [constant(tag(field, _FIXED64), len(values)), (held, np.broadcast_to(np.True_, held.shape))]


def message_blocks(field: int, blocks: Sequence[Block]) -> list[Block]:
    """A message in each row, made of blocks."""
    rows = len(blocks[0][0])
    length = np.zeros(rows, dtype=np.int64)
    for _, there in blocks:
        length += np.count_nonzero(there, axis=1)
    return [constant(tag(field, _BYTES), rows), _varints(length), *blocks]


def select_rows(blocks: Sequence[Block], rows: NDArray[np.bool_]) -> list[Block]:
    """The blocks in the chosen rows, and nothing in the others."""
    return [(held, there & rows[:, None]) for held, there in blocks]


def join_rows(blocks: Sequence[Block]) -> bytes:
    """All rows, one after the other."""
    held = np.concatenate([block[0] for block in blocks], axis=1)
    there = np.concatenate([block[1] for block in blocks], axis=1)
    return bytes(held[there].tobytes())
