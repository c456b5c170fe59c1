"""Traces: what is written is read back, the files keep their formats, and bad ones are told."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_timelines import pipeline

from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.errors import TimelineError
from podsim.timeline.protobuf import varint
from podsim.timeline.timelines import read_timeline, write_timeline
from podsim.timeline.trace_rows import label, read_label, rows_of
from podsim.timeline.wire import doubles, integers, join_rows, message_blocks

TRACES = (".json", ".json.gz", ".pftrace", ".pftrace.gz")


def table(timeline: Timeline) -> list[tuple[object, ...]]:
    """Spans as rows of text and nanoseconds, sorted: two timelines are alike if these are."""
    held = {name: values.tolist() for name, values in timeline.arguments.items()}
    names = sorted(name for name, values in held.items() if any(v == v and v != "" for v in values))
    found = []
    for k in range(len(timeline)):
        lane = timeline.lanes[timeline.lane[k]]
        more = tuple(held[name][k] if held[name][k] == held[name][k] else None for name in names)
        ends = round(timeline.start[k] * 1e9), round(timeline.end[k] * 1e9)
        found.append((lane, timeline.names[timeline.name[k]], timeline.kinds[timeline.kind[k]], *ends, *more))
    return sorted(found, key=str)


def small(spans: list[tuple[int, int, int, int]], lanes: int = 3) -> Timeline:
    """Spans of (lane, kind, start in ns, length in ns), some of which overlap."""
    columns = np.array(spans, dtype=np.int64).reshape(-1, 4)
    kinds = columns[:, 1]
    return Timeline(
        lanes=tuple(Lane(process=f"p{k // 2}", name=f"lane {k} (x)", copies=1 + k) for k in range(lanes)),
        names=("a", 'b "quoted" \\ ä'), kinds=("forward", "tp,all"), lane=columns[:, 0], name=kinds, kind=kinds,
        start=columns[:, 2] * 1e-9, end=(columns[:, 2] + columns[:, 3]) * 1e-9,
        arguments={
            "batch": columns[:, 0] - 1, "bytes": np.where(kinds == 0, np.nan, 0.5 + kinds),
            "who": np.where(kinds == 0, "", "x").astype(str),
        },
    )  # fmt: skip


@pytest.mark.parametrize("end", TRACES)
def test_a_pipeline_comes_back(end: str, tmp_path: Path) -> None:
    made = pipeline()
    write_timeline(made, tmp_path / f"t{end}")
    back = read_timeline(tmp_path / f"t{end}")
    assert table(back) == table(made)
    assert set(back.lanes) == set(made.lanes)
    busy = dict(zip(back.kinds, back.busy(), strict=True))
    for kind, seconds in zip(made.kinds, made.busy(), strict=True):
        assert busy[kind] == pytest.approx(seconds, abs=1e-9 * len(made))
    assert len(back.counters) == len(made.counters)
    for one, other in zip(made.counters, back.counters, strict=True):
        assert (one.name, one.process, one.unit) == (other.name, other.process, other.unit)
        np.testing.assert_allclose(other.time, one.time, atol=1e-9)
        np.testing.assert_allclose(other.value, one.value)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 10**13), st.integers(0, 10**6)),
        min_size=1,
    )
)
def test_any_spans_come_back(
    tmp_path_factory: pytest.TempPathFactory, spans: list[tuple[int, int, int, int]]
) -> None:
    made = small(spans)
    for end in (".json", ".pftrace"):
        path = tmp_path_factory.mktemp("t") / f"t{end}"
        write_timeline(made, path)
        assert table(read_timeline(path)) == table(made), end


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.just(0), st.integers(0, 60), st.integers(0, 20)), max_size=40)
)
def test_nothing_overlaps_on_a_row(spans: list[tuple[int, int, int, int]]) -> None:
    made = small(spans)
    rows = rows_of(made)
    assert sorted(rows.order.tolist()) == list(range(len(made)))
    same = rows.row[1:] == rows.row[:-1]
    assert np.all(rows.end[:-1][same] <= rows.start[1:][same])
    assert np.array_equal(np.array(rows.lane, dtype=int)[rows.row], made.lane[rows.order])
    # as many rows as spans run at once, and no more
    for lane in range(3):
        mine = made.lane == lane
        start, end = (np.rint(x[mine] * 1e9) for x in (made.start, made.end))
        deepest = max((int(np.sum((start <= t) & (end > t))) for t in start), default=0)
        assert rows.lane.count(lane) <= max(1, deepest) + int(np.sum(start == end))


@pytest.mark.parametrize(("name", "copies", "depth"), [("NIC 0", 1, 0), ("tp", 8, 2), ("odd (8) name", 3, 1)])
def test_labels_are_read_back(name: str, copies: int, depth: int) -> None:
    lane = Lane(process="p", name=name, copies=copies)
    assert read_label(label(lane, depth), "p") == lane
    assert label(lane, depth) == name + f" ({copies} alike)" * (copies > 1) + f" (row {depth + 1})" * (
        depth > 0
    )


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_numbers_in_columns_are_the_numbers_one_by_one(numbers: list[int]) -> None:
    column = join_rows(
        message_blocks(3, [*integers(1, np.array(numbers)), *doubles(2, np.array(numbers, dtype=float))])
    )
    expected = b""
    for number in numbers:
        inner = b"\x08" + varint(number) + b"\x11" + np.float64(number).tobytes()
        expected += b"\x1a" + varint(len(inner)) + inner
    assert column == expected


def test_json_is_the_trace_event_format(tmp_path: Path) -> None:
    write_timeline(pipeline(2, 2), tmp_path / "t.json")
    held = json.loads((tmp_path / "t.json").read_text("utf-8"))
    events = held["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    tracks = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in tracks
            assert set(event) == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {
        "stage 0 (ranks 0-7)", "stage 1 (ranks 8-15)",
    }  # fmt: skip


def test_perfettos_own_classes_read_the_same(tmp_path: Path) -> None:
    """An independent reader: the protobuf classes that Perfetto publishes."""
    classes = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    made = pipeline()
    write_timeline(made, tmp_path / "t.pftrace")
    trace = classes.Trace.FromString((tmp_path / "t.pftrace").read_bytes())
    kinds: dict[int, str] = {}
    open_at: dict[int, tuple[int, int]] = {}
    busy: dict[str, int] = {}
    for packet in trace.packet:
        kinds |= {one.iid: one.name for one in packet.interned_data.event_categories}
        event = packet.track_event
        if event.type == event.TYPE_SLICE_BEGIN and packet.HasField("track_event"):
            open_at[event.track_uuid] = (packet.timestamp, event.category_iids[0])
        elif event.type == event.TYPE_SLICE_END:
            start, kind = open_at.pop(event.track_uuid)
            busy[kinds[kind]] = busy.get(kinds[kind], 0) + packet.timestamp - start
    assert not open_at
    expected = dict(zip(made.kinds, made.busy(), strict=True))
    assert busy == {kind: pytest.approx(seconds * 1e9, abs=len(made)) for kind, seconds in expected.items()}
    threads = [p.track_descriptor for p in trace.packet if p.track_descriptor.HasField("thread")]
    assert [t.thread.thread_name for t in threads][:3] == [
        "compute (8 alike)",
        "tp (8 alike)",
        "send (8 alike)",
    ]


def test_other_programs_events_are_read(tmp_path: Path) -> None:
    """Begin and end apart, an array that was left open, threads without names."""
    (tmp_path / "t.json").write_text(
        '[{"ph":"B","name":"a","pid":1,"tid":2,"ts":5},{"ph":"X","name":"c","pid":1,"tid":3,"ts":1,"dur":2,"cat":"k"},\n'
        '{"ph":"E","pid":1,"tid":2,"ts":9.5},{"ph":"i","name":"mark","ts":1},\n', "utf-8",
    )  # fmt: skip
    back = read_timeline(tmp_path / "t.json")
    assert [(row[0].process, row[0].name, *row[1:]) for row in table(back)] == [
        ("process 1", "thread 2", "a", "", 5000, 9500), ("process 1", "thread 3", "c", "k", 1000, 3000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("t.json", b'{"traceEvents": [{"ph": "X", "na', "truncated"),
        ("t.json", b'{"traceEvents": [{"ph": "X", "ts": 1}', "truncated"),
        ("t.json", b'{"traceEvents": [{"ph": "X", "ts": 1}]', "truncated"),
        ("t.json", b'{"name": "a package", "version": 3}', "JSON of another kind: it has name, version"),
        ("t.json", b'{"traceEvents": 7}', "JSON of another kind"),
        ("t.json", b'{"traceEvents": [1, 2, 3]}', "no JSON at line 1"),
        ("t.json", b"time,event\n1,2\n", "starts with 'time,event"),
        ("t.json", b"", "is empty"),
        ("t.json", b"\xff\xfe\x00", "neither text nor gzip"),
        ("t.json", b'{"traceEvents": []}', "no span in it"),
        ("t.json.gz", gzip.compress(b'{"traceEvents": []}' * 50, mtime=0)[:-12], "truncated"),
        ("t.pftrace", b"\x0a\x7f\x01", "truncated"),
        ("t.pftrace", b"SQLite", "not a Perfetto trace"),
        ("t.pftrace", b"\x0a\x02\x5a\x7f", "not a Perfetto trace, or damaged|no span"),
        ("t.pftrace", b"", "no span in it"),
        ("t.csv", b"", "give a name that ends in"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(name: str, held: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(held)
    with pytest.raises(TimelineError, match=said):
        read_timeline(tmp_path / name)


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    made = small([(0, 0, 0, 5)])
    with pytest.raises(TimelineError, match="cannot be read"):
        read_timeline(tmp_path / "absent.json")
    with pytest.raises(TimelineError, match=r"ends in \.json"):
        write_timeline(made, tmp_path / "t.txt")
    with pytest.raises(TimelineError, match="no span"):
        write_timeline(small([]), tmp_path / "t.json")
    with pytest.raises(TimelineError, match="starts at -1 s"):
        write_timeline(replace(made, start=made.start - 1), tmp_path / "t.pftrace")
    with pytest.raises(TimelineError, match="292 years"):
        write_timeline(replace(made, end=made.end + 1e12), tmp_path / "t.json")
    early = Counter(name="m", process="p0", unit="B", time=np.array([-1.0]), value=np.array([0.0]))
    with pytest.raises(TimelineError, match="counter m starts before 0"):
        write_timeline(replace(made, counters=(early,)), tmp_path / "t.pftrace")


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    made = pipeline()
    for end in (".json", ".pftrace"):
        write_timeline(made, tmp_path / f"t{end}", progress=lambda done, whole: seen.append((done, whole)))
    assert seen == [(len(made), len(made))] * 2
