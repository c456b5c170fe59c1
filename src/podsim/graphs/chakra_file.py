"""A reader and writer of MLCommons Chakra execution traces: length-prefixed protobuf messages, GlobalMetadata first.

    GlobalMetadata  version 1, attr 2
    Node            id 1, name 2, type 3, ctrl_deps 4, data_deps 5, start_time_micros 6, duration_micros 7, attr 10
    AttributeProto  name 1, then one value: double 3, float 5, int32 7, int64 9, uint32 11, uint64 13, sint32 15,
                    sint64 17, fixed32 19, fixed64 21, sfixed32 23, sfixed64 25, bool 27, string 29 (lists one higher)

The reader is tolerant, since real traces break the rules of the format; podsim.graphs.chakra_mend lists the repairs.
Times in the format are integers in microseconds. podsim adds exact seconds as attributes, which other readers ignore.
Source: schema/protobuf/et_def.proto of mlcommons/chakra, schema version 0.0.4; attribute names as ASTRA-sim reads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from podsim.errors import TraceError
from podsim.foreign_files import read_bytes, unpacked
from podsim.graphs.trace_graph import KINDS, CommGroup, TraceGraph
from podsim.timeline.protobuf import (
    Value,
    bytes_field,
    double_field,
    fields,
    number_field,
    repeated_integers,
    signed_integer,
    varint,
    varint_at,
)

VERSION = "0.0.4"
_LARGEST, _ALIKE = 1 << 30, 1000
"""B. The largest trace, decompressed."""
_TYPES: Mapping[int, str] = {
    1: "metadata",
    2: "load",
    3: "store",
    4: "compute",
    5: "send",
    6: "recv",
    7: "collective",
}
"""The kind of each NodeType."""
Attribute = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One raw node of a file."""

    id: int
    name: str = ""
    kind: str = ""
    """The kind; empty for a type outside the schema."""
    before: tuple[int, ...] = ()
    """The ids of its control and data dependencies."""
    start: int = 0
    """The start in microseconds."""
    duration: int = 0
    """The duration in microseconds."""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RawTrace:
    """The raw content of a file."""

    version: str
    attributes: Mapping[str, Attribute]
    nodes: tuple[Node, ...]
    truncated: bool = False
    """Whether the file ends inside a message."""


def read_raw(path: Path) -> RawTrace:
    """The messages of a file, gzip or plain. Raises TraceError for another or a broken file."""
    data = read_bytes(path, most=_LARGEST, error=TraceError, is_packed=False)
    if not data:
        raise TraceError(f"{path}: the file is empty")
    try:
        plain, complete = _unpack(data)
        return _decode(plain, complete)
    except TraceError as error:
        raise TraceError(f"{path}: is not a Chakra trace, or a broken one: {error}") from None


def _unpack(data: bytes) -> tuple[bytes, bool]:
    """(plain bytes, whether they are complete)."""
    if data[:2] != b"\x1f\x8b":
        return data, True
    most = unpacked(len(data), _LARGEST)
    machine = zlib.decompressobj(wbits=31)
    try:
        plain = machine.decompress(data, most + 1)
    except zlib.error as error:
        raise TraceError(f"the gzip is damaged: {error}") from None
    if len(plain) > most:
        raise TraceError(f"it decompresses to more than {most >> 20} MiB")
    return plain, machine.eof


def _decode(data: bytes, complete: bool) -> RawTrace:
    version, nodes = "", []
    attributes: dict[str, Attribute] = {}
    truncated = not complete
    at, number = 0, 0
    while at < len(data):
        try:
            size, begin = varint_at(data, at, len(data))
        except TraceError:
            if len(data) - at > 9:
                raise
            truncated = True
            break
        if begin + size > len(data):
            truncated = True
            break
        if number == 0 and _is_metadata(data, begin, begin + size):
            version, attributes = _metadata(data, begin, begin + size)
        else:
            try:
                nodes.append(_node(data, begin, begin + size))
            except (TraceError, UnicodeDecodeError, struct.error) as error:
                raise TraceError(f"message {number}: {error}") from None
        at, number = begin + size, number + 1
        if len(nodes) == _ALIKE and not any(node.id or node.name for node in nodes):
            raise TraceError(f"{_ALIKE:,} nodes without an id and without a name")
    if not nodes:
        raise TraceError(f"{len(data):,} bytes without a single node")
    return RawTrace(version=version, attributes=attributes, nodes=tuple(nodes), truncated=truncated)


def _is_metadata(data: bytes, at: int, end: int) -> bool:
    """Whether the first message is GlobalMetadata: its field 1 is text, unlike a node's."""
    return all((number, kind) in ((1, 2), (2, 2)) for number, kind, _ in fields(data, at, end))


def _metadata(data: bytes, at: int, end: int) -> tuple[str, dict[str, Attribute]]:
    version, attributes = "", {}
    for number, _, value in fields(data, at, end):
        assert isinstance(value, bytes)
        if number == 1:
            version = value.decode("utf-8", "replace")
        else:
            key, content = _attribute(value)
            attributes[key] = content
    return version, attributes


