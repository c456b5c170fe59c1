"""Where no terminal shows a bar, long work says now and then how far it is, and the time that is left."""

from __future__ import annotations

import time

import pytest

from podsim.report import progress


def test_long_work_off_a_terminal_says_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    bar = progress._Bar("answering designs")
    bar.show()
    for done, now in ((1, 2.0), (2, 20.0), (3, 21.0)):
        clock[0] = now
        bar.update(done, 10)
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "podsim: answering designs …",
        "podsim: answering designs: 2 of 10, 80 s left …",  # 10 s each, and 8 to go
    ]
