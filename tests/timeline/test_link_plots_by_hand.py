"""Charts of links, by hand: use over time by kind, how long at which level, and what is said of each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.answers.simulated import LinkUse
from podsim.errors import TimelineError
from podsim.timeline.link_plots import links_figure, plot_links, step_charts


def use(name: str, **changes: Any) -> LinkUse:
    """A link of 100 B/s that carries 40 B/s of tp and 20 B/s of pp for the first 5 of 10 s."""
    held: dict[str, Any] = {
        "name": name, "copies": 1, "capacity": 100.0, "bytes": 300.0, "busy": 5.0, "carried": {"tp": 200.0, "pp": 100.0},
        "time": np.array([0.0, 5.0]), "rate": np.array([60.0, 0.0]),
        "rates": {"tp": np.array([40.0, 0.0]), "pp": np.array([20.0, 0.0])},
    }  # fmt: skip
    return LinkUse(**(held | changes))


def step(*links: LinkUse) -> Any:
    return SimpleNamespace(links=links, step_time=10.0, model="gpt", gpus=1024, cluster="pod", timeline=())


def test_use_of_a_link_by_kind() -> None:
    """240 parts: up to 0.4 by tp, on top of it to 0.6 by pp, nothing from the middle on."""
    sheet = links_figure(step(use("nic", copies=8)))
    over, levels = sheet.charts
    tp, pp = over.marks
    for band, low, high in ((tp, 0.0, 0.4), (pp, 0.4, 0.6)):
        assert len(band.x) == len(band.low) == len(band.high) == 480
        assert (band.x[0], band.x[1], band.x[2], band.x[-1]) == pytest.approx((0, 10 / 240, 10 / 240, 10))
        assert band.low[:240] == pytest.approx([low] * 240)
        assert band.high[:240] == pytest.approx([high] * 240)
        assert band.high[240:] == pytest.approx([0.0] * 240)
        assert band.opacity == 1.0
    assert over.title == "nic x8, 100 B/s, 30% used: tp 67 %, pp 33 %"
    assert (over.x.label, over.x.low, over.x.high) == ("time, s", 0.0, 10.0)
    assert (over.x.text(2.0), over.y.text(0.5), over.y.high) == ("2", "50%", 1.02)
    boxes, points = levels.marks[2:]
    assert boxes.corners == [
        pytest.approx((n - 0.4, n + 0.4, 0, share)) for n, share in enumerate([0.5, 0, 0, 0.5, 0, 0])
    ]
    assert (boxes.opacity, points.line) == (0.75, "")
    assert (points.labels, list(points.x)) == (["50%", "", "", "50%", "", ""], [n - 0.5 for n in range(6)])
    assert levels.x.names == ["0-10", "10-25", "25-50", "50-75", "75-90", "90-100"]
    assert [mark.name for mark in levels.marks[:2]] == ["tp", "pp"]
    assert sheet.subtitle == "the 1 busiest of 1 that carried something, in 10 s"
    assert sheet.title == "Links of one step: gpt on 1,024 GPUs of pod"


def test_the_ten_busiest_links_stand_below_each_other() -> None:
    links = [use(f"{'l' * 40}{n}", bytes=100.0 + n, rates={}) for n in range(12)]
    sheet = links_figure(step(*links, use("idle", bytes=0.0)))
    assert len(sheet.charts) == 20
    assert sheet.size == pytest.approx((12.0, 1.6 + 10.5))
    assert sheet.subtitle == "the 10 busiest of 12 that carried something, in 10 s"
    assert sheet.charts[0].title.startswith("l" * 34 + ", 100 B/s, 11% used")
    (band,) = sheet.charts[0].marks  # the bytes alone are known by kind
    assert band.high[0] == pytest.approx(0.6)
    assert [mark.name for mark in sheet.charts[1].marks if mark.name] == ["tp", "pp", "several kinds"]
    assert [chart.x.label for chart in sheet.charts[:18]] == [""] * 18
    assert sheet.charts[0].x.text(2.0) == ""
    assert sheet.charts[1].x.names == [""] * 6
    assert not [mark.name for mark in sheet.charts[3].marks if mark.name]


def test_a_link_of_one_kind_has_its_colour(tmp_path: Any) -> None:
    one = use("nic", carried={"dp": 300.0}, rates={})
    first, other = links_figure(step(one)).charts
    assert [mark.name for mark in other.marks if mark.name] == ["dp"]
    assert first.marks[0].colour == other.marks[0].colour
    plot_links(step(one), tmp_path / "links.svg")
    assert (
        b"Links of one step" in (tmp_path / "links.svg").read_bytes()
        or (tmp_path / "links.svg").stat().st_size
    )
    assert len(step_charts(step(one))) == 1
    assert step_charts(step()) == []
    with pytest.raises(TimelineError, match="no link carried anything"):
        links_figure(step(use("idle", bytes=0.0)))
