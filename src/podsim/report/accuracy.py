"""docs/accuracy.md: how right the predictions are, table by table, beside what is known of other tools."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from podsim.report.figures import by_reason, percent, ratio, signed_percent, worst
from podsim.report.verdicts import VERDICT_COLUMNS, met_line, verdict_cells
from podsim.results.comparison import Comparison, Score, Verdict

ORIGINS = {
    "published": "as published by the tool's authors",
    "either": "as published, or as measured by the podsim developers on the same reference rows",
    "none": "no figure known",
}
_READING = """\
Errors are relative: predicted / measured - 1. Constants of the model may be fitted on rows marked `calibrate`
and on no others; rows marked `test` are only reported. The two never share a figure. Of rows that do not state their
micro-batch podsim predicts the fastest plan that fits among those the row leaves open (of rates without a batch, at
the batch that `podsim plan` takes by default); each says what was chosen (`--json`, `--html`), and nothing is fitted to
them.

| column | is |
|---|---|
| MAE | mean of the absolute errors |
| median, p95 | median and 95th percentile of the absolute errors |
| bias | mean of the signed errors: above 0, predictions are too high |
| tau-b | Kendall's rank correlation within sweeps (plans for the same work); 1 is the measured order |
| regret | measured cost of the plan predicted best over the least measured, mean over sweeps; 1 is perfect |
| skill | 1 - MAE / MAE of the best single efficiency constant (chosen on the rows named); above 0 beats it |
"""
_OTHERS = """\
Step times of real runs unless the row says otherwise. The sets differ from tool to tool, and a figure on rows
that a tool was tuned on is a fit: read no ranking into this table. None of these figures is recomputed by
podsim's tests.
"""
_COLUMNS = (
    "table",
    "rows",
    "MAE",
    "median",
    "bias",
    "p95",
    "worst row",
    "sweeps",
    "tau-b",
    "regret",
    "skill",
    "against",
)


@dataclass(frozen=True, kw_only=True)
class PublishedError:
    """The mean error of another tool (a share; from `error` to `error_to` if a range), and who says so."""

    tool: str
    on: str
    """the rows it was held against"""
    origin: str
    """a key of ORIGINS"""
    note: str
    error: float | None = None
    error_to: float | None = None

    @property
    def text(self) -> str:
        """The error as a percentage or a range of them."""
        if self.error is None:
            return "not known"
        low = f"{self.error * 100:g}"
        return f"{low} %" if self.error_to is None else f"{low} to {self.error_to * 100:g} %"


def published_errors() -> tuple[PublishedError, ...]:
    """What is known of other tools; an assert fails on a figure without an origin or a note."""
    text = files(__package__).joinpath("published.toml").read_text("utf-8")
    figures = tuple(PublishedError(**figure) for figure in tomllib.loads(text)["figure"])
    for figure in figures:
        assert figure.origin in ORIGINS, f"{figure.tool}: unknown origin {figure.origin!r}"
        assert figure.note, f"{figure.tool}: no note"
        assert (figure.error is None) == (figure.origin == "none"), figure.tool
    return figures


def accuracy_page(
    comparisons: Sequence[Comparison], verdicts: Sequence[Verdict] = (), *, unknown: str = ""
) -> str:
    """Markdown of the whole page; the same text for the same comparisons.

    `unknown` is Markdown that says what the model does not know.
    """
    parts = ["# Accuracy\n", _READING]
    if verdicts:
        left = ("table", "role", "class", "figure", "met")
        lines_of = _markdown(VERDICT_COLUMNS, verdict_cells(verdicts), left=left)
        parts += ["## Bars\n", f"{met_line(verdicts)}\n", lines_of]
    for role, heading in (
        ("test", "Rows that nothing was fitted on (`test`)"),
        ("calibrate", "Rows that constants may be fitted on (`calibrate`)"),
    ):
        lines = [_score_line(c, score) for c in comparisons if (score := c.score(role)) is not None]
        if lines:
            parts += [f"## {heading}\n", _markdown(_COLUMNS, lines, left=("table", "worst row", "against"))]
    parts += [_breakdowns(comparisons), _not_expressed(comparisons), unknown]
    parts += ["## Other tools\n", _OTHERS, _others(), _sources(comparisons)]
    return "\n".join(part for part in parts if part)


def _score_line(comparison: Comparison, s: Score) -> tuple[str, ...]:
    """Cells of _COLUMNS."""
    basis = s.skill_basis if s.skill is not None else "-"
    return (
        f"{comparison.title} (`{comparison.table}`, {comparison.what})",
        str(s.rows), percent(s.mae), percent(s.median), signed_percent(s.bias), percent(s.p95), worst(s),
        str(s.sweeps) if s.sweeps else "-", ratio(s.tau), ratio(s.regret), ratio(s.skill), basis,
    )  # fmt: skip


def _markdown(columns: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[str]) -> str:
    """A Markdown table; columns not in `left` are aligned to the right."""
    rule = ["---" if column in left else "---:" for column in columns]
    cells = [[_plain(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in [list(columns), rule, *cells])


def _plain(text: str) -> str:
    """Text that Markdown does not take for a tag or a line break."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")


def _breakdowns(comparisons: Sequence[Comparison]) -> str:
    """Errors by class of the test rows, for tables with more than one class."""
    parts = []
    for comparison in comparisons:
        score = comparison.score("test")
        if score is None or len(score.classes) < 2:
            continue
        lines = [
            (
                c.name,
                str(c.rows),
                percent(c.mae),
                signed_percent(c.bias),
                f"{c.worst_id} {signed_percent(c.worst_error)}",
            )
            for c in score.classes
        ]
        table = _markdown(("class", "rows", "MAE", "bias", "worst row"), lines, left=("class", "worst row"))
        parts.append(f"### {_plain(comparison.title)}\n\n{table}")
    return "\n".join(["## By class (`test` rows)\n", *parts]) if parts else ""


def _not_expressed(comparisons: Sequence[Comparison]) -> str:
    """How many rows have no prediction, by table and reason, with the first ids."""
    lines = []
    for comparison in comparisons:
        ids = by_reason(comparison.not_expressed)
        for reason, count in Counter({reason: len(found) for reason, found in ids.items()}).most_common():
            first = ", ".join(ids[reason][:4]) + (", …" if count > 4 else "")
            lines.append((f"`{comparison.table}`", str(count), reason, first))
    if not lines:
        return ""
    table = _markdown(("table", "rows", "reason", "ids"), lines, left=("table", "reason", "ids"))
    return f"## Rows not expressed\n\nThese rows are in no figure above.\n\n{table}"


def _others() -> str:
    """Table of the published errors of other tools."""
    lines = [(f.tool, f.text, f.on, ORIGINS[f.origin], f.note) for f in published_errors()]
    columns = ("tool", "error", "on", "where the figure comes from", "note")
    return _markdown(columns, lines, left=("tool", "on", "where the figure comes from", "note"))


def _sources(comparisons: Sequence[Comparison]) -> str:
    """Sources of each table."""
    named: Mapping[str, tuple[str, ...]] = {c.table: c.sources for c in comparisons if c.sources}
    if not named:
        return ""
    lines = [f"- `{table}`: {_plain(_first(sources))}\n" for table, sources in named.items()]
    return "## Sources\n\n" + "".join(lines)


def _first(sources: Sequence[str]) -> str:
    """The first dozen sources, and how many more there are."""
    more = f"; and {len(sources) - 12} more, named in the packaged table" if len(sources) > 12 else ""
    return "; ".join(sources[:12]) + more
