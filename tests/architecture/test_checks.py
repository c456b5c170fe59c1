"""The checkers of the house run as tests, so that one command runs everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "src", "tests", "examples", "benchmarks", "scripts", "reference"],
        ["ruff", "format", "--check", "src", "tests", "examples", "benchmarks", "scripts", "reference"],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_checker(command: list[str]) -> None:
    done = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_readme_test_command() -> None:
    command = (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1]
    assert command in (ROOT / "README.md").read_text()


def test_modules_are_small() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count} lines"
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (count := len(path.read_text().splitlines())) > 400
    ]
    assert not long


def test_help_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pydantic", "matplotlib", "torch", "rich")
    code = f"import sys, podsim.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
