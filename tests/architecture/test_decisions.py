"""The decisions: at most forty that still bind, each with its status and its date, and all of them listed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
FORM = re.compile(
    r"# (\d{4})\. .+\n\n\*\*Status\*\*: (?:accepted|superseded)[^\n]*\. \*\*Date\*\*: (\d{4}-\d\d-\d\d)\.\n\n"
    r"\*\*What\.\*\* [^#]+\n\n\*\*Why\.\*\* [^#]+\n\n\*\*What it costs\.\*\* [^#]+"
)
NAMED = re.compile(r"decisions? *\(?(0\d{3})|decisions/(0\d{3})")


def test_at_most_forty_bind() -> None:
    assert len(PAGES) <= 40


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_decision_has_the_form_and_is_listed(page: Path) -> None:
    form = FORM.fullmatch(page.read_text("utf-8"))
    assert form, "title, status, date, what, why, what it costs"
    number, date = form.groups()
    assert page.name.startswith(number)
    rows = [
        line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if f"({page.name})" in line
    ]
    assert len(rows) == 1
    assert rows[0].endswith(f"| {date} |")


def test_no_text_names_a_decision_that_is_gone() -> None:
    known = {page.name[:4] for page in PAGES}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name in listed.splitlines():
        if name.endswith((".py", ".md", ".toml", ".yml", ".c", ".js")) and not name.startswith(
            ("docs/decisions", "CHANGELOG")
        ):
            path = ROOT / name
            for match in NAMED.finditer(path.read_text("utf-8") if path.exists() else ""):
                assert (match[1] or match[2]) in known, f"{name}: {match[0]}"
