"""Where no terminal shows a bar, long work says each five seconds how far it is, and the time that is left."""

from __future__ import annotations

import time

import pytest

from podsim import packaged
from podsim.report import progress


def test_long_work_off_a_terminal_says_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    bar = progress._Bar("answering designs")
    bar.show()
    clock[0] = 20.0
    bar.update(2, 10)
    bar._say()
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "podsim: answering designs …",
        "podsim: answering designs: 2 of 10, 80 s left …",  # 10 s each, and 8 to go
    ]


@pytest.mark.parametrize("total", [10, 0])
def test_work_says_so_again_and_again(
    total: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PAUSE", 0.2)
    with progress.bar("answering", after=0.0) as update:
        update(1, total)
        time.sleep(0.55)
    said = capsys.readouterr().err.splitlines()
    assert 3 <= len(said) <= 4
    assert all(line.startswith("podsim: answering") for line in said)


def test_what_holds_other_threads_up_is_said_before(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("training", after=60.0):
        for _ in range(2):
            packaged.before_loading[0]()
    assert capsys.readouterr().err == "podsim: training …\n"
    assert not packaged.before_loading
