"""The inputs of long runs by hand: intervals in whole steps, tokens and days, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podsim.errors import NoFitError, PodsimError
from podsim.fleet.reliability import HORIZON
from podsim.storage.long_runs import (
    Asked,
    RunLength,
    check_ends,
    interval_of,
    mtbf_of,
    read_days,
    read_length,
    read_tokens,
    read_with,
    steps_of,
)


def times(stall: float, persist: float) -> Any:
    return SimpleNamespace(stall=stall, persist=persist)


@pytest.mark.parametrize(
    ("stall", "persist", "mtbf", "step", "seconds"),
    [
        (
            2.0,
            0.0,
            10_000.0,
            30.0,
            210.0,
        ),  # Young: (2 x 2 x 10,000)^0.5 = 200 s, 6.7 steps, at most 1 % longer
        (2.0, 299.0, 10_000.0, 30.0, 300.0),  # until the write before is complete
        (2.0, 300.0, 10_000.0, 30.0, 300.0),
        (2.0, 301.0, 10_000.0, 30.0, 330.0),
        (0.02, 0.0, 10_000.0, 300.0, 300.0),  # no less than a step
    ],
)
def test_the_best_interval_in_whole_steps(
    stall: float, persist: float, mtbf: float, step: float, seconds: float
) -> None:
    assert interval_of(Asked(), times(stall, persist), mtbf, step) == seconds


def test_an_interval_that_is_asked_for() -> None:
    assert interval_of(Asked(interval=30.0), times(2.0, 30.0), 1e4, 30.0) == 30.0
    with pytest.raises(PodsimError, match="shorter than a step of 30 s"):
        interval_of(Asked(interval=29.9), times(2.0, 0.0), 1e4, 30.0)
    with pytest.raises(PodsimError, match="complete only 31 s after"):
        interval_of(Asked(interval=30.0), times(2.0, 31.0), 1e4, 30.0)


def test_numbers_of_arguments() -> None:
    assert read_with({"mtbf": "2h", "restart": None, "slow": 3}, "s") == {
        "mtbf": 7200.0,
        "restart": None,
        "slow": 3.0,
    }
    with pytest.raises(
        PodsimError, match=r"mtbf=0: must be more than zero[^z]*restart=-1s: must be more than zero"
    ):
        read_with({"mtbf": 0, "restart": "-1s", "slow": "1s"}, "s")
    with pytest.raises(PodsimError, match="mtbf"):
        read_with({"mtbf": "often"}, "s")
    assert (read_tokens("300G"), read_tokens(5.0)) == (300e9, 5.0)
    with pytest.raises(PodsimError, match="tokens=0"):
        read_tokens(0.0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30 * 86400.0), (2.5, 2.5 * 86400), ("36h", 129600.0), ("1 day", 86400.0)]
)
def test_days(text: str | float, seconds: float) -> None:
    assert read_days(text) == seconds
    with pytest.raises(PodsimError, match="a run takes more than no time"):
        read_days(0)


def test_the_length_of_a_run() -> None:
    def length(train: str = "full", tokens: Any = None, days: Any = None) -> RunLength | None:
        return read_length(
            SimpleNamespace(train=train, tokens=tokens, days=days), SimpleNamespace(parameters=8e9)
        )  # type: ignore[arg-type]

    assert length() == RunLength(160e9, True, None)  # 20 a parameter
    assert length(days=2) == RunLength(160e9, True, 172800.0)
    assert length(tokens="1G", days="1h") == RunLength(1e9, False, 3600.0)
    assert length("lora:16") is None
    assert length("lora:16", days=1) == RunLength(160e9, True, 86400.0)
    assert RunLength(160e9, True).note.startswith("160 G tokens: 20 a parameter")
    assert RunLength(160e9, True, 5.0).note == RunLength(160e9).note == ""


def test_steps_hold_all_tokens() -> None:
    job: Any = SimpleNamespace(plan=SimpleNamespace(global_batch=4, length=lambda _: 1000.0), model=None)
    assert [steps_of(job, tokens) for tokens in (1, 4000, 4001, 8000)] == [1, 1, 2, 2]


def test_a_run_that_never_ends() -> None:
    run: Any = SimpleNamespace(work=1.0, restart=1.0, persist=1.0, interval=1.0, stall=1.0, mtbf=1.0)
    assert check_ends(run, HORIZON) == HORIZON
    with pytest.raises(NoFitError, match="needs 4 s without a failure"):
        check_ends(run, HORIZON * 1.001)


def test_failures_of_a_whole_job() -> None:
    cluster: Any = SimpleNamespace(nodes=10)
    assert mtbf_of(cluster, Asked(mtbf=5.0))[:2] == (5.0, 0.0)
