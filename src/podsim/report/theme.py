"""Templates of pages, in one theme that is light or dark. A page needs no file next to it, and fetches nothing."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

from podsim.quoting import visible_lines
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.columns import markdown_text
from podsim.report.plot_acceptance import RED


def render_page(template: str, *, package: str = "podsim.report", **values: Any) -> str:
    """A template of a package's `templates/`, filled with values. Jinja2 escapes every value in HTML."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(package), PackageLoader("podsim.report")])
    is_html = template.endswith(".html")
    environment = Environment(loader=loader, autoescape=is_html, undefined=StrictUndefined)
    environment.filters["plain"] = markdown_text
    return visible_lines(environment.get_template(template).render(values))


def inline_svg(svg: bytes, prefix: str, label: str) -> Markup:
    """A plot as an element in the page's colours; `prefix` keeps its ids apart from those of other plots."""
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(BLUE, "var(--blue)")
    text = text.replace(MUTED, "var(--muted)").replace(RED.lower(), "#d55e00")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|"#|url\(#)', rf"\g<1>{prefix}-", text)
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1).rstrip())


def titled_figure(svg: bytes, label: str) -> Markup:
    """A plot below its title, as a figure of a page."""
    prefix = "".join(letter for letter in label if letter.isalpha())
    return Markup("<figure><figcaption>{}</figcaption>{}</figure>").format(
        label, inline_svg(svg, prefix, label)
    )
