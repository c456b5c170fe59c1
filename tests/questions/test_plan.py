"""`podsim plan`: the ranking, what it saves and replays, interruption, and the progress bar."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import Result

import podsim as library
from podsim.errors import NoFitError
from podsim.report.progress import bar

Run = Callable[..., Result]
SMALL = (
    "gpt-3.6b",
    "--on",
    "dgx-a100-80gb:1",
    "--batch",
    "64",
    "--limit",
    "flash=true",
    "--limit",
    "micro_batch=1,2,4",
)


def test_the_ranking_is_by_step_time_with_one_plan_a_layout() -> None:
    result = library.plan("gpt-3.6b", on="dgx-a100-80gb:2", batch=64, top=20)
    times = [one.prediction.step_time for one in result.ranked]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(times))
    layouts = [tuple(one.prediction.plan[n] for n in ("tp", "pp", "cp", "ep", "dp")) for one in result.ranked]
    assert len(set(layouts)) == len(layouts) == 20
    assert [one.rank for one in result.ranked] == list(range(1, 21))
    assert all(one.reason and one.prediction.fits for one in result.ranked)
    assert times[0] == pytest.approx(result.pareto[0].step_time, rel=1e-6)
    assert result.complete
    assert result.evaluated > result.fitting > 0


def test_tight_plans_are_listed_after_the_others() -> None:
    job = {"on": "dgx-a100-80gb:1", "batch": 64, "top": 4}
    free, roomy, wide = (library.plan("gpt-22b", headroom=room, **job) for room in (0, None, 0.3))
    assert not any(one.is_tight for one in free.ranked)
    for result, room in ((roomy, 0.08), (wide, 0.3)):
        tight = [one.prediction.memory * (1 + room) > one.prediction.memory_limit for one in result.ranked]
        assert tight == sorted(tight) == [one.is_tight for one in result.ranked]
        assert all(one.prediction.fits for one in result.ranked)
        assert all(one.reason.startswith("tight") == one.is_tight for one in result.ranked)
        assert result.ranked[-1].is_tight  # the fastest of all, which is listed last
        assert result.ranked[-1].prediction.step_time == pytest.approx(free.ranked[0].prediction.step_time)
        assert result.ranked[0].prediction.step_time > free.ranked[0].prediction.step_time


def test_headroom_is_a_share() -> None:
    with pytest.raises(library.PodsimError, match=r"headroom=-0.1: a share .* from 0 to below 1"):
        library.plan("gpt-3.6b", on="dgx-a100-80gb:1", batch=64, headroom=-0.1)


def test_by_memory() -> None:
    result = library.plan(
        "gpt-3.6b", on="dgx-a100-80gb:2", batch=64, objective="memory", limit={"flash": [True]}
    )
    sizes = [one.prediction.memory for one in result.ranked]
    assert sizes == sorted(sizes)
    assert sizes[0] == result.pareto[-1].memory


def test_limits_are_kept() -> None:
    limit = {"tp": (2, 4), "recompute": "full,selective", "zero": [1], "overlap_tp": [False]}
    result = library.plan("gpt-3.6b", on="dgx-a100-80gb:2", batch=64, limit=limit)
    for one in (*(r.prediction.plan for r in result.ranked), *(p.plan for p in result.pareto)):
        assert one["tp"] in (2, 4)
        assert one["recompute"] in ("full", "selective")
        assert one["zero"] == 1
        assert one["overlap_tp"] is False


def test_save_and_replay(podsim: Run, tmp_path: Path) -> None:
    first = podsim("plan", *SMALL, "--save", tmp_path / "a" / "b", "--json")
    assert first.exit_code == 0
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == [
        "experiment.toml", "job.sh", "job.yaml", "pareto.csv", "plans.csv", "plans.json", "run.sh",
    ]  # fmt: skip
    again = podsim("replay", tmp_path / "a" / "b" / "experiment.toml", "--json")
    one, two = json.loads(first.stdout), json.loads(again.stdout)
    assert one.pop("podsim")["units"]["ranked.prediction.band.low"] == "share"
    assert two.pop("podsim")
    kept = json.loads((tmp_path / "a" / "b" / "plans.json").read_text())
    assert kept.pop("podsim") == {"version": library.__version__}
    assert one == kept
    assert one.pop("seconds") > 0
    assert two.pop("seconds") > 0
    for each in (one, two):  # an experiment states the sequence
        each.pop("notes")
        for ranked in each["ranked"]:
            ranked["prediction"].pop("command")
    assert one == two
    rows = list(csv.DictReader((tmp_path / "a" / "b" / "plans.csv").read_text().splitlines()))
    assert [float(row["step_time"]) for row in rows] == [r["prediction"]["step_time"] for r in one["ranked"]]
    front = list(csv.DictReader((tmp_path / "a" / "b" / "pareto.csv").read_text().splitlines()))
    assert [float(row["memory"]) for row in front] == [p["memory"] for p in one["pareto"]]


def test_text_and_csv(podsim: Run) -> None:
    text = podsim("plan", *SMALL, "--top", "3", "-v").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "plans evaluated in" in text
    assert "Pareto front" in text
    rows = list(csv.DictReader(io.StringIO(podsim("plan", *SMALL, "--top", "3", "--csv").stdout)))
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert float(rows[0]["tokens_per_second"]) > float(rows[2]["tokens_per_second"])


def test_nothing_fits_is_an_answer(podsim: Run, tmp_path: Path) -> None:
    result = podsim("plan", "gpt3-175b", "--on", "dgx-a100-80gb:1", "--batch", "8", "--save", tmp_path / "x")
    assert result.exit_code == 1
    assert "none of" in result.stderr
    assert "the smallest needs" in result.stderr
    assert not (tmp_path / "x").exists()
    with pytest.raises(NoFitError, match="GPUs with more memory"):
        library.plan("gpt3-175b", on="dgx-a100-80gb:1", batch=8)


def test_interruption_gives_the_best_so_far() -> None:
    def stop(done: int, whole: int) -> None:
        if done > whole // 2:
            raise KeyboardInterrupt

    result = library.plan("gpt-3.6b", on="dgx-a100-80gb:2", batch=64, progress=stop)
    assert not result.complete
    assert result.ranked


def test_interruption_before_anything_was_evaluated(podsim: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("podsim.runs.search_case.search", stop)
    result = podsim("plan", *SMALL)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert result.stdout == ""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "after", "drawn"),
    [(_Terminal, 0.0, True), (_Terminal, 60.0, False), (io.StringIO, 0.0, False)],
)
def test_progress_bar(
    stream: type[io.StringIO], after: float, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = stream()
    monkeypatch.setattr("sys.stderr", out)
    with bar("searching", after=after) as update:
        update(25, 100)
        while not after and "searching" not in out.getvalue():
            time.sleep(0.001)  # another thread draws
        update(25, 100)
    assert ("25%" in out.getvalue()) == drawn
    assert out.getvalue().startswith("podsim: searching") == (stream is io.StringIO)
    assert out.getvalue().endswith("\033[2K") or not drawn, "the bar is not erased"


def test_days_and_tokens_without_gpus_take_the_fewest_that_make_it() -> None:
    job = {"on": "h100", "tokens": "20G", "days": "1", "limit": {"pp": [1], "recompute": ["none"]}}
    best = library.plan("llama-3.1-8b", **job)
    fewer = best.gpus - (8 if best.gpus > 8 else best.gpus // 2)
    run, slower = (
        result.ranked[0].prediction.training
        for result in (best, library.plan("llama-3.1-8b", **job, gpus=fewer))
    )
    assert run is not None
    assert slower is not None
    assert run.expected <= 86400 < slower.expected
    assert f"{best.gpus} are the fewest" in " ".join(best.notes)


def test_where_no_plan_fits_the_command_has_the_fewest_gpus_on_which_some_do(podsim: Run) -> None:
    said = podsim("plan", "llama-3.1-70b", "--on", "h100", "--gpus", "8").stderr
    least = int(said.split()[-1])
    assert said.splitlines()[-1] == f"try: podsim plan llama-3.1-70b --on h100 --gpus {least}"
    assert library.plan("llama-3.1-70b", on="h100", gpus=least, top=1).fitting > 0
    with pytest.raises(NoFitError):
        library.plan("llama-3.1-70b", on="h100", gpus=least - 8)


def test_saving_says_the_files_and_what_to_set_before_they_are_run(podsim: Run, tmp_path: Path) -> None:
    result = podsim("plan", *SMALL, "--save", tmp_path / "run")
    said = " ".join(result.stderr.split())
    for file in (tmp_path / "run").iterdir():
        assert file.name in said
    assert "run.sh: " in said
    assert "DATA" in said
