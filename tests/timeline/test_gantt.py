"""Gantt charts: pixels add up, nothing is cut off, pages stand alone and hold every span."""

from __future__ import annotations

import base64
import gzip
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_timelines import pipeline
from matplotlib.text import Text

from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.errors import PodsimError, TimelineError
from podsim.timeline.gantt import gantt_figure, gantt_image, length_text, time_unit
from podsim.timeline.gantt_counters import counter_steps, make_panels
from podsim.timeline.gantt_page import gantt_data, gantt_page
from podsim.timeline.gantt_raster import coverage, mix_colours
from podsim.timeline.kind_colours import colours, ink_on, rgb
from podsim.timeline.timelines import write_timeline


def many(spans: int, lanes: int) -> Timeline:
    """Spans of random lengths, one after the other on every lane."""
    random = np.random.default_rng(0)
    gaps, lengths = random.exponential(1e-5, (2, lanes, spans // lanes))
    end = np.cumsum(gaps + lengths, axis=1)
    return Timeline(
        lanes=tuple(Lane(process=f"rank {k}", name="compute") for k in range(lanes)), names=("op",),
        kinds=("forward", "tp", "strange"), lane=np.repeat(np.arange(lanes), spans // lanes),
        name=np.zeros(end.size, dtype=np.int64), kind=random.integers(0, 3, end.size),
        start=(end - lengths).ravel(), end=end.ravel(),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 5), st.integers(0, 2)), min_size=1, max_size=30),
    st.integers(1, 50),
)
def test_pixels_hold_exactly_the_time_of_the_spans(spans: list[tuple[float, float, int]], width: int) -> None:
    start, length, kind = (np.array(column) for column in zip(*spans, strict=True))
    end = np.minimum(start + length, 10.0)
    row = kind % 2
    made = Timeline(
        lanes=(Lane(process="p", name="a"),) * 2, names=("op",), kinds=("x", "y", "z"), lane=row, name=0 * kind,
        kind=kind, start=np.minimum(start, end), end=end,
    )  # fmt: skip
    covers = coverage(made, row, 2, width, 0.0, 10.0)
    assert covers.min() > -1e-9
    for place in range(3):
        assert covers[:, place].sum() * 10.0 / width == pytest.approx(made.busy()[place], abs=1e-9)


