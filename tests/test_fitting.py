"""The one solver: constants behind made rows are found, within bounds, from any start, and the rest stay put."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from podsim.fitting import (
    Fit,
    Parameter,
    Values,
    fold_of,
    held_out,
    load_optimizer,
    solve,
    solve_by_search,
)

SIZES = np.geomspace(1e3, 1e9, 40)
TRUTH = {"latency": 5e-6, "rate": 2e9}
FIT = Fit(
    parameters={
        "latency": Parameter(start=1e-6, low=1e-7, high=1e-4, scale=1e-6),
        "rate": Parameter(start=1e9, low=1e8, high=1e11, is_log=True),
    },
    softness=0.05,
)


def residuals(values: Values) -> np.ndarray:
    seconds = TRUTH["latency"] + SIZES / TRUTH["rate"]
    return np.log((values["latency"] + SIZES / values["rate"]) / seconds)


def test_the_constants_behind_the_rows_are_found() -> None:
    pytest.importorskip("scipy")
    assert solve(FIT, residuals).values == pytest.approx(TRUTH, rel=1e-5)


def test_a_search_without_scipy_finds_them_too() -> None:
    found = solve_by_search(FIT.parameters, residuals)
    assert found.values == pytest.approx(TRUTH, rel=0.02)
    assert found.cost < 0.01


def test_values_stay_within_their_bounds() -> None:
    pytest.importorskip("scipy")
    bound = {**FIT.parameters, "rate": replace(FIT.parameters["rate"], high=1.5e9)}
    assert solve(replace(FIT, parameters=bound), residuals).values["rate"] <= 1.5e9 * (1 + 1e-9)


def test_what_the_rows_do_not_tell_stays_at_its_start() -> None:
    pytest.importorskip("scipy")
    idle = Parameter(start=0.7, low=0.0, high=1.0)
    fit = replace(FIT, parameters={**FIT.parameters, "idle": idle}, pull=1e-3)
    assert solve(fit, residuals).values["idle"] == pytest.approx(0.7)


def test_one_disturbed_row_hardly_counts() -> None:
    pytest.importorskip("scipy")
    disturbed = np.zeros(len(SIZES))
    disturbed[20] = 3.0
    found = solve(FIT, lambda values: residuals(values) + disturbed)
    assert found.values == pytest.approx(TRUTH, rel=0.02)


def test_of_several_starts_the_best_counts() -> None:
    """A valley at 1 and a deeper one at 9."""
    pytest.importorskip("scipy")

    def valleys(values: Values) -> np.ndarray:
        return np.array([min(abs(values["x"] - 1) + 0.5, abs(values["x"] - 9))])

    fit = Fit(parameters={"x": Parameter(start=1.5, low=0.0, high=10.0)}, softness=1.0)
    assert solve(fit, valleys).values["x"] == pytest.approx(1.0, abs=1e-3)
    both = replace(fit, other_starts=({"x": 8.0},))
    assert solve(both, valleys).values["x"] == pytest.approx(9.0, abs=1e-3)


def test_each_row_is_predicted_without_its_own_fold() -> None:
    sizes = np.repeat(np.arange(30.0), 2)
    fold = fold_of((sizes,), 5, 0)
    assert (fold[::2] == fold[1::2]).all()
    seen = held_out(fold, 5, lambda held: np.stack([sizes[held], np.full(held.sum(), (~held).sum())]))
    assert seen[0].tolist() == sizes.tolist()
    assert (seen[1] < len(sizes)).all()


@pytest.mark.parametrize("chosen", [None, "3"])
def test_loading_the_optimizer_leaves_the_environment_as_it_was(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", chosen)
    load_optimizer()
    assert os.environ.get("OPENBLAS_NUM_THREADS") == chosen


def test_the_optimizer_of_a_fresh_process_starts_no_threads() -> None:
    code = """
import os, numpy
from podsim.fitting import load_optimizer
threads = len(os.listdir("/proc/self/task"))
load_optimizer()
print(len(os.listdir("/proc/self/task")) - threads)
"""
    own = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ran = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == 0
