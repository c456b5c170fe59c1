"""Chakra traces: known bytes, protobuf's own reading of ours, mending, and a corpus of damaged files."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import TraceError
from podsim.graphs.chakra_file import _ALIKE, Node, RawTrace, _attribute, _decode, _message, _node, encode
from podsim.graphs.chakra_mend import mend, read_chakra, write_chakra
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph, critical_seconds
from podsim.timeline.protobuf import (
    bytes_field,
    double_field,
    fields,
    number_field,
    repeated_integers,
    signed_integer,
    tag,
    varint,
    varint_at,
)


def trace(ops: int = 6, seed: int = 0, rank: int = 3) -> TraceGraph:
    """Any trace with ops of every kind."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, len(KINDS) - 1, ops)
    before = [sorted({int(j) for j in random.integers(0, op, 2)}) if op else [] for op in range(ops)]
    is_collective, moves = kind == KINDS.index("collective"), np.isin(kind, [4, 5])
    return TraceGraph(
        rank=rank, names=("matmul", "größe", ""), streams=("7", "comm"),
        groups=(CommGroup(name="tp", ranks=(0, 3)), CommGroup(name="dp", ranks=(1, 2, 3))),
        name=random.integers(0, 3, ops), kind=kind, stream=random.integers(-1, 2, ops), seconds=random.random(ops),
        start=np.arange(ops) * 0.25, flops=np.where(kind == 0, random.integers(0, 2**40, ops), 0).astype(float),
        bytes=random.integers(0, 2**40, ops).astype(float),
        collective=np.where(is_collective, random.integers(0, len(COLLECTIVES), ops), -1),
        group=np.where(is_collective, random.integers(-1, 2, ops), -1),
        peer=np.where(moves, random.integers(0, 9, ops), -1), tag=np.where(moves, random.integers(0, 9, ops), 0),
        first=np.cumsum([0, *(len(one) for one in before)]).astype(np.int64),
        before=np.array([j for one in before for j in one], dtype=np.int64),
    )  # fmt: skip


def same(one: TraceGraph, other: TraceGraph) -> bool:
    """Equal ops, names and groups compared as text; dependencies that the streams add are allowed."""

    def said(graph: TraceGraph) -> list[Any]:
        return [
            (graph.names[n], KINDS[k], "" if s < 0 else graph.streams[s], "" if g < 0 else graph.groups[g].ranks, *rest)
            for n, k, s, g, *rest in zip(
                graph.name, graph.kind, graph.stream, graph.group, graph.seconds, graph.start, graph.flops, graph.bytes,
                graph.collective, graph.peer, graph.tag, strict=True,
            )
        ]  # fmt: skip

    edges = set(zip(one.before.tolist(), one.after.tolist(), strict=True))
    return said(one) == said(other) and edges <= set(
        zip(other.before.tolist(), other.after.tolist(), strict=True)
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10**6))
def test_what_is_written_is_read(ops: int, seed: int) -> None:
    one = trace(ops, seed)
    there = mend(_decode(encode(one), True))
    assert same(one, there.graph)
    assert there.graph.rank == one.rank
    assert (there.dangling, there.doubled, there.ignored, there.cyclic, there.truncated) == (
        0,
        0,
        0,
        0,
        False,
    )
    assert encode(mend(_decode(encode(there.graph), True)).graph) == encode(there.graph)


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints(value: int) -> None:
    text = varint(value)
    assert signed_integer(varint_at(text, 0, len(text))[0]) == value


def test_the_wire_by_hand() -> None:
    """150 as the encoding guide writes it: field 1 is 08 96 01; "testing" in field 2 is 12 07 and its letters."""
    assert number_field(1, 150) == bytes.fromhex("089601")
    assert bytes_field(2, "testing") == bytes.fromhex("120774657374696e67")
    assert bytes_field(6, [3, 270, 86942]) == bytes.fromhex("3206038e029ea705")
    assert repeated_integers(bytes.fromhex("038e029ea705")) == [3, 270, 86942]
    assert list(fields(bytes.fromhex("089601"), 0, 3)) == [(1, 0, 150)]