def test_pixels_by_hand() -> None:
    """Of four pixels a second long, a span from 0.5 to 2.25 covers a half, one and a quarter; one beyond, none."""
    made = Timeline(
        lanes=(Lane(process="p", name="a"),), names=("op",), kinds=("x", "y"), lane=np.zeros(3, np.int64),
        name=np.zeros(3, np.int64), kind=np.array([0, 1, 1]), start=np.array([10.5, 13.0, 15.0]),
        end=np.array([12.25, 14.0, 16.0]),
    )  # fmt: skip
    covers = coverage(made, made.lane, 1, 4, 10.0, 14.0)
    assert covers.tolist() == [[[0.5, 1.0, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]]


def test_a_half_idle_pixel_is_half_coloured() -> None:
    paint = mix_colours(np.array([[[1.0, 0.5, 0.0], [0.0, 0.0, 2.0]]]), ["#000000", "#ffffff"])
    assert paint[0, 0] == pytest.approx([0, 0, 0])
    assert 0.4 < paint[0, 1, 0] < 0.5
    assert paint[0, 2] == pytest.approx([1, 1, 1])


def test_colours_are_the_same_everywhere_and_differ() -> None:
    first, second = colours(("forward", "tp", "x", "y")), colours(("y", "tp", "forward"))
    assert first["forward"] == second["forward"]
    assert first["tp"] == second["tp"]
    assert len(set(first.values())) == 4
    assert len(set(colours(map(str, range(20))).values())) == 20
    assert set(colours(map(str, range(50)))) == set(map(str, range(50)))
    assert ink_on("#000000") == "#ffffff"
    assert rgb("#ff0080") == (1.0, 0.0, 128 / 255)


@pytest.mark.parametrize(
    "made", [pipeline(), pipeline(8, 20), many(6000, 30), many(4000, 2000), many(40, 1)], ids=len
)
def test_nothing_leaves_the_figure_or_overlaps_the_rows(made: Timeline) -> None:
    figure = gantt_figure(made, title="A title " * 30)
    figure.draw_without_rendering()
    rows = figure.axes[0].get_window_extent()
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text() and text.get_visible():
            box = text.get_window_extent()
            inside = figure.bbox.padded(2)
            assert inside.x0 <= box.x0, text.get_text()
            assert box.x1 <= inside.x1, text.get_text()
            assert inside.y0 <= box.y0, text.get_text()
            assert box.y1 <= inside.y1, text.get_text()
    for legend in figure.legends:
        assert legend.get_window_extent().x0 > rows.x1


def words(made: Timeline) -> list[str]:
    return [text.get_text() for text in gantt_figure(made, title="T").findobj(Text) if isinstance(text, Text)]


def two_spans(lanes: int) -> Timeline:
    """Spans of 4 and 5 s, on a lane each or on one; memory of the first process grows from 1 to 3 GB."""
    return Timeline(
        lanes=tuple(Lane(process=f"rank {n}", name="n" * 40) for n in range(lanes)),
        names=("op",), kinds=("x", "y"), lane=np.array([0, lanes - 1]), name=np.zeros(2, np.int64),
        kind=np.array([0, 1]), start=np.array([0.0, 5.0]), end=np.array([4.0, 10.0]),
        arguments={"micro_batch": np.array([3, -1])},
        counters=(Counter(name="memory", process="rank 0", unit="B", time=np.array([0.0, 6.0]),
                          value=np.array([1e9, 3e9])),),
    )  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_chart_by_hand(lanes: int) -> None:
    """Inches: 0.75 above, 0.24 a row, 0.16 + 0.75 a panel, half an inch below; 7.9 between margins of 2.55 and 1.75."""
    figure = gantt_figure(two_spans(lanes))
    rows, panel = figure.axes
    left, wide, height = 2.55 / 12.2, 7.9 / 12.2, 0.75 + 0.24 * lanes + 0.91 + 0.5
    assert figure.get_size_inches() == pytest.approx((12.2, height))
    assert rows.get_position().bounds == pytest.approx((left, 1.41 / height, wide, 0.24 * lanes / height))
    assert panel.get_position().bounds == pytest.approx((left, 0.5 / height, wide, 0.75 / height))
    assert (rows.get_xlim(), rows.get_ylim()) == ((0.0, 10.0), (lanes, 0.0))
    boxes = [path.get_extents().extents for each in rows.collections for path in each.get_paths()]
    assert boxes == [pytest.approx([0, 0.08, 4, 0.92]), pytest.approx([5, lanes - 0.92, 10, lanes - 0.08])]
    labels = {text.get_text(): text.get_position() for text in rows.texts}
    assert labels["3"] == pytest.approx((2.0, 0.53))
    assert "-1" not in labels
    assert labels["rank 0 " + "n" * 28 + "…"] == pytest.approx((-(2.55 - 0.12) * 10 / 7.9, 0.5))
    assert all(5 <= text.get_fontsize() <= 9 for text in rows.texts)
    assert panel.get_xticks().tolist() == [0, 2, 4, 6, 8, 10]
    assert (panel.get_xlabel(), rows.get_xlabel()) == ("time, s", "")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["y 56%", "x 44%"]
    assert panel.lines[0].get_xydata().tolist() == [[0, 1e9], [6, 3e9], [10, 3e9]]
    assert panel.get_ylim() == pytest.approx((0, 3.3e9))


def test_lanes_of_a_process_are_named_beside_their_rows() -> None:
    """Two lanes of one process: names 0.08 inches left of the rows, cut at 18 letters; a rule before the next."""
    made = two_spans(2)
    lanes = (
        *(replace(lane, process="rank 0", copies=1 + n) for n, lane in enumerate(made.lanes)),
        made.lanes[1],
    )
    rows = gantt_figure(replace(made, lanes=lanes)).axes[0]
    places = [(text.get_text(), *text.get_position()) for text in rows.texts if text.get_text() != "3"]
    put, far = -0.08 * 10 / 7.9, -(2.55 - 0.12) * 10 / 7.9
    long = "n" * 17 + "…"
    assert [name for name, *_ in places] == [long, long, long, "rank 0", "rank 1"]
    assert [at for _, *at in places] == [
        pytest.approx((x, y)) for x, y in ((put, 0.5), (put, 1.5), (put, 2.5), (far, 0.5), (far, 2.5))
    ]
    assert [line.get_ydata()[0] for line in rows.lines] == [2.0]


def test_a_chart_of_one_lane_leaves_room_for_its_legend() -> None:
    figure = gantt_figure(replace(two_spans(1), counters=()))
    assert figure.get_size_inches()[1] == pytest.approx(0.75 + 1.45)


def test_ticks_stand_within_the_time_of_a_chart() -> None:
    figure = gantt_figure(replace(two_spans(2), end=np.array([4.0, 9.5])))
    assert figure.axes[1].get_xticks().tolist() == [0, 2, 4, 6, 8]
    late = replace(two_spans(2), start=np.array([8.7, 9.0]), end=np.array([9.0, 12.1]))
    assert gantt_figure(late).axes[0].get_xticks().tolist() == [9, 9.5, 10, 10.5, 11, 11.5, 12]


def test_a_counter_of_many_changes_is_a_band_of_steps() -> None:
    """0 and 1 in turns until 5 s, then 5: at 5 s the upper edge goes straight up from 1, although 0 came last."""
    time = np.arange(4000) / 400
    value = np.where(time < 5, (np.arange(4000) + 1) % 2, 5.0)
    counter = Counter(name="memory", process="rank 0", unit="B", time=time, value=value)
    panel = gantt_figure(replace(two_spans(2), counters=(counter,))).axes[1]
    (band,) = panel.collections
    corners = band.get_paths()[0].vertices
    assert {0.0, 1.0, 5.0} == set(corners[np.isclose(corners[:, 0], 5.0), 1].tolist())


def test_a_tall_chart_has_room_for_every_kind() -> None:
    """20 rows of 0.24 inches hold more than six kinds, one every 0.17 inches."""
    at = np.arange(20, dtype=float)
    made = Timeline(
        lanes=tuple(Lane(process=f"rank {k}", name="compute") for k in range(20)), names=("op",),
        kinds=tuple(f"kind {k}" for k in range(20)), lane=np.arange(20), name=np.zeros(20, np.int64),
        kind=np.arange(20), start=at, end=at + 1.0,
    )  # fmt: skip
    assert len(gantt_figure(made).legends[0].get_texts()) == 20


def test_a_small_chart_says_lanes_kinds_and_micro_batches() -> None:
    found = words(pipeline())
    assert {"stage 0 (ranks 0-7)", "compute x8", "backward 51%", "0", "7", "time, ms", "memory"} <= set(found)
    assert "372 spans on 12 lanes in 34.45 ms" in found


def test_a_tall_chart_says_that_rows_stand_for_several_lanes() -> None:
    assert any("each row is the mean of 3 lanes" in text for text in words(many(9000, 3000)))


def test_images(tmp_path: Path) -> None:
    made = pipeline(2, 3)
    svg = gantt_image(made, "svg", title="T")
    assert svg == gantt_image(made, "svg", title="T")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    write_timeline(made, tmp_path / "t.png")
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    assert len(gantt_image(many(20000, 20), "svg")) < 400_000


def test_steps_keep_their_extremes() -> None:
    time = np.arange(10000) * 1e-3
    value = np.where(np.arange(10000) == 5003, 7.0, 1.0)
    one = Counter(name="m", process="p", unit="B", time=time, value=value)
    edges, least, most = counter_steps(one, 0.0, 10.0, 100)
    assert len(edges) == 101
    assert most.max() == 7.0
    assert least.min() == least.max() == 1.0
    rising = replace(one, time=np.arange(10.0), value=np.arange(10.0) ** 2)
    told = [
        each.tolist() for each in counter_steps(rising, 0.0, 10.0, 2)
    ]  # a part starts where the one before ended
    assert told == [[0, 5, 10], [0, 16, 16], [16, 81, 81]]
    assert len(counter_steps(rising, 0.0, 10.0, 5)[0]) == 11
    short = replace(one, time=time[:3], value=value[:3])
    assert len(counter_steps(short, 0.0, 10.0, 100)[0]) == 4


def test_panels_show_the_highest_of_many() -> None:
    made = pipeline(8, 4)
    memory = make_panels(made)[0]
    assert (memory.name, memory.all, len(memory.shown)) == ("memory", 8, 4)
    assert memory.shown[0].process.startswith("stage 0")


@pytest.mark.parametrize(
    ("seconds", "size", "unit"),
    [
        (5e-9, 1e-9, "ns"), (2.9e-6, 1e-9, "ns"), (3e-6, 1e-6, "us"), (3e-5, 1e-6, "us"), (0.034, 1e-3, "ms"),
        (20.0, 1.0, "s"), (179.0, 1.0, "s"), (180.0, 60.0, "min"), (9e4, 3600.0, "h"), (1e6, 86400.0, "days"),
    ],
)  # fmt: skip
def test_time_units(seconds: float, size: float, unit: str) -> None:
    assert time_unit(seconds) == (size, unit)


def test_lengths_as_text() -> None:
    made = many(1, 1)
    ends = {34.45e-3: "34.45 ms", 12.5: "12.5 s", 7200.0: "120 min", 365 * 86400.0: "365 days"}
    for seconds, said in ends.items():
        assert length_text(replace(made, start=np.zeros(1), end=np.array([seconds]))) == said


def test_what_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = many(0, 1)
    with pytest.raises(TimelineError, match="nothing to draw"):
        gantt_figure(empty)
    with pytest.raises(TimelineError, match="nothing to draw"):
        gantt_page(empty)
    instant = replace(many(1, 1), start=np.zeros(1), end=np.zeros(1))
    with pytest.raises(TimelineError, match="takes time"):
        gantt_figure(instant)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PodsimError, match=r"pip install '\.\[report\]'"):
        gantt_figure(pipeline())


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_a_page_stands_alone_and_holds_every_span() -> None:
    made = pipeline()
    page = gantt_page(made, title="</script><b>bold</b>")
    assert page == gantt_page(made, title="</script><b>bold</b>")
    tags = Tags()
    tags.feed(page)
    assert not [1 for _, held in tags.seen if {"src", "href"} & set(held)]
    assert "http" not in page
    assert not [1 for tag, _ in tags.seen if tag == "b"]
    held = re.search(r'id="described">(.*?)</script>', page, re.DOTALL)
    packed = re.search(r'id="packed">(.*?)</script>', page, re.DOTALL)
    assert held
    assert packed
    described = json.loads(held[1])
    data = gzip.decompress(base64.b64decode(packed[1]))
    types = {
        "Float64Array": "<f8",
        "Uint8Array": "u1",
        "Uint16Array": "<u2",
        "Uint32Array": "<u4",
        "Int32Array": "<i4",
    }
    arrays = {
        name: np.frombuffer(data, types[kind], length, at)
        for name, (kind, at, length) in described["arrays"].items()
    }
    order = np.lexsort((made.end, made.start, made.lane))
    np.testing.assert_array_equal(arrays["start"], made.start[order])
    np.testing.assert_array_equal(arrays["argument micro_batch"], made.arguments["micro_batch"][order])
    assert [kind["name"] for kind in described["kinds"]] == list(made.kinds)
    assert arrays["first"][-1] == len(made)
    assert described["title"] == "</script><b>bold</b>"


