"""`podsim workers`: what it says, as text and as data, and what it says of mistakes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.hardware.cluster import load_cluster
from podsim.network.nccl import Members, collective_seconds
from podsim.questions.train.predict import predict
from podsim.questions.train.workers import workers

Run = Callable[..., Result]
NUMBERS = ("--compute", "0.2", "--gradients", "500MB", "--workers", "8", "--bandwidth", "25GB/s")
SERVED = (*NUMBERS, "--exchange", "async")


def one(*arguments: str, **options: object) -> ExchangeRun:
    found = workers(*arguments, **options)  # type: ignore[arg-type]
    assert isinstance(found, ExchangeRun)
    return found


def test_a_ring_of_given_workers_by_hand(podsim: Run) -> None:
    """0.2 s, and 2 x 7/8 x 500 MB over 25 GB/s."""
    told = json.loads(podsim("workers", *NUMBERS, "--steps", 10, "--json").stdout)
    assert told["steps_per_second"] == pytest.approx(1 / (0.2 + 2 * 7 / 8 * 0.02), rel=1e-9)
    assert told["staleness"] == told["waiting"] == 0
    assert told["samples_per_second"] is None


def test_one_server_of_given_workers_by_hand(podsim: Run) -> None:
    """0.2 s, and 8 x 500 MB in and out at 25 GB/s."""
    shown = podsim("workers", *NUMBERS, "--exchange", "ps", "--samples", 32, "--steps", 10)
    assert shown.exit_code == 0
    assert "8 workers: 1 parameter server, all wait after every step" in shown.stdout
    assert f"{1 / 0.52:.4g} steps/s of a worker, {8 * 32 / 0.52:.4g} samples/s of all" in shown.stdout
    assert "none: the gradients of a round" in shown.stdout
    assert "pushes into a server   40 GB  30.8 %       30.8 %" in shown.stdout


def test_workers_of_a_plan_are_those_of_its_prediction() -> None:
    asked = {"on": "dgx-a100:2", "batch": 128, "micro_batch": 8}
    said = predict("gpt2", **asked)  # type: ignore[arg-type]
    run = one("gpt2", steps=5, **asked)
    assert run.workers == 16
    assert run.compute == pytest.approx(said.step_time - said.parts["dp"], rel=1e-12)
    assert 1 / run.steps_per_second > said.step_time  # nothing hides the exchange here
    assert run.samples_per_second == pytest.approx(128 * run.steps_per_second)
    assert (run.gradients, run.weights) == pytest.approx((4 * 124.4e6, 2 * 124.4e6), rel=1e-3)


def test_an_overlapped_exchange_comes_near_the_prediction() -> None:
    """The prediction leaves the last bucket exposed, this nothing; without overlap they are 11 % apart."""
    asked = {"on": "dgx-a100:4", "batch": 256, "micro_batch": 8}
    said = predict("gpt2-xl", **asked)  # type: ignore[arg-type]
    run = one("gpt2-xl", steps=5, overlap=0.6, **asked)
    assert 1 / run.steps_per_second == pytest.approx(said.step_time, rel=0.02)


def test_a_cluster_without_a_model_gives_its_collective_law() -> None:
    run = one(on="dgx-a100:2", compute=0.1, gradients="100MB", steps=4)
    cluster = load_cluster("dgx-a100:2")
    seconds = float(collective_seconds("all_reduce", 1e8, cluster, Members(ranks=16, ranks_per_node=8)))
    assert 1 / run.steps_per_second == pytest.approx(0.1 + seconds, rel=1e-9)


def test_replicas_of_a_node_exchange_as_one() -> None:
    asked = {"on": "dgx-a100:2", "batch": 128, "micro_batch": 8, "exchange": "ps", "steps": 10, "jitter": 0.2}
    apart, together = one("gpt2", **asked), one("gpt2", hierarchical=True, **asked)
    assert (together.workers, together.members) == (2, 8)
    assert together.links[0].bytes == pytest.approx(apart.links[0].bytes / 8, rel=1e-9)
    assert together.steps_per_second > apart.steps_per_second


def test_all_exchanges_side_by_side(podsim: Run, tmp_path: Path) -> None:
    picture = tmp_path / "tradeoff.svg"
    asked = ("workers", *NUMBERS, "--jitter", 0.2, "--steps", 40, "--servers", 4, "--compare")
    shown = podsim(*asked, "--plot", picture)
    assert shown.exit_code == 0
    lines = [line.split()[0] for line in shown.stdout.splitlines() if line.startswith("  ")]
    assert lines == ["bound", "all-reduce", "0", "1", "2", "4", "8", "none"]
    assert b"staleness" in picture.read_bytes()
    rows = list(csv.DictReader(io.StringIO(podsim(*asked, "--csv").stdout)))
    told = json.loads(podsim(*asked, "--json").stdout)["runs"]
    assert [float(row["idle"]) for row in rows] == [run["idle"] for run in told]
    assert [run["exchange"] for run in told] == ["bsp", "ps", "ssp", "ssp", "ssp", "ssp", "async"]
    assert len({run["compute"] for run in told}) == 1


def test_a_comparison_says_what_single_runs_say() -> None:
    asked = {
        "compute": 0.2,
        "gradients": 1e8,
        "workers": 4,
        "bandwidth": 1e10,
        "jitter": 0.3,
        "steps": 30,
        "servers": 2,
    }
    found = workers(compare=True, **asked)  # type: ignore[arg-type]
    assert isinstance(found, Tradeoff)
    alone = one(exchange="ssp", staleness=2, **asked)
    beside = next(run for run in found.runs if run.bound == 2)
    assert (alone.idle, alone.histogram) == (beside.idle, beside.histogram)


def test_a_timeline_is_written(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    done = podsim("workers", *SERVED, "--steps", 3, "--slow", "1=2", "--slow-link", "0=0.5", "--throttle", "2=1.3@1s",
                  "--timeline", path)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    names = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    assert {"compute", "push", "pull"} <= names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "workers is not given"),
        (("--workers", 0, "--compute", 1, "--gradients", 1, "--bandwidth", 1), "workers=0; there may be 1 to"),
        (("--workers", 4, "--gradients", 1, "--bandwidth", 1), "compute is not given; give it, as compute=0.2"),
        (("--workers", 4, "--compute", 1, "--gradients", 1), "bandwidth is not given"),
        ((*NUMBERS, "--compute", "nan"), "compute: cannot read 'nan'"),
        ((*NUMBERS, "--compute", "-1"), "compute=-1: it must be positive"),
        ((*NUMBERS, "--gradients", "5s"), "gradients: '5s' is in s"),
        ((*NUMBERS, "--jitter", "nan"), "jitter=nan; it must be from 0 to 2"),
        ((*NUMBERS, "--steps", 0), "steps=0; there may be 1 to"),
        ((*NUMBERS, "--seed", -1), "seed=-1; it must not be negative"),
        ((*NUMBERS, "--every", 7), "every=7: rounds of so many steps do not make 200"),
        ((*NUMBERS, "--overlap", 1.5), "overlap=1.5: a share of a step's compute, 0 to 1"),
        ((*NUMBERS, "--overlap", "nan"), "overlap=nan: a share"),
        ((*NUMBERS, "--samples", "inf"), "samples=inf"),
        ((*NUMBERS, "--exchange", "gossip"), "exchange='gossip' may be bsp, ps, ssp, async"),
        ((*NUMBERS, "--exchange", "ssp"), "exchange=ssp needs staleness"),
        ((*NUMBERS, "--exchange", "ssp", "--staleness", -1), "staleness=-1; it must be 0 or more"),
        ((*NUMBERS, "--staleness", 2), "staleness=2: only ssp has a bound"),
        ((*NUMBERS, "--servers", 2), "bsp adds up by all-reduce and has no server"),
        ((*SERVED, "--servers", 0), "servers=0; there may be 1 to"),
        ((*SERVED, "--servers", 9, "--beside"), "servers=9: 8 workers have room for one beside each"),
        ((*SERVED, "--beside", "--server-bandwidth", "1GB/s"), "server_bandwidth cannot be given"),
        ((*NUMBERS, "--slow", "8=1.5"), "slow worker 8: there are 0 to 7"),
        ((*NUMBERS, "--slow", "3=0"), "slow worker 3: 0 times as long"),
        ((*NUMBERS, "--slow", "x=2"), "--slow x: a worker is a number, such as 3=1.5"),
        ((*NUMBERS, "--slow-link", "3=1.5"), "slow link of worker 3: 1.5 of its bandwidth"),
        ((*NUMBERS, "--throttle", "3=1.3"), "expected FACTOR@TIME, such as 3=1.3@60s"),
        ((*NUMBERS, "--throttle", "3=0.5@0s"), "0.5 times as long when hot; it must be 1 or more"),
        ((*NUMBERS, "--compare", "--exchange", "async"), "compare simulates every exchange and bound"),
        ((*NUMBERS, "--plot", "a.png"), "--plot draws a comparison; give --compare, too"),
        ((*NUMBERS, "--compare", "--timeline", "a.png"), "--timeline is of one exchange"),
        ((*NUMBERS, "--compare", "--plot", "a.gif"), "give a name that ends in .png or .svg"),
        ((*NUMBERS, "--tp", 2, "--hierarchical"), "tp, hierarchical: of a model's plan, and no model is given"),
        ((*NUMBERS, "--set", "nodes=3"), "overrides change a model or a cluster; none is given"),
        ((*NUMBERS, "--on", "dgx-a100:2", "--workers", 17), "17"),
        (("gpt2",), "a model needs a cluster"),
        (("gpt2", "--on", "dgx-a100:2", "--workers", 4), "workers and samples follow from the model's plan"),
        (("gpt2", "--on", "dgx-a100:2", "--compute", 4), "follow from the model; give them, or a model"),
        (("gpt-1.7b", "--on", "dgx-a100:2", "--tp", 8, "--hierarchical"), "do not fill nodes of 8 with two or more"),
        (("gpt2", "--on", "dgx-a100:2", "--tp", 5), "tp"),
    ],
)  # fmt: skip
def test_mistakes(podsim: Run, arguments: tuple[object, ...], said: str) -> None:
    done = podsim("workers", *arguments)
    assert done.exit_code == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_all_mistakes_are_said_at_once(podsim: Run) -> None:
    done = podsim("workers", *NUMBERS, "--exchange", "ssp", "--servers", 0, "--slow", "3=-1")
    assert done.stderr.count(";") >= 3


def test_a_plan_that_does_not_fit_is_an_answer(podsim: Run) -> None:
    done = podsim("workers", "gpt3-175b", "--on", "dgx-a100:2", "--batch", 64)
    assert done.exit_code == 1
    assert "on its fullest stage" in done.stderr
