"""Where shapes, names and ticks of a Gantt chart stand, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.timeline.gantt import _layout, _shorten, gantt_figure
from podsim.timeline.gantt_counters import draw_counters, make_panels


def chart(lanes: int = 2, copies: int = 1, names: tuple[str, ...] = ("a",), **more: object) -> Timeline:
    """Two spans a lane, of 2 s and of 0.001 s, from 1 s on."""
    lane = np.repeat(np.arange(lanes), 2)
    return Timeline(
        lanes=tuple(Lane(process=f"p{k // 2}", name="compute", copies=copies) for k in range(lanes)), names=names,
        kinds=("forward", "tp"), lane=lane, name=0 * lane, kind=np.tile([0, 1], lanes),
        start=np.tile([1.0, 4.0], lanes), end=np.tile([3.0, 4.001], lanes), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def texts(axes: object) -> list[str]:
    return [text.get_text() for text in axes.texts]  # type: ignore[attr-defined]


def test_a_span_is_a_box_in_the_middle_of_its_row() -> None:
    axes = gantt_figure(chart()).axes[0]
    boxes = [path.vertices for shapes in axes.collections for path in shapes.get_paths()]
    wide = [box for box in boxes if np.ptp(box[:, 0]) > 1]
    assert len(boxes) == 4
    for row, box in enumerate(wide):
        assert (box[:, 0].min(), box[:, 0].max()) == pytest.approx((1.0, 3.0))
        assert (box[:, 1].min() + box[:, 1].max()) / 2 == pytest.approx(row + 0.5)
        assert np.ptp(box[:, 1]) == pytest.approx(0.84)
    edges = [shapes.get_linewidths() for shapes in axes.collections]
    assert [list(width) for width in edges] == [[0.5, 0.5], [0.0, 0.0]]  # too narrow for an edge


def test_micro_batches_stand_in_spans_that_have_room() -> None:
    one = chart(arguments={"micro_batch": np.array([7, 8, -1, 9])})
    assert [text for text in texts(gantt_figure(one).axes[0]) if text.isdigit()] == ["7"]


def test_lanes_are_named_with_their_copies_and_processes_once() -> None:
    found = texts(gantt_figure(chart(4, copies=8)).axes[0])
    assert found.count("compute x8") == 4
    assert [text for text in found if text.startswith("p")] == ["p0", "p1"]
    assert "compute x" not in "".join(texts(gantt_figure(chart(4)).axes[0]))
    assert _shorten("a" * 18, 18) == "a" * 18
    assert _shorten("a" * 19, 18) == "a" * 17 + "…"


@pytest.mark.parametrize(
    ("lanes", "rows", "merged", "pitch"),
    [
        (1, 1, 1, 0.24),
        (45, 45, 1, 0.24),
        (100, 100, 1, 0.11),
        (1000, 1000, 1, 0.011),
        (1001, 501, 2, 11 / 501),
    ],
)
def test_rows_share_eleven_inches(lanes: int, rows: int, merged: int, pitch: float) -> None:
    found = _layout(lanes)
    assert (found.rows, found.merged, found.pitch) == (rows, merged, pytest.approx(pitch))


def test_time_starts_at_zero_where_that_is_near() -> None:
    assert gantt_figure(chart()).axes[0].get_xlim() == pytest.approx((0.0, 4.001))
    late = chart()
    late.start.setflags(write=True)
    shifted = Timeline(**{**vars(late), "start": late.start + 100.3, "end": late.end + 100.3})
    axes = gantt_figure(shifted).axes[0]
    assert axes.get_xlim() == pytest.approx((101.3, 104.301))
    assert all(101.3 <= tick <= 104.301 for tick in axes.get_xticks())


def test_a_panel_of_counters_stands_below_with_all_ticks_inside() -> None:
    counter = Counter(
        name="memory", process="p0", unit="B", time=np.array([0.0, 2.0]), value=np.array([1e9, 3e9])
    )
    figure = gantt_figure(chart(counters=(counter,)))
    rows, panel = figure.axes[:2]
    assert panel.get_position().y1 < rows.get_position().y0
    assert panel.get_ylim() == pytest.approx((0.0, 3.3e9))
    assert rows.get_xlabel() == ""
    assert panel.get_xlabel() == "time, s"
    for axes in (rows, panel):
        assert all(0 <= tick <= 4.001 for tick in axes.get_xticks())
        assert len(axes.get_xticks()) >= 4


@pytest.mark.parametrize(("lanes", "shown", "more"), [(1, 6, "6 more"), (40, 12, "")])
def test_a_tall_chart_has_a_long_legend(lanes: int, shown: int, more: str) -> None:
    """Twelve kinds; one lane is 2.2 inches high, and a line of the legend takes 0.17."""
    kind = np.arange(12 * lanes) % 12
    one = Timeline(
        lanes=tuple(Lane(process="p", name=f"{k}") for k in range(lanes)), names=("a",),
        kinds=tuple(f"kind {k}" for k in range(12)), lane=np.arange(12 * lanes) // 12, name=0 * kind, kind=kind,
        start=kind * 10.0, end=kind * 10.0 + 1 + kind,
    )  # fmt: skip
    labels = [text.get_text() for text in gantt_figure(one).legends[0].get_texts()]
    assert labels[0].startswith("kind 11 15")  # 12 of 78 s
    assert len(labels) == shown + bool(more)
    assert not more or labels[-1] == more


def test_a_counter_that_changes_often_is_a_band_of_steps() -> None:
    """Ten values in four parts of 2.5 s: each part is as high as its values, and as the one that it starts with."""
    value = np.array([1.0, 5, 2, 2, 2, 9, 3, 3, 0, 4])
    one = Counter(name="memory", process="p", unit="B", time=np.arange(10.0), value=value)
    figure = Figure()
    axes = figure.subplots()
    draw_counters([axes], make_panels(chart(counters=(one,))), 0.0, 10.0, 4)
    (band,) = axes.collections
    corners = {(round(x, 3), round(y, 3)) for x, y in band.get_paths()[0].vertices}
    for part, (least, most) in enumerate([(1, 5), (2, 2), (2, 9), (0, 4)]):
        assert {
            (2.5 * part, least),
            (2.5 * part, most),
            (2.5 * (part + 1), least),
            (2.5 * (part + 1), most),
        } <= corners