@pytest.mark.parametrize(("count", "kind", "name"), [(3, "u1", "u2"), (300, "u2", "u2"), (70000, "u2", "u4")])
def test_numbers_of_a_page_hold_every_kind_and_name(count: int, kind: str, name: str) -> None:
    """One byte for up to 255 kinds, two for up to 65,535 names."""
    many_kinds = min(count, 300)
    made = Timeline(
        lanes=(Lane(process="p", name="n"),), names=tuple(map(str, range(count))),
        kinds=tuple(map(str, range(many_kinds))), lane=np.zeros(2, np.int64), name=np.array([0, count - 1]),
        kind=np.array([0, many_kinds - 1]), start=np.array([0.0, 1.0]), end=np.array([1.0, 2.0]),
        arguments={"word": np.array(["b", "a"]), "small": np.array([1, -(2**31) + 1]), "large": np.array([1, 2**31])},
    )  # fmt: skip
    described, packed = gantt_data(made)
    types = {
        "Uint8Array": "u1",
        "Uint16Array": "u2",
        "Uint32Array": "u4",
        "Int32Array": "i4",
        "Float64Array": "f8",
    }
    data = gzip.decompress(base64.b64decode(packed))
    held = {key: (types[kind], np.frombuffer(data, f"<{types[kind]}", length, at).tolist())
            for key, (kind, at, length) in described["arrays"].items()}  # type: ignore[attr-defined]  # fmt: skip
    assert held["kind"] == (kind, [0, many_kinds - 1])
    assert held["name"] == (name, [0, count - 1])
    assert held["argument word"] == ("u4", [1, 0])
    assert held["argument small"] == ("i4", [1, -(2**31) + 1])
    assert held["argument large"] == ("f8", [1, 2**31])


@pytest.mark.parametrize("kinds", [2, 6, 9])
def test_the_legend_of_a_single_lane_is_whole(kinds: int) -> None:
    at = np.arange(kinds, dtype=float)
    made = Timeline(
        lanes=(Lane(process="a replica", name="compute"),), names=("op",),
        kinds=tuple(f"kind {k}" for k in range(kinds)), lane=np.zeros(kinds, np.int64), name=np.zeros(kinds, np.int64),
        kind=np.arange(kinds), start=at, end=at + 1.0,
    )  # fmt: skip
    figure = gantt_figure(made)
    figure.canvas.draw()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == min(kinds, 6) + (kinds > 6)
    assert legend.get_window_extent().y0 >= 0.0
