"""What README.md and the documents say can be done, can be done."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from podsim.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
CODE = re.compile(r"`((?:src|docs|tests|examples|benchmarks|scripts)/[\w./-]+)`")


def _commands() -> list[str]:
    """Every podsim command shown with a prompt, or at the end of a one-line set-up."""
    found = []
    for document in DOCUMENTS:
        for line in document.read_text("utf-8").splitlines():
            if line.strip().startswith("$ podsim "):
                found.append(line.strip().removeprefix("$ podsim "))
            elif line.startswith("    python3 -m venv") and "/bin/podsim " in line:
                found.append(line.partition("/bin/podsim ")[2])
    return sorted(set(found))


@pytest.mark.parametrize("command", _commands())
def test_commands_work(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from an empty directory; a replay runs what saves its experiment first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text('inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 16\n')
    if command.startswith("replay"):
        directory = command.split()[1].partition("/")[0]
        saved = next(one for one in _commands() if f"--save {directory}" in one)
        assert CliRunner().invoke(app, shlex.split(saved)).exit_code == 0
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.stderr or "it does not fit"


def test_the_readme_has_two_commands_from_nothing() -> None:
    lines = [line.strip() for line in README.splitlines() if line.startswith("    python3 -m venv")]
    assert len(lines) == 2
    assert lines[0].endswith("/bin/podsim plan llama-3.1-70b --on selene --gpus 512 --batch 1024")
    assert lines[1].endswith("/bin/python -m pytest -n auto")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text("utf-8")
    for target in [*LINK.findall(text), *(str(ROOT / path) for path in CODE.findall(text))]:
        assert (document.parent / target).exists(), target


def test_the_map_names_every_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for path in (ROOT / "src" / "podsim").iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            assert f"`{path.name}/`" in text, path.name
