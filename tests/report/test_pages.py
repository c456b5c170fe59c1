"""HTML pages: whole, well formed, self-contained, and escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from made_timelines import simulated

import podsim
from podsim.answers.acceptance import Acceptance, Check, Curve, Part, Threshold
from podsim.answers.comparison import Comparison, Verdict
from podsim.answers.scheduled import ScheduleSheet
from podsim.report.pages import acceptance_page, page, schedule_page
from podsim.timeline.gantt_page import gantt_page

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Outline(HTMLParser):
    """Ids, links and unbalanced tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return parsed


def test_page_is_whole_and_needs_nothing_else(
    steps: Comparison, rates: Comparison, nothing: Comparison
) -> None:
    text = page([steps, rates, nothing])
    found = outline(text)
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert not re.search(r"<script|@import|<link", text)
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert text.count("<svg ") == 2
    assert text == page([steps, rates, nothing])


def test_page_shows_rows_reasons_and_sources(steps: Comparison, nothing: Comparison) -> None:
    text = page([steps, nothing], title="Accuracy & more")
    for expected in (
        "<title>Accuracy &amp; more</title>",
        "Steps of &lt;one&gt; paper, [bold]Table 1[/bold]",
        "ZeRO-3 &amp; &lt;offload&gt; is not modelled",
        "A paper &amp; its &lt;appendix&gt;",
        "test: MAE 4.7 %, n=3 · calibrate: MAE 5.0 %, n=1",
        "Rows (4), seconds per step",
        "Rows not expressed (6)",
        "No row of this table has a prediction.",
        "+10.0 %",
    ):
        assert expected in text


def test_plots_take_the_colours_of_the_page(steps: Comparison) -> None:
    svg = page([steps])
    svg = svg[svg.index("<svg") : svg.index("</svg>")]
    assert "currentColor" in svg
    assert "#1f2328" not in svg
    assert "var(--blue)" in svg


def test_an_empty_page() -> None:
    assert "<section" not in page([])
    outline(page([]))


HOSTILE = "<script>alert(1)</script>"


def test_every_cell_of_a_comparison_is_escaped(steps: Comparison) -> None:
    """A model that is named like a script stays text, wherever it stands."""
    group = replace(steps.scores[0].classes[0], name=HOSTILE, worst_id=HOSTILE)
    score = replace(steps.scores[0], classes=(group,), worst_id=HOSTILE)
    row = replace(steps.rows[0], id=HOSTILE, note=HOSTILE, group=HOSTILE)
    hostile = replace(
        steps, table=HOSTILE, title=HOSTILE, rows=(row, *steps.rows[1:]), sources=(HOSTILE,), scores=(score,),
        not_expressed=((f"{HOSTILE} 2", HOSTILE),),
    )  # fmt: skip
    bar = Verdict(
        table=HOSTILE,
        role="test",
        of=HOSTILE,
        rows=1,
        metric="mae",
        value=0.1,
        limit=0.2,
        met=True,
        note=HOSTILE,
    )
    text = page([hostile], [bar], title=HOSTILE)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 12
    outline(text)


def test_every_cell_of_an_acceptance_is_escaped() -> None:
    check = Check(
        group="storage", name=HOSTILE, unit="B/s", measured=1.0, expected=2.0, limit=None, threshold="", least=0.5,
        verdict="ok", why=HOSTILE, basis=HOSTILE, how=HOSTILE,
    )  # fmt: skip
    part = Part(name=HOSTILE, expected=HOSTILE, found=HOSTILE, verdict=HOSTILE, source="", why=HOSTILE)
    acceptance = Acceptance(
        machine=HOSTILE, expected=HOSTILE, started=HOSTILE, seconds=1.0, parts=(part,), checks=(check,),
        curves=(Curve(name=HOSTILE, over="size", over_unit="B", unit="B/s", measured=((1.0, 2.0), (2.0, 3.0))),),
        thresholds=(Threshold(name=HOSTILE, least=0.5, most=2.0, why=HOSTILE),), notes=(HOSTILE,),
    )  # fmt: skip
    text = acceptance_page(acceptance)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 15
    outline(text)


def test_a_schedule_and_a_timeline_are_escaped() -> None:
    sheet = replace(podsim.schedule("gpipe", pp=2, micro_batches=2), schedule=HOSTILE, source=HOSTILE)
    assert isinstance(sheet, ScheduleSheet)
    text = schedule_page(sheet)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 4
    outline(text)
    drawn = gantt_page(simulated().timeline, title=HOSTILE)
    assert HOSTILE not in drawn
    assert "&lt;script&gt;" in drawn
