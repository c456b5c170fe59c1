"""Plan files: what a search saved, and what was written for a tool, asks the same question again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

import podsim as api
from podsim.errors import LabError, PodsimError
from podsim.launching.plan_file import read_plan_file, with_plan
from podsim.options.measure_options import TrainOptions
from podsim.questions.operate.compare import check_plan

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    api.plan("gpt2-large", on="dgx-h100:2", batch=64, overrides={"gpu.memory": "70GB"}, save=folder)
    return folder


@pytest.mark.parametrize("name", ["experiment.toml", "plans.json", "job.sh", "run.sh", "job.yaml", ""])
def test_every_saved_file_is_the_best_plan(saved: Path, name: str) -> None:
    best = json.loads((saved / "plans.json").read_text())["ranked"][0]["prediction"]
    again = api.predict(plan=str(saved / name))
    assert again.plan == best["plan"]
    assert (again.step_time, again.memory_limit) == (best["step_time"], best["memory_limit"])


def test_a_plan_of_the_ranking(saved: Path, podsim: Run) -> None:
    third = json.loads((saved / "plans.json").read_text())["ranked"][2]["prediction"]
    made = podsim("predict", "--plan", f"{saved / 'plans.json'}#3", "--json")
    assert json.loads(made.stdout)["plan"] == third["plan"]


def test_options_change_the_plan_of_a_file(saved: Path) -> None:
    file = str(saved)
    assert api.predict(plan=file, gpus=8).gpus == 8
    assert api.predict(plan=file, tp=2, cp=2).plan["dp"] == 4
    assert (
        api.predict(plan=file, overrides={"gpu.memory": "75GB"}).memory_limit
        > api.predict(plan=file).memory_limit
    )


def test_other_questions_take_it(saved: Path) -> None:
    file = str(saved / "experiment.toml")
    wanted = api.predict(plan=file)
    assert api.goodput(plan=file, tokens="10G", runs=10).plan == wanted.plan
    assert api.simulate(plan=file).plan == wanted.plan
    assert api.launch(plan=file).plan == wanted.plan
    with pytest.raises(PodsimError, match="give one of them"):
        api.goodput(plan=file, tokens="10G", limit={"tp": "8"})


def test_a_plan_that_a_user_writes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('model = "gpt-tiny"\non = "dgx-a100:1"\nbatch = 32\n[plan]\ntp = 2\nrecompute = "full"\n')
    plan = api.predict(plan=str(file)).plan
    assert (plan["tp"], plan["dp"], plan["recompute"], plan["global_batch"]) == (2, 4, "full", 32)
    given = with_plan(TrainOptions, {"plan": str(file), "batch": 4})
    assert given == {"plan": str(file), "model": "gpt-tiny", "batch": 4, "tp": 2, "recompute": "full"}
    file.write_text(file.read_text() + "cp = 2\n")
    with pytest.raises(PodsimError, match="cp=2, which this question cannot have"):
        with_plan(TrainOptions, {"plan": str(file)})


def test_a_measured_run_is_compared_with_its_own_plan(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('model = "gpt-tiny"\non = "dgx-a100:1"\n[plan]\ntp = 2\n')
    run = SimpleNamespace(plan={"tp": 1, "pp": 1})
    with pytest.raises(LabError, match="tp=1 in run, tp=2 in"):
        check_plan(run, "run", str(file))  # type: ignore[arg-type]


WRONG = {
    "a.toml": ('model = "gpt2"\non = "dgx-a100:1"\nobjective = "time"\n', "no plan"),
    "b.toml": ('model = "gpt2"\non = "dgx-a100:1"\n[plan]\ntpp = 2\n', "did you mean tp"),
    "c.toml": ('model = "gpt2"\non = "dgx-a100:1"\n[plan]\ntp = "2"\n', "tp='2' must be a whole number"),
    "d.json": ('{"ranked": [1], "arguments": {}}', "not a ranking"),
    "e.sh": ("echo hello", "starts no training"),
    "f.sh": ('torchrun --nproc-per-node 8 pretrain_gpt.py --micro-batch-size 1\n# podsim: {"tp": [1]}', "tp=a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_file_without_a_plan_says_so(tmp_path: Path, podsim: Run, name: str) -> None:
    text, reason = WRONG[name]
    (tmp_path / name).write_text(text)
    made = podsim("predict", "--plan", tmp_path / name)
    assert made.exit_code == 2
    assert reason in made.stderr


def test_a_number_that_the_ranking_lacks(saved: Path) -> None:
    with pytest.raises(PodsimError, match="#1 to #5 would work"):
        read_plan_file(f"{saved / 'plans.json'}#9")


def test_what_does_not_fit_is_written_by_force_only(podsim: Run) -> None:
    large = ("launch", "llama-3.1-70b", "--on", "dgx-h100:1")
    refused, forced = podsim(*large), podsim(*large, "--force")
    assert (refused.exit_code, forced.exit_code) == (1, 0)
    assert "podsim plan llama-3.1-70b" in refused.stderr
    assert "written by force" in forced.stderr
    illegal = ("launch", "gpt2", "--on", "dgx-h100:1", "--tp", "8", "--batch", "8")
    refused, forced = podsim(*illegal), podsim(*illegal, "--force")
    assert (refused.exit_code, forced.exit_code) == (2, 0)
    assert "--tensor-model-parallel-size 8" in forced.stdout
