"""The picture of a step's links by hand: two links over 10 s."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.answers.simulated import LinkUse
from podsim.errors import TimelineError
from podsim.report.chart_marks import MUTED, Band, Boxes, Series
from podsim.timeline.kind_colours import colours
from podsim.timeline.link_plots import links_figure, plot_links

HALF, WHOLE = np.array([5.0, 0.0]), np.array([0.0, 5.0])
ONE = LinkUse(
    name="out of stage 0", copies=8, capacity=10.0, bytes=75.0, busy=10.0, carried={"tp": 25.0, "dp": 50.0},
    time=np.array([0.0, 5.0]), rate=np.array([5.0, 10.0]),
    rates={"tp": np.array([5.0, 0.0]), "dp": np.array([0.0, 10.0])},
)  # fmt: skip
TWO = LinkUse(
    name="into stage 0", copies=1, capacity=10.0, bytes=10.0, busy=1.0, carried={"pp": 10.0, "dp": 0.5},
    time=np.array([0.0, 1.0]), rate=np.array([10.0, 0.0]),
)  # fmt: skip


def step(*links: LinkUse) -> Any:
    return SimpleNamespace(links=links, step_time=10.0, model="gpt", gpus=1024, cluster="selene")


def test_a_row_for_each_link_with_its_use_over_time_and_its_levels() -> None:
    sheet = links_figure(step(TWO, ONE))
    assert sheet.title == "Links of one step: gpt on 1,024 GPUs of selene"
    assert sheet.subtitle == "the 2 busiest of 2 that carried something, in 10 s"
    assert (sheet.columns, sheet.size[1]) == (2, pytest.approx(1.6 + 2.1))
    first, levels, second, last = sheet.charts
    assert first.title.startswith("out of stage 0 x8, 10 B/s, 75% used: ")
    assert second.title.startswith("into stage 0, 10 B/s, 10% used: ")
    below, above = first.marks
    assert isinstance(below, Band)
    assert isinstance(above, Band)
    kind = colours(["tp", "dp", "pp", "dp"])
    assert (below.colour, above.colour) == (kind["tp"], kind["dp"])
    assert below.x[:3] == pytest.approx([0.0, 10 / 240, 10 / 240])
    assert (below.x[-1], len(below.x)) == (10.0, 480)
    assert below.high[:240] == pytest.approx([0.5] * 240)
    assert below.high[240:] == pytest.approx([0.0] * 240)
    assert above.low == pytest.approx(below.high)
    assert above.high == pytest.approx([0.5] * 240 + [1.0] * 240)
    (alone,) = second.marks  # several kinds, of which only the bytes are known
    assert alone.colour == MUTED
    assert (first.x.label, second.x.label) == ("", "time, s")
    assert (first.x.text(2.5), second.x.text(2.5)) == ("", "2.5")
    legend = [mark.name for mark in levels.marks if isinstance(mark, Boxes) and mark.name]
    assert legend == ["tp", "dp", "pp", "several kinds"]
    boxes = next(mark for mark in levels.marks if isinstance(mark, Boxes) and not mark.name)
    assert [round(box[3], 3) for box in boxes.corners] == [
        0,
        0,
        0,
        0.5,
        0,
        0.5,
    ]  # half at 50 %, and half at 100 %
    assert boxes.corners[3][:3] == pytest.approx((2.6, 3.4, 0.0))
    texts = next(mark for mark in levels.marks if isinstance(mark, Series))
    assert (list(texts.labels), list(texts.x)) == (
        ["", "", "", "50%", "", "50%"],
        [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5],
    )
    assert last.x.names == ["0-10", "10-25", "25-50", "50-75", "75-90", "90-100"]
    assert levels.x.names == [""] * 6
    assert not [mark for mark in last.marks if isinstance(mark, Boxes) and mark.name]


def test_the_ten_busiest_of_more() -> None:
    sheet = links_figure(step(*[ONE] * 12))
    assert len(sheet.charts) == 20
    assert sheet.subtitle.startswith("the 10 busiest of 12 that")


def test_nothing_to_draw(tmp_path: Any) -> None:
    with pytest.raises(TimelineError, match="no link carried anything"):
        links_figure(step())
    with pytest.raises(TimelineError, match="plot of links"):
        plot_links(step(ONE), tmp_path / "links.pdf")
