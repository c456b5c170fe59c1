"""The wire format of protocol buffers, as far as traces need it: numbers, text, nested messages, packed lists.

A message is a row of fields, each a varint of (number x 8 + wire type) and a value: 0 a varint, 1 eight bytes, 2 a
length and as many bytes, 5 four bytes. Source: Protocol Buffers documentation, Encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from podsim.errors import TraceError

Value = int | bytes
"""The value of a field: an int for a varint, otherwise bytes."""


def varint_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, position after it) of a varint; TraceError if it does not end, or is longer than ten bytes."""
    value = shift = 0
    while True:
        if at >= end:
            raise TraceError(f"a number breaks off at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise TraceError(f"a number at byte {at} is longer than ten bytes")


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, Value]]:
    """(number, wire type, value) of each field of the message between two positions; TraceError where it breaks."""
    while at < end:
        key, at = varint_at(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise TraceError(f"a field has the number 0, at byte {at}")
        if kind == 0:
            value: Value
            value, at = varint_at(data, at, end)
            yield number, kind, value
            continue
        if kind == 2:
            size, at = varint_at(data, at, end)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise TraceError(f"a field has the wire type {kind}, at byte {at}; known are 0, 1, 2 and 5")
        if at + size > end:
            raise TraceError(f"a field of {size} bytes breaks off at byte {at}")
        yield number, kind, data[at : at + size]
        at += size


def repeated_integers(value: Value) -> list[int]:
    """The integers of a repeated field, packed or single."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = varint_at(value, at, len(value))
        numbers.append(number)
    return numbers


def signed_integer(value: int) -> int:
    """A varint as a signed 64-bit integer."""
    return value - (1 << 64) if value >= 1 << 63 else value


def varint(value: int) -> bytes:
    """A varint; negative numbers take ten bytes."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    """The tag before a field's value: its number and wire type."""
    return varint(number << 3 | wire)


def number_field(number: int, value: int) -> bytes:
    """A field that holds a varint."""
    return tag(number, 0) + varint(value)


def bytes_field(number: int, value: bytes | str | Iterable[int]) -> bytes:
    """A field that holds bytes, text, a message, or a packed list of varints."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace")
    elif not isinstance(value, bytes):
        value = b"".join(varint(integer) for integer in value)
    return tag(number, 2) + varint(len(value)) + value


def message_field(number: int, *parts: bytes) -> bytes:
    """A field that is itself a message with fields."""
    return bytes_field(number, b"".join(parts))


def double_field(number: int, value: float) -> bytes:
    """A field that holds a number in eight bytes."""
    return tag(number, 1) + struct.pack("<d", value)
