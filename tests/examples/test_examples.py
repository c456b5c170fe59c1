"""Every script of examples/ prints what stands beside it; PODSIM_REFRESH=1 writes it anew."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_prints_what_it_printed(
    script: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    printed = capfd.readouterr()
    assert printed.err == ""
    if os.environ.get("PODSIM_REFRESH"):
        script.with_suffix(".out").write_text(printed.out, "utf-8")
    assert printed.out == script.with_suffix(".out").read_text("utf-8")


def test_a_script_runs_alone() -> None:
    script = EXAMPLES / "recomputation.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (script.with_suffix(".out").read_text("utf-8"), "")


def test_every_output_has_its_script_and_is_listed() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.out")} == {path.stem for path in SCRIPTS}
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"`{path.name}`" in listed for path in SCRIPTS)