def test_one_node_by_hand() -> None:
    one = trace(1, rank=0)
    data = encode(one)
    size, at = varint_at(data, 0, len(data))
    assert data[at : at + 7] == b"\x0a\x050.0.4"
    size2, begin = varint_at(data, at + size, len(data))
    assert begin + size2 == len(data)
    assert next(fields(data, begin, len(data))) == (1, 0, 0)


def _schema() -> Any:
    """The messages of the schema, built with protobuf's own library."""
    pool = pytest.importorskip("google.protobuf.descriptor_pool")
    proto = pytest.importorskip("google.protobuf.descriptor_pb2")
    factory = pytest.importorskip("google.protobuf.message_factory")
    kinds = proto.FieldDescriptorProto
    file = proto.FileDescriptorProto(name="et.proto", package="c", syntax="proto3")
    tables = {
        "Int64List": [("values", 1, kinds.TYPE_INT64, "", True)],
        "AttributeProto": [
            ("name", 1, kinds.TYPE_STRING, "", False), ("double_val", 3, kinds.TYPE_DOUBLE, "", False),
            ("int32_val", 7, kinds.TYPE_INT32, "", False), ("int64_val", 9, kinds.TYPE_INT64, "", False),
            ("int64_list", 10, kinds.TYPE_MESSAGE, ".c.Int64List", False),
            ("uint64_val", 13, kinds.TYPE_UINT64, "", False), ("bool_val", 27, kinds.TYPE_BOOL, "", False),
            ("string_val", 29, kinds.TYPE_STRING, "", False),
        ],
        "GlobalMetadata": [
            ("version", 1, kinds.TYPE_STRING, "", False), ("attr", 2, kinds.TYPE_MESSAGE, ".c.AttributeProto", True),
        ],
        "Node": [
            ("id", 1, kinds.TYPE_UINT64, "", False), ("name", 2, kinds.TYPE_STRING, "", False),
            ("type", 3, kinds.TYPE_INT32, "", False), ("ctrl_deps", 4, kinds.TYPE_UINT64, "", True),
            ("data_deps", 5, kinds.TYPE_UINT64, "", True), ("start_time_micros", 6, kinds.TYPE_UINT64, "", False),
            ("duration_micros", 7, kinds.TYPE_UINT64, "", False),
            ("attr", 10, kinds.TYPE_MESSAGE, ".c.AttributeProto", True),
        ],
    }  # fmt: skip
    for name, rows in tables.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for field, number, kind, of, many in rows:
            message.field.add(
                name=field, number=number, type=kind, type_name=of or None,
                label=kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL,
                oneof_index=0 if name == "AttributeProto" and number > 1 else None,
            )  # fmt: skip
    made = pool.DescriptorPool()
    made.Add(file)
    return {name: factory.GetMessageClass(made.FindMessageTypeByName(f"c.{name}")) for name in tables}


def test_protobuf_reads_what_is_written_and_the_other_way_round() -> None:
    schema = _schema()
    one = trace(12, 5)
    data, at, messages = encode(one), 0, []
    while at < len(data):
        size, begin = varint_at(data, at, len(data))
        messages.append(data[begin : begin + size])
        at = begin + size
    head = schema["GlobalMetadata"].FromString(messages[0])
    assert head.version == "0.0.4"
    assert {a.name: list(a.int64_list.values) for a in head.attr}["group:dp"] == [1, 2, 3]
    for op, body in enumerate(messages[1:]):
        node = schema["Node"].FromString(body)
        attributes = {a.name: a for a in node.attr}
        assert (node.id, node.name) == (op, one.names[one.name[op]])
        assert list(node.data_deps) == one.before[one.first[op] : one.first[op + 1]].tolist()
        assert node.duration_micros == round(one.seconds[op] * 1e6)
        if KINDS[one.kind[op]] == "collective":
            assert attributes["comm_type"].int64_val == one.collective[op]
            assert attributes["comm_size"].int64_val == one.bytes[op]
        again = node.SerializeToString()
        assert _node(again, 0, len(again)) == _node(body, 0, len(body))


def node(
    id_: int, kind: str = "compute", before: tuple[int, ...] = (), start: int = 0, **attributes: Any
) -> Node:
    return Node(
        id=id_, name=f"n{id_}", kind=kind, before=before, start=start, duration=10, attributes=attributes
    )