def _text(value: Value) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _node(data: bytes, at: int, end: int) -> Node:
    id_ = start = duration = kind = 0
    name = ""
    before: list[int] = []
    attributes: dict[str, Attribute] = {}
    for number, wire, value in fields(data, at, end):
        if number == 2 and wire == 2:
            name = _text(value)
        elif number in (4, 5) and wire in (0, 2):
            before += repeated_integers(value)
        elif number == 10 and isinstance(value, bytes):
            key, content = _attribute(value)
            attributes[key] = content
        elif wire == 0 and isinstance(value, int):
            if number == 1:
                id_ = value
            elif number == 3:
                kind = value
            elif number == 6:
                start = value
            elif number == 7:
                duration = value
        elif number in (1, 3, 6, 7):
            raise TraceError(f"field {number} has the wire type {wire} and not 0")
    return Node(
        id=id_, name=name, kind=_TYPES.get(kind, ""), before=tuple(before), start=start, duration=duration,
        attributes=attributes,
    )  # fmt: skip


_SIGNED, _UNSIGNED, _ZIGZAG = (7, 9), (11, 13), (15, 17)
_FIXED = {19: "<I", 21: "<Q", 23: "<i", 25: "<q", 3: "<d", 5: "<f"}


def _attribute(data: bytes) -> tuple[str, Attribute]:
    """(name, value) of an attribute; a value of an unused type is empty text."""
    name = ""
    content: Attribute = ""
    for number, wire, value in fields(data, 0, len(data)):
        if number == 1:
            name = _text(value)
        elif isinstance(value, int) and wire == 0:
            if number in _SIGNED:
                content = signed_integer(value)
            elif number in _UNSIGNED:
                content = value
            elif number in _ZIGZAG:
                content = (value >> 1) ^ -(value & 1)
            elif number == 27:
                content = bool(value)
        elif isinstance(value, bytes):
            if number in _FIXED and len(value) == struct.calcsize(_FIXED[number]):
                content = struct.unpack(_FIXED[number], value)[0]
            elif number == 29:
                content = _text(value)
            elif number in (8, 10, 12, 14):
                content = tuple(
                    signed_integer(item)
                    for _, _, part in fields(value, 0, len(value))
                    for item in repeated_integers(part)
                )
    return name, content


def _attribute_field(name: str, value: bytes) -> bytes:
    return bytes_field(10, bytes_field(1, name) + value)


def _message(body: bytes) -> bytes:
    return varint(len(body)) + body


def encode(graph: TraceGraph) -> bytes:
    """The bytes of a .et file of one rank's ops, with positions as ids.

    Values outside the schema (streams, exact seconds, members of groups) go into attributes.
    """
    return b"".join(_encode_messages(graph))


def _encode_messages(graph: TraceGraph) -> Iterator[bytes]:
    head = bytes_field(1, VERSION) + bytes_field(2, bytes_field(1, "rank") + number_field(9, graph.rank))
    for group in graph.groups:
        members = bytes_field(10, bytes_field(1, group.ranks))
        head += bytes_field(2, bytes_field(1, f"group:{group.name}") + members)
    yield _message(head)
    types = {kind: number for number, kind in _TYPES.items()}
    for op in range(len(graph)):
        kind = KINDS[graph.kind[op]]
        seconds, start = float(graph.seconds[op]), float(graph.start[op])
        body = (
            number_field(1, op) + bytes_field(2, graph.names[graph.name[op]]) + number_field(3, types[kind])
        )
        edges = graph.before[graph.first[op] : graph.first[op + 1]].tolist()
        if edges:
            body += bytes_field(5, edges)
        if start >= 0:
            body += number_field(6, round(start * 1e6))
        body += number_field(7, round(seconds * 1e6)) + _attribute_field("is_cpu_op", number_field(27, 0))
        if seconds:
            body += _attribute_field("podsim_seconds", double_field(3, seconds))
        if np.isfinite(start):
            body += _attribute_field("podsim_start", double_field(3, start))
        yield _message(body + _work_fields(graph, op, kind))


def _work_fields(graph: TraceGraph, op: int, kind: str) -> bytes:
    """The attributes of an op's amount of work, with the names and types that ASTRA-sim reads."""
    size = round(float(graph.bytes[op]))
    body = b""
    if graph.stream[op] >= 0:
        body += _attribute_field("stream", bytes_field(29, graph.streams[graph.stream[op]]))
    if kind == "compute":
        body += _attribute_field("num_ops", number_field(9, round(float(graph.flops[op]))))
        body += _attribute_field("tensor_size", number_field(13, size))
    elif kind in ("load", "store"):
        body += _attribute_field("tensor_size", number_field(13, size))
    elif kind in ("collective", "send", "recv"):
        body += _attribute_field("comm_size", number_field(9, size))
    if kind == "collective":
        body += _attribute_field("comm_type", number_field(9, max(int(graph.collective[op]), 0)))
    if kind in ("send", "recv"):
        ends = (graph.rank, int(graph.peer[op])) if kind == "send" else (int(graph.peer[op]), graph.rank)
        body += _attribute_field("comm_src", number_field(7, ends[0])) + _attribute_field(
            "comm_dst", number_field(7, ends[1])
        )
        body += _attribute_field("comm_tag", number_field(7, int(graph.tag[op])))
    if graph.group[op] >= 0:
        body += _attribute_field("pg_name", bytes_field(29, graph.groups[graph.group[op]].name))
    return body


def group_table(groups: tuple[CommGroup, ...]) -> dict[str, list[int]]:
    """The ranks of each group by name, as in ASTRA-sim's communicator file."""
    return {group.name: list(group.ranks) for group in groups if group.ranks}
