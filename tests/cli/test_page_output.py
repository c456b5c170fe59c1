"""`--html` writes an answer as one page that is safe, self-contained, and says what the terminal says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from podsim.cli import app
from podsim.report.chart_marks import Axis, Bars, Chart, Rule, Series
from podsim.report.charts import page_chart
from podsim.report.columns import Column, Table
from podsim.report.report_page import report_page
from podsim.report.screen import Paragraph, Rows, bold

PREDICT = "predict llama-3.1-8b --on dgx-a100:2 --tp 4 --pp 2 --batch 32"


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        (PREDICT, ["Where the step goes", "Memory by stage", "stage 0, weights:"]),
        ("plan gpt2 --on dgx-a100:1 --batch 64 --limit micro_batch=1", ["Pareto front", "tp=1"]),
        ("show selene --fabric", ["data:image/svg+xml"]),
        ("mig show a100-40gb 3g,2g,1g", ["Slices", "3g.20gb"]),
        ("models", ["llama-3.1-8b"]),
    ],
)
def test_a_page_says_what_the_terminal_says(command: str, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = CliRunner().invoke(app, [*command.split(), "--html", str(path)])
    assert result.exit_code == 0, result.stderr
    page = path.read_text("utf-8")
    assert len(page) < 1_500_000
    assert f"$ podsim {command}<" in page.replace("$ root", "$ podsim")
    for text in texts:
        assert text in page, text
    assert not re.search(r"<script|(?:src|href)=.https?:|url\(http", page)
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_needs_a_name_and_a_folder(tmp_path: Path) -> None:
    for name in ("page.txt", "missing/page.html"):
        result = CliRunner().invoke(app, ["models", "--html", str(tmp_path / name)])
        assert result.exit_code == 2
        assert name.rpartition("/")[2] in result.stderr


def test_text_is_escaped_and_blocks_keep_their_kind() -> None:
    table = Table(Column("name"), Column("share", "share", "bar"))
    report = [
        bold("<b>title"), "", "text", Paragraph("care", "warning"), Paragraph("one", first="- "),
        Rows(table, [{"name": "<i>", "share": 0.25}, "a note"], marked=0), bold("end"),
    ]  # fmt: skip
    page = report_page(report, command="podsim <x>")
    assert "<h1>&lt;b&gt;title</h1>" in page
    assert '<p class="warning">care</p>' in page
    assert "<ul><li>one</li></ul>" in page
    assert '<rect width="0.25"' in page
    assert "<h2>end</h2>" in page
    assert "<i>" not in page
    assert "<x>" not in page


def test_bars_add_up_and_end_at_their_limit() -> None:
    bars = (
        Bars([1.0, 2.0], "x"),
        Bars([3.0, 0.0], "y", starts=[1.0, 2.0]),
        Bars([0.0, 0.0], "z", starts=[4.0, 2.0]),
    )
    drawn = page_chart(Chart([*bars, Rule(5.0, "limit")], "memory", Axis(text=str), Axis(names=["a", "b"])))
    chart = ElementTree.fromstring(str(drawn))
    rows = {each.findtext("title"): each for each in chart.iter("rect") if each.find("title") is not None}
    widths = {name: float(each.attrib["width"]) for name, each in rows.items()}
    assert widths["a, y: 3.0"] == pytest.approx(3 * widths["a, x: 1.0"], abs=0.3)
    assert float(rows["a, y: 3.0"].attrib["x"]) - float(rows["a, x: 1.0"].attrib["x"]) == pytest.approx(
        widths["a, x: 1.0"], abs=0.3
    )
    limit = next(each for each in chart.iter("line") if each.attrib["class"] == "limit")
    start = min(float(each.attrib["x"]) for each in rows.values())
    assert float(limit.attrib["x1"]) - start == pytest.approx(5 * widths["a, x: 1.0"], abs=0.3)
    assert not [name for name in widths if name and ", z" in name]


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_points_stay_within_the_axes_for_any_spread(scale: str) -> None:
    for values in ([1.0], [1.0, 1.0001], [1e-6, 1e9], [3.0, 4.0, 5.0]):
        series = Series(values, values, "&", notes=["&"] * len(values))
        drawn = page_chart(Chart([series], "p", Axis("x", scale), Axis("y", scale)))
        circles = list(ElementTree.fromstring(str(drawn)).iter("circle"))
        assert len(circles) == len(values)
        assert all(96 <= float(each.attrib["cx"]) <= 696 for each in circles)


def test_a_page_says_the_answer_before_its_charts(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = "plan gpt2 --on dgx-a100-80gb --limit tp=1 --tokens 10G --html"
    assert CliRunner().invoke(app, [*words.split(), str(path)]).exit_code == 0
    first, charts = path.read_text("utf-8").split("<figure>", 1)
    for name in ("Layout: ", "Step: ", "Memory: ", "Days: ", "Money: "):
        assert f"<li>{name}" in first, name
    assert charts.index("</figure>") < charts.index("<details>")
