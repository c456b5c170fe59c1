"""Pictures and words of long runs: they draw what the result says, also at its edges."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import podsim
from podsim.answers.quantiles import Quantiles
from podsim.answers.runs import Goodput
from podsim.report.derived import derived_report
from podsim.report.pictures import image_of
from podsim.report.run_tables import goodput_report
from podsim.report.screen import report_text
from podsim.units import duration

LIMIT = {"tp": "2", "micro_batch": "2"}


@pytest.fixture(scope="module")
def found() -> Goodput:
    return podsim.goodput("gpt-3.6b", on="dgx-a100-80gb:2", tokens="300G", batch=64, limit=LIMIT, runs=200)


def test_the_same_bytes_for_the_same_run(found: Goodput) -> None:
    one, two = image_of(found, "svg"), image_of(found, "svg")
    assert one == two
    for word in (b"Young", b"Daly", b"exact", b"in use", b"days to finish", b"training alone", b"90 %"):
        assert word in one


def test_png(found: Goodput) -> None:
    assert image_of(found, "png")[:8] == b"\x89PNG\r\n\x1a\n"


def test_runs_that_all_take_the_same_time_and_runs_that_never_end(found: Goodput) -> None:
    at = found.seconds.low
    same = replace(
        found, edges=(at, at), counts=(200,), seconds=Quantiles(low=at, median=at, mean=at, high=at)
    )
    assert b"days to finish" in image_of(same, "svg")
    never = Quantiles(low=at, median=math.inf, mean=math.inf, high=math.inf)
    lost = replace(found, seconds=never, edges=(), counts=())
    assert b"days to finish" in image_of(lost, "svg")
    assert "no end" in report_text(goodput_report(lost))


def test_an_interval_beyond_the_curve_is_not_drawn(found: Goodput) -> None:
    assert b"Young: " not in image_of(replace(found, young=found.curve[-1].interval * 2), "svg")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_the_terminal(found: Goodput, width: int) -> None:
    texts = [
        report_text(goodput_report(found), width),
        report_text(derived_report(found.checkpoint), width),
    ]
    assert all(len(line) <= max(width, 80) for text in texts for line in text.splitlines())
    assert "Where the time goes" in texts[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 s"), (0.812, "812 ms"), (119, "119 s"), (11124, "3.09 h"), (1480, "24.7 min"), (5e6, "57.9 d"),
     (1e9, "11,574 d"), (math.inf, "no end")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
