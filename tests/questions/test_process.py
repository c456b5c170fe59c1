"""The program as a process: start-up, pipes, signals, terminals without Unicode."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PODSIM = [sys.executable, "-m", "podsim.cli"]


def test_help_names_every_command() -> None:
    done = subprocess.run([*PODSIM, "--help"], capture_output=True, text=True, check=True)
    for verb in ("show", "models", "clusters", "predict", "plan", "replay"):
        assert f"\n  {verb} " in done.stdout
    assert "..." not in done.stdout.partition("\n\n")[2].partition("\n\n")[2]


def test_a_reader_who_leaves_early_is_no_error() -> None:
    started = subprocess.Popen([*PODSIM, "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.close()
    _, problems = started.communicate(timeout=60)
    assert started.returncode == 0
    assert problems == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_is_a_message() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*PODSIM, "models"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "podsim: cannot write the result: No space left on device\n"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "t.json"
    done = subprocess.run(
        [*PODSIM, "simulate", "gpt2", "--on", "dgx-a100:1", "--batch", "8", "--timeline", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith(
        f"podsim: cannot write {path}: No such file or directory\n"
    )  # after its progress


def test_a_terminal_without_unicode() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    command = [*PODSIM, "predict", "gpt2", "--on", "dgx-a100-80gb:1", "--batch", "64"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert "????" in done.stdout


def _computing(process: subprocess.Popen[str]) -> bool:
    """Whether a command is past its start: numpy is loaded by verbs, not before."""
    try:
        return "_multiarray_umath" in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def test_interruption_ends_without_a_traceback() -> None:
    command = [*PODSIM, "plan", "deepseek-v3", "--on", "dgx-h100:64", "--batch", "5040"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 60
    while not _computing(started) and time.monotonic() < limit and started.poll() is None:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    printed, problems = started.communicate(timeout=120)
    assert "Traceback" not in problems
    if started.returncode == 0:
        assert "plans evaluated" in printed
    else:
        assert started.returncode == 130
        assert "interrupted" in problems


def test_an_interruption_while_modules_load_is_an_exit_status(tmp_path: Path) -> None:
    """Dataclasses are made by exec; `python -m` that was interrupted there ends by the signal, whatever was caught."""
    (tmp_path / "interrupted.py").write_text(
        "import sys\n"
        "import podsim.questions.machine.models\n"
        "from podsim.cli import main\n"
        "podsim.questions.machine.models.model_names = lambda: exec('raise KeyboardInterrupt')\n"
        "sys.argv = ['podsim', 'models']\n"
        "main()\n"
    )
    command = [sys.executable, "-m", "interrupted"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 130
    assert done.stderr == "\npodsim: interrupted\n"
