"""`podsim goodput` and `podsim checkpoint`, `--tokens` of predict and plan: what they say, and what they refuse."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import podsim as library
from podsim.errors import NoFitError, PodsimError
from podsim.report.plain_data import to_json

Run = Callable[..., Result]
SMALL = (
    "gpt-3.6b",
    "--on",
    "dgx-a100-80gb:2",
    "--batch",
    "64",
    "--limit",
    "tp=2",
    "--limit",
    "micro_batch=2",
)
LIMIT = {"tp": "2", "micro_batch": "2"}
DAY = 86400.0


def long_run(**changes: object) -> library.verbs.goodput.Goodput:  # type: ignore[name-defined]
    given = {"tokens": "100G", "batch": 64, "limit": LIMIT, "runs": 400, "failures": "opt-175b"} | changes
    return library.goodput("gpt-3.6b", on="dgx-a100-80gb:2", **given)  # type: ignore[arg-type]


def test_it_adds_up() -> None:
    found = long_run()
    assert found.steps == math.ceil(100e9 / (64 * 2048))
    assert found.work == pytest.approx(found.steps * found.step_time)
    assert found.work < found.failure_free < found.seconds.mean
    assert sum(found.losses.values()) == pytest.approx(found.seconds.mean)
    assert found.expected == pytest.approx(found.seconds.mean, rel=0.01)
    assert found.seconds.low <= found.seconds.median <= found.seconds.high
    assert sum(found.counts) >= 0.98 * found.runs
    assert found.effective.mean == pytest.approx(found.work / found.expected, rel=0.01)
    assert found.mtbf == pytest.approx(DAY / (2 * 2 / 124))
    assert found.interval == pytest.approx(found.interval_steps * found.step_time)
    assert abs(found.interval - found.best) <= found.step_time
    assert max(found.curve, key=lambda point: point.efficiency).interval == pytest.approx(found.best, rel=0.1)
    assert found.spares == 1


def test_the_same_seed_the_same_words() -> None:
    one, same, other = (to_json(long_run(runs=50, seed=seed)) for seed in (3, 3, 4))
    assert one == same != other


def test_what_is_given_counts() -> None:
    found = long_run(step="2 s", interval="40min", mtbf="12h", restart="7min", spares=0, store="1 GB/s", slow=0.5,
                     found="5h", spread=0.2, runs=60)  # fmt: skip
    assert (found.step_time, found.interval, found.mtbf, found.restart) == (2.0, 2400.0, 43200.0, 420.0)
    assert (found.rate, found.spares, found.expected) == (0.0, 0, None)
    assert found.interval_steps == 1200
    assert found.losses["slow"] > 0
    assert found.losses["waiting"] > 0
    assert any("no spare node" in warning for warning in found.warnings)


def test_more_nodes_fail_more_often() -> None:
    few, many = (
        library.goodput("gpt-3.6b", on=f"dgx-a100-80gb:{nodes}", tokens="10G", batch=64, limit=LIMIT, runs=10)
        for nodes in (1, 4)
    )
    assert few.mtbf == pytest.approx(4 * many.mtbf)


def test_asynchronous_stalls_less_and_takes_as_long_to_be_complete() -> None:
    sync, late = (long_run(mode=mode, runs=20) for mode in ("sync", "async"))
    assert late.checkpoint.stall < 0.1 * sync.checkpoint.stall
    assert late.checkpoint.persist == pytest.approx(sync.checkpoint.stall, rel=0.01)
    assert late.interval >= late.checkpoint.persist
    assert late.efficiency > sync.efficiency


def test_one_interval_too_short_for_its_write() -> None:
    with pytest.raises(PodsimError, match="a checkpoint is complete only"):
        long_run(mode="async", interval="10s", store="100 MB/s")


def test_a_run_that_never_gets_ahead() -> None:
    with pytest.raises(NoFitError, match=r"does not get ahead: .* the job fails every 60 s"):
        long_run(mtbf="1min")


def test_checkpoint_says_what_goodput_uses() -> None:
    alone = library.checkpoint("gpt-3.6b", on="dgx-a100-80gb:2", batch=64, limit=LIMIT, failures="opt-175b")
    used = long_run(runs=10).checkpoint
    assert alone.size == used.size == pytest.approx(3.6e9 * 14, rel=0.02)
    assert alone.stall == used.stall == alone.write
    assert alone.interval == used.interval
    assert alone.share == pytest.approx(alone.stall / (alone.stall + alone.interval))
    assert alone.per_parameter == pytest.approx(14, rel=0.003)  # norms once for each of two ranks


# ---------------------------------------------------------------------------------------------- tokens of predict, plan


def test_predict_with_tokens() -> None:
    plain = library.predict("gpt-3.6b", on="dgx-a100-80gb:2", tp=2, batch=64)
    asked = library.predict("gpt-3.6b", on="dgx-a100-80gb:2", tp=2, batch=64, tokens="300G")
    assert plain.training is not None
    assert plain.training.tokens == pytest.approx(20 * 3.6e9, rel=0.02)
    run = asked.training
    assert run is not None
    assert run.seconds == pytest.approx(math.ceil(300e9 / (64 * 2048)) * plain.step_time)
    assert run.expected > run.seconds
    assert json.loads(to_json(asked))["training"]["tokens"] == 300e9


def test_predict_and_goodput_say_the_same_days() -> None:
    found = long_run(failures="", runs=10)
    limits = {"tp": "2", "micro_batch": "2"}
    ranked = library.plan("gpt-3.6b", on="dgx-a100-80gb:2", batch=64, limit=limits, tokens="100G").ranked
    run = ranked[0].prediction.training
    assert run is not None
    assert run.expected == pytest.approx(found.expected)
    assert run.seconds == pytest.approx(found.work)
    assert all(one.prediction.training for one in ranked)


def test_plan_with_tokens_prints_and_replays_days(podsim: Run, tmp_path: Path) -> None:
    saved = podsim("plan", *SMALL, "--tokens", "1T", "--save", tmp_path / "a", "--top", "2")
    assert saved.exit_code == 0
    assert "days with failures, " in saved.stdout
    again = podsim("replay", tmp_path / "a" / "experiment.toml", "--json")
    assert json.loads(again.stdout)["ranked"][0]["prediction"]["training"]["tokens"] == 1e12


def test_a_plan_that_does_not_fit_takes_no_days(podsim: Run) -> None:
    result = podsim(
        "predict", "gpt3-175b", "--on", "dgx-a100-80gb:1", "--batch", "8", "--tokens", "1G", "--json"
    )
    assert result.exit_code == 1
    assert "training" not in json.loads(result.stdout)


# ----------------------------------------------------------------------------------------------------- the terminal


def test_goodput_prints(podsim: Run) -> None:
    result = podsim("goodput", *SMALL, "--tokens", "100G", "--runs", "200")
    assert result.exit_code == 0
    for word in (
        "without failures",
        "effective time",
        "Young",
        "Daly",
        "exact",
        "rsc-1",
        "Assumptions",
        "PyTorch",
    ):
        assert word in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_checkpoint_prints(podsim: Run) -> None:
    for mode, words in (("sync", ("training waits", "reading back")), ("async", ("complete after",))):
        result = podsim("checkpoint", *SMALL, "--mode", mode, "--to", "neighbour")
        assert result.exit_code == 0
        assert all(word in result.stdout for word in words)


@pytest.mark.parametrize("verb", [("checkpoint",), ("goodput", "--tokens", "100G", "--runs", "50")])
def test_numbers(podsim: Run, verb: tuple[str, ...]) -> None:
    found = json.loads(podsim(verb[0], *SMALL, *verb[1:], "--json").stdout)
    size = (found.get("checkpoint") or found)["size"]
    row = next(csv.DictReader(io.StringIO(podsim(verb[0], *SMALL, *verb[1:], "--csv").stdout)))
    assert float(row.get("checkpoint.size") or row["size"]) == size > 1e9
    assert row["tp"] == "2"


def test_a_picture(podsim: Run, tmp_path: Path) -> None:
    done = podsim("goodput", *SMALL, "--tokens", "100G", "--runs", "50", "--plot", tmp_path / "run.svg")
    assert done.exit_code == 0
    assert "days to finish" in (tmp_path / "run.svg").read_text("utf-8")


BAD = {
    ("--tokens", "-3G"): "expected a number above 0",
    ("--tokens", "nan"): "tokens='nan': expected a number above 0",
    ("--tokens", "0"): "expected a number above 0",
    ("--tokens", "3 GB"): "expected a number",
    ("--interval", "0"): "interval=0: must be more than zero",
    ("--interval", "-3 min"): "interval=-3 min: must be more than zero",
    ("--interval", "1 ms"): "interval=1 ms: shorter than a step",
    ("--interval", "soon"): "such as '5 us'",
    ("--mtbf", "0 h"): "mtbf=0 h: must be more than zero",
    ("--step", "-1s"): "step=-1s: must be more than zero",
    ("--restart", "3 B"): "restart",
    ("--spares", "-1"): "spares=-1 must be a whole number, 0 or more",
    ("--slow", "nan"): "slow=nan must be a finite number, between 0 and 1",
    ("--slow", "1.5"): "slow=1.5",
    ("--found", "3h"): "no node is slow",
    ("--spread", "-1"): "spread=-1",
    ("--spread", "nan"): "spread=nan",
    ("--runs", "0"): "runs=0 must be a whole number, 1 or more",
    ("--runs", "9999999999"): "at most 1,000,000",
    ("--seed", "-1"): "seed=-1",
    ("--store", "cupboard"): "unknown store 'cupboard'",
    ("--store", "-3GB/s"): "no bandwidth",
    ("--to", "local"): "takes its drives along",
    ("--to", "moon"): "to='moon' may be store, neighbour, local",
    ("--mode", "later"): "mode='later' may be sync, async",
    ("--writers", "me"): "writers='me' may be all, replica",
    ("--failures", "murphy"): "unknown study of failures 'murphy'",
    ("--limit", "tp=3"): "no plan on 16 GPUs",
    ("--plot", "run.gif"): "ends in .svg or .png",
}


@pytest.mark.parametrize("given", BAD, ids=" ".join)
def test_misuse(podsim: Run, given: tuple[str, str]) -> None:
    tokens = () if given[0] == "--tokens" else ("--tokens", "100G")
    result = podsim("goodput", "gpt-3.6b", "--on", "dgx-a100-80gb:2", "--batch", "64", *tokens, *given)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert BAD[given] in result.stderr
    assert len(result.stderr) < 3000


def test_no_nodes_and_all_mistakes_at_once(podsim: Run) -> None:
    none = podsim("goodput", "gpt-3.6b", "--on", "dgx-a100-80gb:0", "--tokens", "1G")
    assert none.exit_code == 2
    both = podsim("goodput", *SMALL, "--tokens", "-1", "--interval", "0", "--mtbf", "x")
    assert both.exit_code == 2
    alone = podsim("goodput", *SMALL, "--tokens", "1G", "--interval", "0", "--mtbf", "x", "--step", "-2s")
    assert all(word in alone.stderr for word in ("interval=0", "mtbf", "step=-2s"))


def test_no_is_an_answer(podsim: Run) -> None:
    for given in (("--mtbf", "10s"), ("--limit", "zero=0", "--set", "gpu.memory=1GB")):
        result = podsim("goodput", *SMALL, "--tokens", "100G", *given)
        assert result.exit_code == 1, result.stderr
        assert result.stderr.startswith("podsim: ")


def test_predict_refuses_tokens(podsim: Run) -> None:
    for verb in ("predict", "plan"):
        result = podsim(verb, "gpt-3.6b", "--on", "dgx-a100-80gb:1", "--batch", "64", "--tokens", "-3")
        assert result.exit_code == 2
        assert "tokens='-3': expected a number above 0" in result.stderr
