"""What is said of a simulated step: sums by hand, every link once, text that fits, data that is plain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_timelines import simulated
from matplotlib.text import Text

import podsim
from podsim.answers.simulated import LinkUse
from podsim.errors import TimelineError
from podsim.report import print_simulated, simulated_data, simulated_text
from podsim.report.matplotlib_charts import draw
from podsim.report.plain_data import to_csv, to_json
from podsim.report.screen import report_text
from podsim.report.simulation import (
    LEVELS,
    busiest_links,
    carriers,
    links_report,
    simulated_report,
    time_by_level,
    use_over_time,
    utilisation,
)
from podsim.timeline.link_plots import links_figure, links_image, plot_links

STEP = simulated()
GOLDEN = Path(__file__).parent / "golden" / "simulated.txt"


def test_text_is_the_golden_text() -> None:
    assert simulated_text(STEP, 100) == GOLDEN.read_text("utf-8")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_terminal(width: int) -> None:
    assert max(map(len, simulated_text(STEP, width).splitlines())) <= max(width, 72)


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_simulated(replace(STEP, memory=90e9, critical=()))
    told = capsys.readouterr().out
    assert "DOES NOT FIT in 80 GB" in told
    assert "the critical path was not followed" in told
    assert "Warning: stage 3 waits" in told


def test_use_of_a_link_by_hand() -> None:
    """24 GB/s of 25 for 6 ms from 2 ms on: 144 MB."""
    one = STEP.links[0]
    assert one.bytes == pytest.approx(144e6)
    assert utilisation(one, 0.012) == pytest.approx(144e6 / (25e9 * 0.012))
    assert use_over_time(one, 0.012, 6) == pytest.approx([0, 0.96, 0.96, 0.96, 0, 0])
    assert use_over_time(one, 0.012, 4) == pytest.approx([0.32, 0.96, 0.64, 0])
    assert time_by_level(one, 0.012) == pytest.approx([0.5, 0, 0, 0, 0, 0.5])
    assert carriers(one) == "pp 83 %, tp 17 %"
    assert [use.name for use in busiest_links(STEP)] == ["node 1 NIC 0 in", "node 0 NIC 2 out"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 9.9), st.floats(0, 5.0)), min_size=1, max_size=15, unique_by=lambda row: row[0]
    ),
    st.integers(1, 40),
)
def test_histograms_hold_every_byte_and_every_second(changes: list[tuple[float, float]], bins: int) -> None:
    time, rate = (np.array(column) for column in zip(*sorted(changes), strict=True))
    carried = float((rate * np.diff(np.append(time, 10.0))).sum())
    one = LinkUse(
        name="l",
        copies=1,
        capacity=5.0,
        bytes=carried,
        busy=1.0,
        carried={"tp": carried},
        time=time,
        rate=rate,
    )
    assert use_over_time(one, 10.0, bins).mean() == pytest.approx(utilisation(one, 10.0), abs=1e-9)
    spent = time_by_level(one, 10.0)
    assert spent.sum() == pytest.approx(1.0)
    assert spent.min() >= -1e-12
    assert len(spent) == len(LEVELS)


def test_every_link_is_counted_once() -> None:
    lines = report_text(links_report(STEP)).splitlines()
    first = next(k for k, line in enumerate(lines) if "time of the busiest" in line)
    counts = [
        int(line.split("%")[1].split()[0].replace(",", ""))
        for line in lines[first + 1 : first + 1 + len(LEVELS)]
    ]
    assert sum(counts) == sum(use.copies for use in STEP.links)
    assert lines[-1].strip() == "100 of 112 links carried nothing."
    assert report_text(links_report(replace(STEP, links=()))) == "Adapters: none carried anything\n"


def test_data_are_plain_and_whole() -> None:
    told = json.loads(to_json(simulated_data(STEP)))
    assert told["step_time"] == STEP.step_time
    assert told["links"][0]["rate"] == [0.0, 24e9, 0.0]
    assert told["links"][0]["utilisation"] == pytest.approx(144e6 / 25e9 / STEP.step_time)
    assert told["timeline"]["spans"] == len(STEP.timeline)
    assert told["timeline"]["kinds"]["forward"] == pytest.approx(0.032)
    assert "start" not in told["timeline"]
    whole = json.loads(to_json(simulated_data(STEP, spans=True)))
    assert len(whole["timeline"]["start"]) == len(STEP.timeline)
    assert whole["timeline"]["counters"][0]["unit"] == "B"
    head, line = to_csv(simulated_data(STEP)).splitlines()
    assert head.startswith("model,cluster,gpus,tp,pp")
    assert line.startswith("gpt-22b,selene (32 GPUs),32,8,4")


def test_links_are_drawn(tmp_path: Path) -> None:
    plot_links(STEP, tmp_path / "l.svg")
    svg = links_image(STEP, "svg")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert (tmp_path / "l.svg").read_bytes() == svg
    alone = replace(STEP, links=tuple(replace(use, rates={}) for use in STEP.links))
    labels = {text.get_text() for text in draw(links_figure(alone)).findobj(Text) if isinstance(text, Text)}
    assert "several kinds" in labels
    figure = draw(links_figure(STEP))
    figure.draw_without_rendering()
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert figure.bbox.x0 - 2 <= box.x0, text.get_text()
            assert box.x1 <= figure.bbox.x1 + 2, text.get_text()
            assert figure.bbox.y0 - 2 <= box.y0, text.get_text()
    with pytest.raises(TimelineError, match=r"ends in \.png or \.svg"):
        plot_links(STEP, tmp_path / "l.html")
    with pytest.raises(TimelineError, match="no link carried anything"):
        links_figure(replace(STEP, links=()))


def test_bytes_of_tensor_and_pipeline_parallelism_side_by_side() -> None:
    """The two formulas of lectures: 4 all-reduces of b s h a layer and micro-batch, 2 (t - 1) / t of which each rank
    sends; b s h / t from stage to stage. GPT of 24 layers, two stages, 16 micro-batches of one sequence, in bf16.
    """
    step = podsim.simulate("gpt-1.7b", on="dgx-a100:2", tp=4, pp=2, batch=32)
    activations, micro = 2 * 2048 * 2304, 16
    embedding = 1  # whose output is added up, too, on the first stage
    tensor = (4 * 24 // 2 + embedding) * micro * activations * 2 * 3 / 4
    head, *rows = [line.split() for line in report_text(simulated_report(step)).splitlines()[-5:] if line]
    assert head[-4:] == ["all", "pp", "dp", "tp"]
    assert rows[1][0] == "nvlink"
    assert float(rows[1][-2]) == pytest.approx(tensor / 1e9, rel=0.005)
    assert [float(cell) for cell in rows[0][1::2]] == pytest.approx(
        [micro * activations / 4 / 1e6] * 2, rel=1e-3
    )
    assert rows[0][0] == "adapter"