def raw(*nodes: Node) -> RawTrace:
    return RawTrace(version="0.0.4", attributes={}, nodes=nodes)


def edges(graph: TraceGraph) -> set[tuple[str, str]]:
    name = [graph.names[n] for n in graph.name]
    return {(name[a], name[b]) for a, b in zip(graph.before, graph.after, strict=True)}


def test_dangling_dependencies_are_dropped_and_counted() -> None:
    found = mend(raw(node(1), node(2, before=(1, 77, 78))))
    assert found.dangling == 2
    assert edges(found.graph) == {("n1", "n2")}


def test_communication_on_the_cpu_is_ignored_and_bridged() -> None:
    found = mend(
        raw(
            node(1), node(2, "collective", (1,), is_cpu_op=True), node(3, "collective", (2,), is_cpu_op=False)
        )
    )
    assert found.ignored == 1
    assert edges(found.graph) == {("n1", "n3")}
    assert (found.graph.kind == KINDS.index("collective")).sum() == 1


def test_streams_run_in_the_order_of_their_start_times() -> None:
    found = mend(raw(node(5, start=30, stream=7), node(6, start=20, stream=7), node(7, start=10, stream=8)))
    assert found.ordered == 1
    assert edges(found.graph) == {("n6", "n5")}
    assert critical_seconds(found.graph) == pytest.approx(20e-6)


def test_the_rank_is_that_of_the_name_or_else_that_of_the_file() -> None:
    stated = RawTrace(version="0.0.4", attributes={"rank": 5}, nodes=(node(1),))
    assert (mend(stated).graph.rank, mend(stated, rank=3).graph.rank, mend(stated, rank=0).graph.rank) == (
        5,
        3,
        0,
    )
    for nothing in ({}, {"rank": -2}, {"rank": "5"}):
        assert mend(replace(stated, attributes=nothing)).graph.rank == -1


def test_nodes_without_id_and_name_are_no_trace_if_there_are_a_thousand() -> None:
    head, blank = _message(bytes_field(1, "0.0.4")), _message(number_field(3, 4))
    assert len(_decode(head + 999 * blank, True).nodes) == 999
    with pytest.raises(TraceError, match="1,000 nodes without an id and without a name"):
        _decode(head + 1000 * blank, True)
    assert len(_decode(head + _message(bytes_field(2, "n")) + 1000 * blank, True).nodes) == 1001
    assert len(_decode(head + _message(number_field(1, 7)) + 1000 * blank, True).nodes) == 1001


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (double_field(3, 2.5), 2.5), (tag(5, 5) + struct.pack("<f", 1.5), 1.5), (number_field(7, -3), -3),
        (number_field(9, -3), -3), (number_field(11, 3), 3), (number_field(13, 2**63), 2**63), (number_field(15, 5), -3),
        (number_field(17, 6), 3), (tag(19, 5) + struct.pack("<I", 7), 7), (tag(21, 1) + struct.pack("<Q", 7), 7),
        (tag(23, 5) + struct.pack("<i", -7), -7), (tag(25, 1) + struct.pack("<q", -7), -7), (number_field(27, 1), True),
        (bytes_field(29, "text"), "text"), (bytes_field(8, bytes_field(1, [1, 2])), (1, 2)),
        (bytes_field(10, bytes_field(1, [1, -2])), (1, -2)), (bytes_field(12, number_field(1, 4)), (4,)),
        (bytes_field(14, bytes_field(1, [3])), (3,)), (number_field(31, 1), ""), (bytes_field(16, b"x"), ""),
    ],
)  # fmt: skip
def test_attributes_of_each_type(field: bytes, value: object) -> None:
    """The numbers of the types are those of the schema; a zigzag 5 is -3. What is of no type is empty."""
    assert _attribute(bytes_field(1, "name") + field) == ("name", value)


def test_a_broken_message_is_named_by_its_number() -> None:
    with pytest.raises(TraceError, match="message 2: a field has the wire type 3"):
        _decode(_message(bytes_field(1, "0.0.4")) + _message(number_field(1, 1)) + _message(b"\x0b"), True)


def test_cycles_and_doubles() -> None:
    found = mend(
        raw(node(1, before=(3,)), node(2, before=(1,)), node(3, before=(2,)), node(3), node(4, before=(4,)))
    )
    assert (found.cyclic, found.doubled) == (2, 1)
    assert edges(found.graph) == {("n1", "n2"), ("n2", "n3")}


