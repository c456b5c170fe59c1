"""Traces whose jobs tell their model and plan: `podsim queue` runs each as long as `podsim predict` says."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError

HEAD = "id,submit,model,plan,steps,gpus,mig,seconds\n"
PLAN = "tp=8 dp=4 batch=64 zero=1 sequence=4096"


def queue(tmp_path, rows, on, **more):
    path = tmp_path / "jobs.csv"
    path.write_text(HEAD + rows, "utf-8")
    return podsim.queue(str(path), on=on, **more).runs[0]


def step(**more):
    options = {
        "on": "dgx-a100-80gb:8",
        "gpus": 32,
        "tp": 8,
        "dp": 4,
        "batch": 64,
        "zero": 1,
        "sequence": 4096,
    }
    return podsim.predict("llama-3.1-8b", **(options | more)).step_time


def test_a_job_takes_as_long_as_predicted(tmp_path):
    rows = f"a,0,llama-3.1-8b,{PLAN},100,,,\nb,0,llama-3.1-8b,{PLAN},100,16,,\nplain,0,,,,8,,50\n"
    run = queue(tmp_path, rows, "dgx-a100-80gb:8")
    assert run.jct.tolist() == pytest.approx([100 * step(), 100 * step(gpus=16, dp=2), 50.0])


def test_jobs_larger_than_the_machine_are_told_and_the_others_run(tmp_path):
    path = tmp_path / "jobs.csv"
    rows = f"a,0,llama-3.1-8b,{PLAN},100,,,\nb,0,llama-3.1-8b,{PLAN},100,16,,\nplain,0,,,,8,,50\n"
    path.write_text(HEAD + rows, "utf-8")
    found = podsim.queue(
        str(path), on="dgx-a100-80gb:2"
    )  # 16 GPUs: the plan of 32 fits with half its replicas
    assert found.too_large == ("a: 32 GPUs",)
    assert found.left_out == {"larger than the machine": 1}
    assert sorted(found.runs[0].jct) == pytest.approx(
        [100 * step(gpus=16, dp=2), 100 * step(gpus=16, dp=2) + 50.0]
    )
    with pytest.raises(PodsimError, match="none of its 1 jobs fits 16 GPUs; the smallest asks for 32"):
        queue(tmp_path, f"a,0,llama-3.1-8b,{PLAN},100,,,\n", "dgx-a100-80gb:2")


def test_across_leaves_it_is_slower(tmp_path):
    # 32 nodes are under two leaves of a SuperPOD of 20 nodes each
    rows = "a,0,llama-3.1-8b,tp=8 dp=32 batch=64 zero=1 sequence=4096,100,,,\n"
    slow, thin = (queue(tmp_path, rows, "selene:32", taper=taper) for taper in (1.0, 0.1))
    assert slow.across == 1.0
    assert thin.jct[0] > 1.05 * slow.jct[0] >= 1.05 * 100 * step(on="selene:32", gpus=256, dp=32)


def test_on_an_instance(tmp_path):
    rows = "".join(f"{mig},0,gpt2,batch=8 micro_batch=4,10,,{mig},\n" for mig in ("1g.10gb", "3g.40gb"))
    run = queue(tmp_path, rows, "dgx-a100-80gb:1")
    wanted = [
        10 * podsim.predict("gpt2", on=f"a100-80gb/{mig}", batch=8, micro_batch=4).step_time
        for mig in ("1g.10gb", "3g.40gb")
    ]
    assert run.jct.tolist() == pytest.approx(wanted)
    assert wanted[0] > wanted[1]


@pytest.mark.parametrize(
    ("row", "on", "words"),
    [
        ("a,0,llama-3.1-8b,tp=3 dp=1 batch=64,10,,,", "selene", "row 1: tp=3 does not divide heads=32"),
        ("a,0,llama-3.1-8b,tp8,10,,,", "selene", "unknown option 'tp8'"),
        ("a,0,llama-3.1-8b,tp=x,10,,,", "selene", "tp='x' must be a whole number"),
        (f"a,0,llama-3.1-8b,{PLAN},0,,,", "selene", "steps='0' must be a whole number of at least 1"),
        (f"a,0,llama-3.1-8b,{PLAN},10,24,,", "selene", "24 GPUs: one replica takes 8; 8, 16, 32 would work"),
        (f"a,0,llama-3.1-8b,{PLAN},10,-8,,", "selene", "gpus='-8' must be a whole number"),
        (f"a,0,llama-3.1-8b,{PLAN},10,,,", "8x8", "name their cluster"),
        ("a,0,gpt2,batch=8,10,,9g,", "dgx-a100-80gb:1", "9g"),
    ],
)
def test_what_cannot_be(tmp_path, row, on, words):
    with pytest.raises(PodsimError) as said:
        queue(tmp_path, row + "\n", on)
    assert words in str(said.value)


def test_a_taper_needs_plans(tmp_path):
    with pytest.raises(PodsimError, match="it affects jobs with a model and steps"):
        podsim.queue("philly-3", on="8x8", taper=0.5)
    with pytest.raises(PodsimError, match="taper=2"):
        podsim.queue("philly-3", on="8x8", taper=2.0)
