"""What README.md and the documents say can be done, can be done."""

from __future__ import annotations

import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from golden_commands import recorded

from podsim.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)[^)]*\)")
CODE = re.compile(r"`((?:src|docs|tests|examples|benchmarks|scripts)/[\w./-]+)`")


def _commands() -> list[str]:
    """Every podsim command shown with a prompt, or at the end of a one-line set-up."""
    commands = []
    for document in DOCUMENTS:
        for line in document.read_text("utf-8").splitlines():
            if line.strip().startswith("$ podsim "):
                commands.append(line.strip().removeprefix("$ podsim "))
            elif line.startswith("    python3 -m venv") and "/bin/podsim " in line:
                commands.append(line.partition("/bin/podsim ")[2])
    return sorted(set(commands))


def _shown(command: str) -> list[str]:
    """The pieces of output that the README shows below a command; "…" stands for what it leaves out."""
    below = README.partition(f"podsim {command}\n")[2].partition("\n## ")[0].splitlines()
    shown = itertools.takewhile(lambda line: not line.startswith("    $ "), below)
    blocks = [line for line in shown if line.startswith("    ")]
    return [" ".join(piece.split()) for line in blocks for piece in line.split("…") if piece.strip()]


@pytest.mark.parametrize(
    "command",
    [command for command in _commands() if f"{command} --json" not in recorded() or _shown(command)],
)
def test_commands_work(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each from an empty directory; a replay runs what saves its experiment first. tests/golden runs the others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text('inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 16\n')
    if command.startswith("replay"):
        directory = command.split()[1].partition("/")[0]
        saved = next(saving for saving in _commands() if f"--save {directory}" in saving)
        assert CliRunner().invoke(app, shlex.split(saved)).exit_code == 0
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.stderr or "it does not fit"
    output = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for piece in _shown(command):
        assert any(piece in line for line in output), piece


def test_the_readme_has_two_commands_from_nothing() -> None:
    lines = [line.strip() for line in README.splitlines() if line.startswith("    python3 -m venv")]
    assert len(lines) == 2
    assert lines[0].endswith("/bin/podsim plan llama-3.1-8b --on h100 --gpus 64")
    assert lines[1].endswith("/bin/python -m pytest -n auto")
    assert lines[1] in (ROOT / ".ci" / "run").read_text("utf-8")
    assert len(README.splitlines()) <= 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text("utf-8")
    for target in [*LINK.findall(text), *(str(ROOT / path) for path in CODE.findall(text))]:
        assert (document.parent / target).exists(), target


def test_the_map_leads_somewhere() -> None:
    """Paths of CONTRIBUTING are those of the package or of the repository."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for path in re.findall(r"`((?:[\w.*-]+/)+[\w.*-]*|\w+\.(?:py|toml))`", text):
        places = [*ROOT.glob(path.strip("/")), *(ROOT / "src" / "podsim").glob(path.strip("/"))]
        assert places or path.startswith("changelog.d/"), path


def test_the_map_names_tables_that_exist() -> None:
    """As `RULES` in `training/rules.py`."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for name, path in re.findall(r"`([A-Z]+)` (?:in|of) `([\w/]+\.py)`", text):
        assert re.search(rf"(?m)^{name}\b", (ROOT / "src" / "podsim" / path).read_text("utf-8")), (
            f"{name} in {path}"
        )


def test_the_picture_is_the_layers() -> None:
    """The floors of CONTRIBUTING are those that import-linter holds; every room is in it, with files that exist."""
    picture = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    floors = [re.split(r" {2,}", line) for line in picture.splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert [floor[0] for floor in floors] == layers
    for path in (ROOT / "src" / "podsim").iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            floor = next(floor for floor in floors if path.name in floor[0].split(" | "))
            assert f"{path.name}/" in floor[2], "a file to begin with"
    for file in ", ".join(floor[2] for floor in floors if len(floor) > 2).split(", "):
        assert (ROOT / "src" / "podsim" / file).is_file(), file


def test_the_map_is_short() -> None:
    tasks = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| task |")[2].partition("\n\n")[0]
    assert len(tasks.splitlines()[2:]) <= 25
