"""The HTML page: whole, well formed, self-contained, and escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from podsim.report import page
from podsim.results.comparison import Comparison

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