def test_gzip_and_rank_from_the_name(tmp_path: Path) -> None:
    (tmp_path / "job.12.et").write_bytes(gzip.compress(encode(trace(rank=0))))
    assert read_chakra(tmp_path / "job.12.et").graph.rank == 12


def test_files_for_every_rank(tmp_path: Path) -> None:
    paths = write_chakra([trace(rank=0), trace(rank=1)], tmp_path / "out")
    assert [path.name for path in paths] == ["out.0.et", "out.1.et", "out.comm_groups.json"]
    assert read_chakra(paths[1]).graph.groups == trace().groups
    with pytest.raises(TraceError, match="must be 0 or more and unique"):
        write_chakra([trace(rank=1), trace(rank=1)], tmp_path / "out")
    with pytest.raises(TraceError, match="cannot be written"):
        write_chakra([trace()], tmp_path / "absent" / "out")


def _read_or_refused(path: Path) -> int:
    """Nodes of a cut file, which says that it is cut; 0 where it was refused by name."""
    try:
        found = read_chakra(path)
    except TraceError as error:
        return 0 if path.name in str(error) else -1
    return found.nodes if found.truncated or found.nodes < 3 else -1


def test_every_truncation_is_told_or_refused(tmp_path: Path) -> None:
    data, path = encode(trace(3)), tmp_path / "t.0.et"
    for whole, step in ((data, 2), (gzip.compress(data), 5)):
        for cut in range(0, len(whole), step):
            path.write_bytes(whole[:cut])
            assert 0 <= _read_or_refused(path) <= 3


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 8))
def test_damaged_files_never_give_a_traceback(seed: int, damage: int) -> None:
    random = np.random.default_rng(seed)
    data = bytearray(encode(trace(5, seed % 97)))
    for _ in range(damage):
        at = int(random.integers(len(data)))
        match random.integers(3):
            case 0:
                data[at] = int(random.integers(256))
            case 1:
                del data[at : at + int(random.integers(1, 9))]
            case _:
                data[at:at] = random.bytes(int(random.integers(1, 9)))
        data = data or bytearray(b"\x00")
    try:
        found = mend(_decode(bytes(data), True))
    except TraceError:
        return
    assert len(found.graph) >= 1
    assert np.all(found.graph.before < found.graph.after)


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    path = tmp_path / "x.et"
    for data in (
        b"",
        b"\x00",
        b"PK\x03\x04 something else entirely, and long enough",
        b"\x1f\x8bno gzip",
        b"\xff" * 40,
    ):
        path.write_bytes(data)
        with pytest.raises(TraceError, match=r"x\.et"):
            read_chakra(path)
    with pytest.raises(TraceError, match="cannot be read"):
        read_chakra(tmp_path / "absent.et")
    with pytest.raises(TraceError):
        read_chakra(tmp_path)


def test_positions_that_do_not_exist_are_refused() -> None:
    one = trace()
    with pytest.raises(TraceError, match="kind must be"):
        TraceGraph(**{**one.__dict__, "kind": one.kind + 50})


def test_a_broken_message_is_numbered() -> None:
    whole = encode(trace(2, rank=0))
    for broken in ("0b", "08ff", "12036162"):  # wire type 3; a number, and a text, that break off
        body = bytes.fromhex(broken)
        with pytest.raises(TraceError, match="message 3: "):
            _decode(whole + bytes([len(body)]) + body, True)


def test_many_nodes_without_a_name_are_no_trace() -> None:
    empty = bytes([2, 0x20, 0])  # a node of which only its start is said
    assert len(_decode(empty * (_ALIKE - 1), True).nodes) == _ALIKE - 1
    with pytest.raises(TraceError, match="without an id and without a name"):
        _decode(empty * _ALIKE, True)
    named = number_field(1, 7)
    assert len(_decode(bytes([len(named)]) + named + empty * _ALIKE, True).nodes) == _ALIKE + 1


def test_the_smallest_signed_integer() -> None:
    assert [signed_integer(value) for value in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)] == [
        2**63 - 1,
        -(2**63),
        -1,
    ]
