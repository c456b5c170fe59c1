"""The commands: what they print, and what they answer to wrong input."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

import podsim
from podsim.cli import app

RUN = CliRunner()


def call(*arguments):
    result = RUN.invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_text_json_csv_and_function_agree():
    text = call("queue", "philly-3", "--on", "8x8", "--policy", "srtf", "--policy", "fifo")
    assert text.exit_code == 0
    assert "992 jobs of philly-3 on 8 nodes of 8 GPUs" in text.stdout
    assert "Shortest mean completion time: srtf" in text.stdout
    said = json.loads(call("queue", "philly-3", "--on", "8x8", "--policy", "srtf", "--json").stdout)
    rows = list(
        csv.DictReader(
            io.StringIO(call("queue", "philly-3", "--on", "8x8", "--policy", "srtf", "--csv").stdout)
        )
    )
    found = podsim.queue("philly-3", on="8x8", policy=["srtf"])
    assert said["runs"][0]["jct_mean"] == float(rows[0]["jct_mean"]) == found.runs[0].jct_mean
    assert said["jobs"] == len(found.runs[0].jct) == 992


def test_figures_of_a_run_by_hand(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,submit,gpus,seconds,user\na,0,4,100,u\nb,10,2,50,v\n", "utf-8")
    run = podsim.queue(str(path), on="4", policy=["fifo"]).runs[0]
    assert (run.jct_mean, run.wait_mean, run.makespan) == (120.0, 45.0, 150.0)
    assert run.utilisation == pytest.approx(500 / 600)
    assert [(user.user, user.used, user.slowdown) for user in run.users] == [("u", 0.8, 1.0), ("v", 0.2, 2.8)]
    assert run.fairness == pytest.approx(3.8**2 / (2 * (1 + 2.8**2)))
    use, waiting, wanted = run.timeline.counters
    assert (use.time.tolist(), use.value.tolist()) == ([0, 100, 150], [4, 2, 0])
    assert (waiting.time.tolist(), waiting.value.tolist()) == ([0, 10, 100, 150], [0, 1, 0, 0])
    assert wanted.value.max() == 2
    assert len(run.timeline) == 2
    srtf = podsim.queue(str(path), on="4", policy=["srtf"], restart="6s", checkpoint="4s", start="2s").runs[0]
    assert srtf.preemptions == 1
    assert srtf.wasted == pytest.approx((4 * (2 + 10) + 2 * 2) / (srtf.utilisation * srtf.makespan * 4))


def test_larger_jobs_are_reported_and_the_others_run(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,submit,gpus,seconds\na,0,4,100\nbig,10,20,50\n", "utf-8")
    said = call("queue", path, "--on", "8")
    assert said.exit_code == 1
    assert "1 jobs left out: larger than the machine" in said.stdout
    assert "big: 20 GPUs" in said.stdout
    none = call("queue", path, "--on", "2")
    assert none.exit_code == 2
    assert "none of its 2 jobs fits 2 GPUs; the smallest asks for 4" in none.stderr


def test_clusters_models_of_arrivals_and_compare():
    said = json.loads(
        call(
            "queue", "arrivals:jobs=300,load=0.9,median=1h", "--on", "dgx-a100:8", "--compare", "--json"
        ).stdout
    )
    assert said["gpus"] == 64
    assert len(said["runs"]) == 13
    assert said["load"] == pytest.approx(0.9, rel=0.05)
    other = json.loads(call("queue", "arrivals:300", "--on", "64", "--seed", "3", "--json").stdout)
    assert other["runs"][0]["policy"] == "easy"


def test_pictures(tmp_path):
    for arguments in (("--policy", "srtf"), ("--policy", "easy", "--policy", "fifo")):
        path = tmp_path / "queue.png"
        assert call("queue", "philly-3", "--on", "8x8", *arguments, "--plot", path).exit_code == 0
        assert path.read_bytes()[:4] == b"\x89PNG"
    svg = tmp_path / "pack.svg"
    said = call("pack", "openb", "--packer", "best-fit", "--seeds", "1", "--plot", svg, "--csv")
    assert said.exit_code == 0
    assert b"<svg" in svg.read_bytes()[:500]
    assert 0.9 < float(next(csv.DictReader(io.StringIO(said.stdout)))["allocated"]) < 0.95


WRONG = {
    ("queue", "phily-1", "--on", "64"): "did you mean philly-1",
    ("queue", "philly-1", "--on", "64", "--policy", "eazy"): "did you mean easy",
    ("queue", "philly-1", "--on", "0x8"): "nodes=0",
    ("queue", "philly-1", "--on", ""): "give a number of GPUs (64), nodes (8x8), or a cluster",
    ("queue", "philly-1", "--on", "celene"): "did you mean selene",
    ("queue", "philly-1", "--on", "64", "--policy", "easy", "--compare"): "not both",
    ("queue", "philly-1", "--on", "64", "--policy", "easy", "--policy", "easy"): "more than once",
    ("queue", "philly-1", "--on", "64", "--interval", "six"): "cannot read 'six'",
    ("queue", "philly-1", "--on", "64", "--restart", "-1 s"): "restart=-1",
    ("queue", "philly-1", "--on", "64", "--depth", "-3"): "depth=-3",
    ("queue", "philly-1", "--on", "64", "--where", "vc"): "expected key=value",
    ("queue", "philly-1", "--on", "64", "--placement", "worst"): "placement='worst' may be",
    ("queue", "philly-1", "--on", "64", "--plot", "x.gif"): "ends in .svg or .png",
    ("queue", "philly-1", "--on", "64", "--json", "--csv"): "choose one",
    ("queue", "arrivals:lots", "--on", "64"): "cannot read 'lots'",
    ("queue", "arrivals:0", "--on", "64"): "jobs=0",
    ("queue", "arrivals:load=0.5", "--on", "64"): "how many jobs",
    ("queue", "arrivals:jobs=5,lode=1", "--on", "64"): "did you mean load",
    ("queue", "arrivals:5", "--on", "64", "--where", "vc=1"): "a model of arrivals has none",
    ("queue", "arrivals:5", "--on", "64", "--seed", "-1"): "seed=-1",
    ("pack", "nowhere.csv"): "give the CSV of the nodes",
    ("pack", "--packer", "fdg"): "did you mean fgd",
    ("pack", "--seeds", "0"): "seeds=0",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_misuse(arguments):
    said = call(*arguments)
    assert said.exit_code == 2, said.stdout
    assert WRONG[arguments] in said.stderr
    assert "Traceback" not in said.stderr
