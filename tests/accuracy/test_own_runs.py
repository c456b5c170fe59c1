"""Measured runs of the user: three small runs of a model correct its runs on four times the GPUs."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.accuracy.bands import residuals
from podsim.accuracy.own_runs import cause_shares, learn
from podsim.accuracy.price_llm import training_runs
from podsim.accuracy.tables import training_rows
from podsim.errors import PodsimError
from podsim.training.batch import step_cost
from podsim.training.step import SPLIT

Run = tuple[int, np.ndarray, float]  # GPUs, shares of causes, log(measured / law)
Scored = list[tuple[float, float]]  # errors of a model's large runs (share): corrected, by the law alone


def groups() -> list[tuple[list[Run], list[Run]]]:
    """(three smallest runs, runs on four times their GPUs and more) of each model in the calibrate rows.

    The law's ratio is that of constants fitted without the source of the row.
    """
    known = {row.id: row for row in residuals() if row.role == "calibrate"}
    rows = [row for row in training_rows() if row["id"] in known]
    by_model: dict[tuple[str, ...], list[Run]] = defaultdict(list)
    for position, run in training_runs(rows)[0]:
        row = known[rows[position]["id"]]
        cost = step_cost(run.model, run.cluster, run.plan)
        shares = cause_shares(dict(zip(SPLIT, cost.parts[:, 0].tolist(), strict=True)))
        key = (
            row.source,
            row.id.split("-")[0],
            rows[position]["model"],
            row.features.gpu,
            row.features.precision,
        )
        by_model[(*key, row.software)].append((row.gpus, shares, row.without_source.log_ratio))
    split = []
    for runs in by_model.values():
        runs.sort(key=lambda run: run[0])
        if far := [run for run in runs[3:] if run[0] >= 4 * runs[2][0]]:
            split.append((runs[:3], far))
    return split


def errors(split: list[tuple[list[Run], list[Run]]], causes: Callable[[list[Run]], np.ndarray]) -> Scored:
    scored = []
    for near, far in split:
        factors = np.exp(causes(near))
        fixed = np.mean([abs(np.expm1(np.log(shares @ factors) - ratio)) for _, shares, ratio in far])
        scored.append((float(fixed), float(np.mean([abs(np.expm1(-ratio)) for *_, ratio in far]))))
    return scored


def learned(near: list[Run]) -> np.ndarray:
    return learn(np.array([shares for _, shares, _ in near]), np.array([ratio for *_, ratio in near])).mean


def one_factor(near: list[Run]) -> np.ndarray:
    return np.full(3, near[0][2])


def test_three_small_runs_help_where_one_factor_does_less() -> None:
    split = groups()
    causes, factor = errors(split, learned), errors(split, one_factor)
    assert len(split) >= 12
    law = np.mean([alone for _, alone in causes])
    with_causes, with_factor = (np.mean([fixed for fixed, _ in scored]) for scored in (causes, factor))
    assert with_causes <= 0.046
    assert 0.06 <= with_factor < law
    assert sum(fixed > alone + 0.005 for fixed, alone in causes) <= 4


def test_runs_without_communication_leave_its_law() -> None:
    """A run that only computes, 4 % slow: noise 0.045 and spread 0.1 leave 1 / (1 + 0.45^2) = 0.832 of its logarithm."""
    told = learn(np.array([[1.0, 0.0, 0.0]]), np.array([0.04]))
    assert told.mean == pytest.approx([0.04 * 0.8316, 0.0, 0.0], rel=1e-4)
    assert np.sqrt(told.covariance[1, 1]) == pytest.approx(0.5)
    many = learn(np.array([[1.0, 0.0, 0.0]] * 100), np.full(100, 0.05))
    assert many.mean[0] == pytest.approx(0.05, rel=0.01)


def test_one_odd_run_does_not_decide() -> None:
    shares = np.array([[0.9, 0.1, 0.0]] * 3)
    assert abs(learn(shares, np.array([0.0, 0.0, 0.5])).mean[0]) < 0.05


def mine(path: Path, slowness: float) -> Path:
    """Three rows of the packaged table, `slowness` times what the law says."""
    rows = [row for row in training_rows() if row["id"] in ("LF-0003", "LF-0030", "LF-0047")]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for position, run in training_runs(rows)[0]:
            law = float(step_cost(run.model, run.cluster, run.plan).seconds[0])
            writer.writerow({**rows[position], "step_time_s": repr(slowness * law)})
    return path


def test_a_file_of_runs_corrects_a_prediction(tmp_path: Path) -> None:
    plan = {"on": "dgx-h100:16", "software": "llm-foundry-2023", "zero": 3}
    alone = podsim.predict("llama-2-13b", **plan)
    same = podsim.predict("llama-2-13b", runs=mine(tmp_path / "same.csv", 1.0), **plan)
    assert same.step_time == pytest.approx(alone.step_time)
    slow = podsim.predict("llama-2-13b", runs=mine(tmp_path / "slow.csv", 1.1), **plan)
    assert 1.05 < slow.step_time / alone.step_time < 1.1
    assert sum(slow.parts.values()) == pytest.approx(slow.step_time)
    assert slow.own_runs is not None
    assert slow.own_runs.moved == "compute"


def test_a_file_without_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("id,model\nmine,llama\n")
    with pytest.raises(PodsimError):
        podsim.predict("llama-2-13b", on="dgx-h100:1", runs=file)
    with pytest.raises(PodsimError, match="one of them"):
        podsim.predict("llama-2-13b", on="dgx-h100:1", runs=mine(tmp_path / "a.csv", 1.0), measured="3s")
