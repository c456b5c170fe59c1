"""Jobs on MIG instances: legal places, what is of no use, waiting, dividing anew; and the engine on whole GPUs."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.cli import app
from podsim.errors import MigError, PodsimError
from podsim.fleet.jobs import Job, JobColumns, jobs_of, make_jobs
from podsim.fleet.policies import POLICIES, find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.sliced import policy_problem, run_sliced
from podsim.fleet.slots import PACKERS, job_kinds, legal_starts, lost_share
from podsim.hardware.mig.layouts import Instance, check, layouts, make_instance
from podsim.hardware.mig.profiles import find_profile, slicings

sys.path.insert(0, str(Path(__file__).parent))
from small import random_jobs

A100 = slicings()["a100-40gb"]
ABLE = [policy for policy in POLICIES if not policy_problem(policy)]
PROFILES = ("", "1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def mixed(seed, *, n=40, most=4, limits=True, after=False):
    rng = np.random.default_rng(seed)
    profile = [PROFILES[p] for p in rng.integers(0, len(PROFILES), n)]
    seconds = np.round(rng.exponential(100.0, n), 3) + 1
    return make_jobs(JobColumns(
        ids=[str(j) for j in range(n)], submit=np.round(np.cumsum(rng.exponential(12.0, n)), 3), mig=profile,
        gpus=np.where([p == "" for p in profile], rng.integers(1, most + 1, n), 1), seconds=seconds,
        limit=np.round(seconds * rng.uniform(1, 3, n), 3) if limits else None,
        after=[(str(j - 3),) if after and j % 5 == 4 else () for j in range(n)],
    ))  # fmt: skip


def test_policies_that_can():
    assert [policy.name for policy in ABLE] == ["fifo", "fifo-skip", "easy", "sjf", "qssf"]


def test_legal_places_are_those_of_the_layouts():
    every = {one.instances for one in layouts(A100, every=True)}
    for busy in [(), *every]:
        for profile in A100.profiles:
            legal = legal_starts(A100.name, busy, profile.name)
            made = [s for s in profile.starts if tuple(sorted((*busy, make_instance(profile, s)))) in every]
            taken = {at for one in busy for at in one.slices}
            free = [s for s in profile.starts if taken.isdisjoint(range(s, s + profile.size)) and s in made]
            assert list(legal) == free


@pytest.mark.parametrize("policy", ABLE, ids=lambda policy: policy.name)
def test_whole_gpus_as_the_engine(policy):
    for seed, machine in product(
        range(4),
        (
            Machine(gpus_per_node=8),
            Machine(nodes=4, gpus_per_node=2, nodes_per_leaf=2),
            Machine(nodes=3, gpus_per_node=4),
        ),
    ):
        jobs = random_jobs(seed, most=machine.gpus, limits=True, chains=seed == 1, slow=seed == 2)
        ours, theirs = run_sliced(jobs, machine, policy, A100), run_queue(jobs, machine, policy)
        np.testing.assert_allclose(ours.end, theirs.end, rtol=1e-9)
        np.testing.assert_array_equal(ours.span_job[np.argsort(ours.span_job)], np.arange(len(jobs)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(ABLE), packer=st.sampled_from(list(PACKERS)))
def test_theorems(seed, policy, packer):
    machine = Machine(nodes=2, gpus_per_node=2)
    jobs = mixed(seed, after=seed % 2 == 0)
    run = run_sliced(jobs, machine, policy, A100, packer=packer, relay=3.0 if seed % 3 else 0.0)
    assert sorted(run.span_job.tolist()) == list(range(len(jobs)))
    assert np.all(run.start >= jobs.submit)
    assert all(run.end[p] <= run.start[j] for j, parents in jobs.after.items() for p in parents)
    lead = run.end - run.start - jobs.seconds
    assert np.all((lead > -1e-6) & (lead < 3.0 + 1e-6))
    assert run.spent == pytest.approx(float((lead * run.size).sum()), abs=1e-6)
    # at every start the instances of each GPU are a legal layout, and whole GPUs are enough beside them
    for moment in run.span_start:
        here = np.flatnonzero((run.span_start <= moment) & (run.span_end > moment))
        by_gpu: dict[int, list[Instance]] = {}
        for place in here:
            profile = jobs.mig[run.span_job[place]]
            if profile:
                one = make_instance(find_profile(A100, profile), int(run.span_slice[place]))
                by_gpu.setdefault(int(run.span_gpu[place]), []).append(one)
        for instances in by_gpu.values():
            check(A100, instances)
        whole = sum(int(jobs.gpus[run.span_job[p]]) for p in here if not jobs.mig[run.span_job[p]])
        assert whole + len(by_gpu) <= machine.gpus
    if policy.name == "fifo" and seed % 2:
        assert np.all(np.diff(run.start) >= 0)
    room = run.end.max() * machine.gpus
    held = float(((run.end - run.start) * run.size).sum())
    assert 0 <= run.lost <= room - held + 1e-6
    assert 0 <= run.scattered <= room - held + 1e-6


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(ABLE), packer=st.sampled_from(list(PACKERS)))
def test_nobody_waits_beside_room(seed, policy, packer):
    # the first of the queue has no place at any moment while it waits; where others may overtake, nobody has
    machine = Machine(gpus_per_node=3)
    jobs = mixed(seed, n=25, most=3, after=seed % 2 == 0)
    run = run_sliced(jobs, machine, policy, A100, packer=packer)
    released = [
        max([float(jobs.submit[j]), *(run.end[p] for p in jobs.after.get(j, ()))]) for j in range(len(jobs))
    ]
    size = {"first come": released, "shortest": jobs.guess, "smallest": jobs.guess * run.size}[policy.order]
    every = {one.instances for one in layouts(A100, every=True)}
    for moment in np.unique([*run.start, *run.end, *released]):
        waiting = [j for j in range(len(jobs)) if released[j] <= moment < run.start[j]]
        waiting.sort(key=lambda j: (size[j], released[j], j))
        busy: list[list[Instance]] = [[] for _ in range(machine.gpus)]
        whole = 0
        for place in np.flatnonzero((run.span_start <= moment) & (run.span_end > moment)):
            j = run.span_job[place]
            if jobs.mig[j]:
                one = make_instance(find_profile(A100, jobs.mig[j]), int(run.span_slice[place]))
                busy[run.span_gpu[place]].append(one)
            else:
                whole += int(jobs.gpus[j])
        idle = busy.count([]) - whole
        for j in waiting if policy.backfill == "skip" else waiting[:1]:
            if not jobs.mig[j]:
                assert jobs.gpus[j] > idle
                continue
            assert idle <= 0
            profile = find_profile(A100, jobs.mig[j])
            assert not any(
                tuple(sorted((*there, make_instance(profile, s)))) in every
                and all(set(make_instance(profile, s).slices).isdisjoint(one.slices) for one in there)
                for there in busy
                if there
                for s in profile.starts
            )


def job(id, submit, seconds, mig="", gpus=1, **more):
    return Job(id=id, submit=submit, gpus=gpus, seconds=seconds, mig=mig, **more)


def run(jobs, policy="fifo", gpus=1, **more):
    return run_sliced(jobs_of(jobs), Machine(gpus_per_node=gpus), find_policy(policy), A100, **more)


def test_a_place_matters():
    # first fit puts 1g at slice 0, where 4g must start; the best place leaves most layouts open, and both run at once
    jobs = [job("small", 0, 100, "1g"), job("large", 1, 100, "4g")]
    assert run(jobs, packer="first-fit").start.tolist() == [0, 100]
    for packer in ("best-fit", "fgd"):
        found = run(jobs, packer=packer)
        assert found.start.tolist() == [0, 1]
        assert found.span_slice.tolist()[1] == 0
    # 3g and 3g leave a compute slice, but no memory: 1g waits although 1/7 is free, and that is told
    full = run([job("a", 0, 100, "3g"), job("b", 0, 100, "3g"), job("c", 0, 10, "1g")])
    assert full.start.tolist() == [0, 0, 100]
    assert full.scattered == pytest.approx(100 / 7)


def test_what_is_of_no_use():
    kinds = job_kinds(["1g.5gb", "", "3g.20gb", "3g.20gb"])
    assert lost_share(A100.name, (), kinds) == 0.0
    one = (make_instance(find_profile(A100, "1g"), 0),)
    assert lost_share(A100.name, one, kinds) == pytest.approx(0.25 * 6 / 7)  # no whole GPU any more
    both = (one[0], make_instance(find_profile(A100, "1g"), 4))
    assert lost_share(A100.name, both, kinds) == pytest.approx(0.75 * 5 / 7)  # and no start for 3g
    # fgd puts the second 1g where 3g still has a start, though it is on a GPU less full than none
    jobs = [job("a", 0, 100, "1g"), job("b", 1, 100, "1g"), job("c", 2, 50, "3g"), job("d", 3, 50, "3g")]
    found = run(jobs, gpus=2, packer="fgd")
    assert found.start.tolist() == [0, 1, 2, 3]
    assert found.span_gpu[0] == found.span_gpu[1]


def test_dividing_anew_takes_time():
    jobs = [job("a", 0, 10, "2g"), job("b", 20, 10, "2g"), job("c", 40, 10, "7g"), job("d", 60, 10)]
    found = run(jobs, relay=5.0)
    assert found.end.tolist() == [
        15,
        30,
        55,
        75,
    ]  # b takes a's instance over; c destroys it, d switches MIG off
    assert found.relaid == 3
    assert found.spent == pytest.approx(5 * 2 / 7 + 5 + 5)


def test_easy_keeps_the_place_of_the_first():
    # 4g runs until 100; 7g waits for it; 2g of 50 s may go before it, 2g of 200 s may not
    jobs = [job("a", 0, 100, "4g"), job("b", 1, 10, "7g"), job("c", 2, 200, "2g"), job("d", 3, 50, "2g")]
    assert run(jobs, "easy").start.tolist() == [0, 100, 110, 3]
    assert run(jobs, "fifo-skip").start.tolist() == [0, 202, 2, 100]
    # on two GPUs the long one is harmless where it leaves the first a GPU
    more = [job("a", 0, 100, "4g"), job("x", 0, 100, "4g"), job("b", 1, 10, "7g"), job("c", 2, 200, "2g")]
    assert run(more, "easy", gpus=2).start.tolist() == [0, 0, 100, 2]


def test_whole_and_divided_gpus():
    jobs = [job("a", 0, 100, "1g"), job("b", 1, 50, gpus=2), job("c", 2, 50, gpus=1)]
    assert run(jobs, "fifo-skip", gpus=2).start.tolist() == [0, 100, 2]


def test_what_cannot_be():
    with pytest.raises(
        PodsimError, match=r"srtf: instances cannot be preempted.*packer='worst' may be first-fit"
    ):
        run([job("a", 0, 1, "1g")], "srtf", packer="worst")
    with pytest.raises(MigError, match=r"9g.*instances cannot talk to each other \(b: 2 x 1g\)"):
        run([job("a", 0, 1, "9g"), job("b", 0, 1, "1g", gpus=2)], gpus=2)
    with pytest.raises(PodsimError, match=r"repartition=-1 s.*job a: 3 GPUs; there are 1"):
        run([job("a", 0, 1, gpus=3)], relay=-1.0)
    with pytest.raises(PodsimError, match="some jobs need MIG instances"):
        run_queue(jobs_of([job("a", 0, 1, "1g")]), Machine(gpus_per_node=1), find_policy("fifo"))


def test_from_a_terminal(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("id,submit,gpus,seconds,mig\na,0,1,100,3g.40gb\nb,1,1,50,1g.10gb\nc,2,8,50,\n", "utf-8")

    def call(*arguments):
        return CliRunner().invoke(app, ["queue", str(path), *map(str, arguments)])

    said = call("--on", "dgx-a100-80gb:1", "--placement", "fgd", "--repartition", "5s", "--json")
    row = json.loads(said.stdout)["runs"][0]
    assert row["relaid"] == 3  # two instances, and one GPU whole again
    assert row["makespan"] == 160.0
    assert row["wasted"] == pytest.approx((5 * 4 / 7 + 40) / (105 * 3 / 7 + 55 / 7 + 55 * 8))
    picture = tmp_path / "q.png"
    assert call("--on", "dgx-a100-80gb:1", "--plot", picture).exit_code == 0
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert len(json.loads(call("--on", "dgx-a100-80gb:1", "--compare", "--json").stdout)["runs"]) == len(ABLE)
    for arguments, words in (
        (("--on", "8x8"), "jobs ask for MIG instances (1g.10gb, 3g.40gb)"),
        (("--on", "dgx-1-v100"), "has no MIG"),
        (("--on", "dgx-a100-40gb"), "3g.40gb is a profile of a100-80gb"),
        (("--on", "dgx-a100-80gb", "--placement", "spread"), "packer='spread' may be"),
    ):
        wrong = call(*arguments)
        assert wrong.exit_code == 2
        assert words in wrong.stderr
    slurm = tmp_path / "sacct.txt"
    slurm.write_text(
        "JobID|User|Submit|Start|Elapsed|Timelimit|AllocTRES\n"
        "1|u|2026-01-01T00:00:00|2026-01-01T00:00:00|01:00:00|02:00:00|cpu=8,gres/gpu:a100_3g.40gb=1,gres/gpu=1\n",
        "utf-8",
    )
    said = CliRunner().invoke(app, ["queue", str(slurm), "--on", "dgx-a100-80gb:1", "--json"])
    assert json.loads(said.stdout)["runs"][0]["utilisation"] == pytest.approx(3 / 7 / 8)
