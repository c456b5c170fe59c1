"""A bug is said as a bug, in two lines and with exit status 70, wherever it happens; streams may be full or closed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import pytest

import podsim
from podsim.bugs import bug_report
from podsim.cli import main
from podsim.errors import PodsimError
from podsim.lab.processes import fork
from podsim.questions.train.study import study
from podsim.web.answering import answer
from podsim.web.worker_jobs import Job

SAID = re.compile(
    rf"podsim: a bug in podsim {re.escape(podsim.__version__)}: KeyError: 'tp'( at \w+\.py:\d+)?\n"
    r"podsim: please report it( at https://\S+)? with the command and what it prints under PODSIM_TRACEBACK=1\n"
)


def _broken(*_: object, **__: object) -> None:
    raise KeyError("tp")


def _ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["podsim", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_a_bug_of_a_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("podsim.questions.machine.models.model_names", _broken)
    assert _ended(monkeypatch, "models") == 70
    printed = capsys.readouterr()
    assert SAID.fullmatch(printed.err)
    assert printed.out == ""
    monkeypatch.setenv("PODSIM_TRACEBACK", "1")
    assert _ended(monkeypatch, "models") == 70
    assert capsys.readouterr().err.startswith("Traceback (most recent call last)")


def test_too_little_memory_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def greedy() -> None:
        raise MemoryError

    monkeypatch.setattr("podsim.questions.machine.models.model_names", greedy)
    assert _ended(monkeypatch, "models") == 2
    assert "more memory than there is" in capsys.readouterr().err


def test_a_bug_of_a_thread(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def threaded() -> tuple[()]:
        thread = threading.Thread(target=_broken)
        thread.start()
        thread.join()
        return ()

    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr("podsim.questions.machine.models.model_names", threaded)
    _ended(monkeypatch, "models")
    assert SAID.search(capsys.readouterr().err)


def test_a_bug_of_one_design_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podsim.studies.study_rows.with_run", _broken)
    asked = {
        "question": "predict",
        "common": {"model": "gpt2", "on": "dgx-a100:1"},
        "design": [{"name": "a"}],
    }
    with pytest.raises(PodsimError, match=r"a bug in podsim \S+: KeyError: 'tp' at \w+\.py:\d+"):
        study(asked, executor="serial")


def test_a_bug_of_a_worker_of_the_web(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("podsim.questions.train.predict.read_plan", _broken)
    reply = answer(Job(name="predict", given={"model": "gpt2", "on": "dgx-a100"}), lambda done, total: None)
    assert reply.status == 70
    assert "'tp'" not in reply.text  # the visitor reads no internals
    assert SAID.search(capsys.readouterr().err)


def test_a_bug_of_a_forked_rank(capfd: pytest.CaptureFixture[str]) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(fork(_broken), 0)[1]) == 1  # type: ignore[arg-type]
    assert SAID.search(capfd.readouterr().err)


def test_a_report_names_the_page_of_issues(monkeypatch: pytest.MonkeyPatch) -> None:
    page = metadata.metadata("podsim")
    page["Project-URL"] = "Issues, https://example.org/issues"
    monkeypatch.setattr("podsim.bugs.metadata", lambda name: page)
    assert "report it at https://" in bug_report(KeyError("tp"))


@pytest.mark.parametrize("words", ["--help", "--version", "help plan", "completion bash", "models"])
@pytest.mark.parametrize(("stdout", "status"), [("/dev/full", 2), ("", 0)], ids=["full", "closed"])
def test_a_stream_that_takes_nothing(words: str, stdout: str, status: int, tmp_path: Path) -> None:
    """A full disk is said, and is no bug; what a closed stream would get goes nowhere."""
    script = f'exec "$@" >{stdout}' if stdout else 'exec "$@" >&- <&-'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "podsim.cli", *words.split()]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr == ("podsim: cannot write the result: No space left on device\n" if status else "")
