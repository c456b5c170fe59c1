"""The site of the documents builds without a warning, and no page asks another host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=["']?(https?:)?//""")


def test_the_site_builds_and_is_self_contained(tmp_path: Path) -> None:
    environment = os.environ | {"PODSIM_SITE_STATIC": "1", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 55
    assert not [page for page in pages if "decisions" in page.parts]
    assert not [page.name for page in pages if LOADED.search(page.read_text("utf-8"))]
    assert "nvlink.bandwidth=200GB/s" in (tmp_path / "index.html").read_text("utf-8")
    titles = re.findall(r"^### (.+)$", (ROOT / "docs" / "accuracy.md").read_text("utf-8"), flags=re.M)
    index = (tmp_path / "accuracy.html").read_text("utf-8")
    tables = [page.read_text("utf-8") for page in (tmp_path / "accuracy").iterdir()]
    headings = [re.findall(r"<h1[^>]*>([^<]+)<", page) for page in tables]
    assert sorted(title for title in titles if [title] not in headings) == []
    assert len(titles) > 40
    assert index.count('href="accuracy/') >= len(titles)
    rooms = {path.name for path in (ROOT / "src" / "podsim").iterdir() if (path / "__init__.py").is_file()}
    house = (tmp_path / "reference" / "map.html").read_text("utf-8")
    assert not [room for room in rooms if f"<code>{room}</code>" not in house]
    for law in sorted((ROOT / "docs" / "laws").glob("*.md")):
        written, typeset = law.read_text("utf-8"), (tmp_path / "laws" / law.name).with_suffix(".html")
        if law.name != "README.md":
            assert typeset.read_text("utf-8").count("<math ") == written.count("```math"), law.name
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size < 12e6
    days = re.search(r"^    Days +(\S+ days)", (ROOT / "README.md").read_text("utf-8"), flags=re.M)
    assert days
    assert f"<dd>{days[1]}<p>" in (tmp_path / "index.html").read_text("utf-8")
