"""Traces of every format, the model of arrivals, and what is wrong with input."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError, TableError
from podsim.fleet.arrivals import Arrivals, draw_jobs
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.sacct import count_gpus, elapsed_seconds
from podsim.fleet.traces import PACKAGED, read_jobs
from podsim.report.queue_tables import queue_report
from podsim.report.screen import show


def write(folder, text, name="trace.csv"):
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def test_packaged_traces():
    counts = {name: len(read_jobs(name)) for name in PACKAGED}
    assert counts == {"philly-1": 1494, "philly-2": 5755, "philly-3": 992, "philly-4": 2638, "kalos": 319}
    assert sum(counts[f"philly-{number}"] for number in range(1, 5)) == 10_879
    one = read_jobs("philly-1")
    assert (one.gpus * one.seconds).sum() / 3600 == pytest.approx(383_327, abs=1)
    assert read_jobs("philly-3", together=True).submit.max() == 0.0


def test_a_csv_of_ones_own(tmp_path):
    text = (
        "id,submit,gpus,seconds,user,limit,after,rank\n"
        "a,100,2,60,ann,90,,0.5\nb,50,1,30,bob,,a,\nc,60,1,30,ann,20,a;b,1\n"
    )
    jobs = read_jobs(write(tmp_path, text))
    assert jobs.ids == ["b", "c", "a"]
    assert jobs.submit.tolist() == [0, 10, 50]
    assert jobs.seconds.tolist() == [30, 20, 60]
    assert jobs.limit.tolist() == [30, 20, 90]
    assert jobs.cut == 1
    assert jobs.after == {0: (2,), 1: (2, 0)}
    assert [jobs.users[u] for u in jobs.user] == ["bob", "ann", "ann"]
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    assert read_jobs(str(packed)).ids == jobs.ids


def test_helios_and_acme(tmp_path):
    helios = (
        "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc\n"
        "1,u1,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,50,vcA\n"
        "2,u2,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 00:00:09,9,0,vcA\n"
        "3,u1,1,4,1,FAILED,2020-04-01 00:00:20,2020-04-01 00:00:20,2020-04-01 00:00:50,30,0,vcB\n"
    )
    jobs = read_jobs(write(tmp_path, helios))
    assert (jobs.submit.tolist(), jobs.gpus.tolist(), jobs.seconds.tolist()) == ([0, 10], [8, 1], [3600, 30])
    assert jobs.left_out == {"asked for no GPU": 1}
    assert len(read_jobs(write(tmp_path, helios), {"vc": "vcB"})) == 1
    acme = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue\n"
        "a,u1,2,16,64,Pretrain,COMPLETED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:00+00:00,,600,2\n"
        "b,u2,1,4,64,Evaluation,COMPLETED,2023-05-17 12:00:58+01:00,,,7,\n"
    )
    assert read_jobs(write(tmp_path, acme)).submit.tolist() == [0, 0]


def test_alibaba_lengths_from_start_and_end(tmp_path):
    text = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
        "p0,1000,10,1,500,5,100,10\np1,1000,10,2,1000,6,200,\n"
    )
    jobs = read_jobs(write(tmp_path, text))
    assert jobs.seconds.tolist() == [90.0]
    assert jobs.left_out == {"never started, or still runs": 1}
    assert jobs.rounded == 1  # half a GPU, which a queue gives whole


def test_parts_of_gpus_are_told(tmp_path, capsys):
    text = "name,num_gpu,gpu_milli,submit,seconds\np0,1,500,0,9\np1,1,1000,0,9\np2,2,1000,0,9\np3,1,,0,9\n"
    found = podsim.queue(write(tmp_path, text), on="8", policy=["easy", "fifo"])
    assert (found.rounded, found.jobs) == (1, 4)
    show(queue_report(found))
    said = " ".join(capsys.readouterr().out.split())
    assert "1 jobs asked for a part of a GPU" in said
    assert "The mean completion time is the same under all policies." in said


def test_philly_json(tmp_path):
    part = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]
    log = [
        {
            "status": "Pass", "vc": "x", "jobid": "application_1", "submitted_time": "2017-10-09 07:02:00", "user": "u",
            "attempts": [
                {"start_time": "2017-10-09 07:03:00", "end_time": "2017-10-09 07:04:00", "detail": part},
                {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 08:10:00", "detail": part},
            ],
        },
        {"status": "Killed", "vc": "x", "jobid": "b", "submitted_time": "2017-10-09 07:00:00", "attempts": []},
    ]  # fmt: skip
    jobs = read_jobs(write(tmp_path, json.dumps(log), "cluster_job_log"))
    assert (jobs.gpus.tolist(), jobs.seconds.tolist()) == ([4], [660.0])
    with pytest.raises(TableError, match="job 1 differs from Philly's log"):
        read_jobs(write(tmp_path, "[{}]", "x.json"))
    with pytest.raises(TableError, match="is not JSON"):
        read_jobs(write(tmp_path, "[{", "x.json"))


SACCT = (
    "JobID|User|Submit|Start|Elapsed|Timelimit|State|AllocTRES\n"
    "10|ann|2026-01-31T08:00:00|2026-01-31T08:10:00|1-00:00:10|2-00:00:00|COMPLETED|billing=8,cpu=64,gres/gpu:a100=8,gres/gpu=8,node=1\n"
    "10.batch||2026-01-31T08:10:00|2026-01-31T08:10:00|1-00:00:10||COMPLETED|cpu=64\n"
    "11_3|bob|2026-01-31T09:00:00|2026-01-31T09:00:00|00:10:00|UNLIMITED|FAILED|gres/gpu:a100=2,gres/gpu:v100=1\n"
    "12|bob|2026-01-31T09:00:00|Unknown|00:00:00|01:00:00|CANCELLED|\n"
    "13|bob|2026-01-31T09:00:00|2026-01-31T09:00:00|00:10:00|01:00:00|COMPLETED|cpu=4\n"
)


def test_sacct(tmp_path):
    jobs = read_jobs(write(tmp_path, SACCT, "jobs.txt"))
    assert jobs.ids == ["10", "11_3"]
    assert jobs.gpus.tolist() == [8, 3]
    assert jobs.seconds.tolist() == [86_410, 600]
    assert jobs.limit.tolist() == [172_800, 600]
    assert jobs.left_out == {"never started": 1, "asked for no GPU": 1}
    assert (elapsed_seconds("03:04"), elapsed_seconds("1:02:03"), elapsed_seconds("2-00:00:01")) == (
        184,
        3723,
        172_801,
    )
    assert count_gpus("cpu=4") == 0
    several = SACCT.replace("cpu=4\n", "gres/gpu:a100_1g.5gb=2\n")
    told = read_jobs(write(tmp_path, several, "several.txt")).left_out
    assert told == {"never started": 1, "asked for several MIG instances, which cannot talk": 1}
    with pytest.raises(TableError, match="AllocTRES or ReqTRES"):
        read_jobs(write(tmp_path, "JobID|Submit|Elapsed\n1|2026-01-31T08:00:00|1:00\n"))
    with pytest.raises(TableError, match=r"Elapsed like.*row 1, job 10"):
        read_jobs(write(tmp_path, SACCT.replace("1-00:00:10", "soon")))


BAD = {
    "id,submit,gpus\na,1,1\n": "no column for seconds: one of seconds, duration_s",
    "id,gpus,seconds\na,1,1\n": "no column for submit",
    "id,submit,gpus,seconds\na,-1,1,10\nb,0,0.5,-3\n": "times.*a: -1.*lengths.*b: -3.*whole numbers.*b: 0.5",
    "id,submit,gpus,seconds\na,1,1,ten\n": r"seconds must be a number \(row 1: 'ten'\)",
    "id,submit,gpus,seconds\na,1,1,nan\n": "seconds must be a number",
    "id,submit,gpus,seconds\na,1,1,1e400\n": "seconds must be a number",
    "id,submit,gpus,seconds\na,1,1,1\na,2,1,1\n": "ids must be unique.*select one by its column",
    "id,submit,gpus,seconds,after\na,1,1,1,b\nb,1,1,1,c\nc,1,1,1,a\n": "form a cycle.*a after b after c after a",
    "id,submit,gpus,seconds,after\na,1,1,1,a\n": "cycle.*a after a",
    "id,submit,gpus,seconds,after\na,1,1,1,z\n": "job a waits for z",
    "id,submit,gpus,seconds\n": "no rows",
    "id,submit,gpus,seconds\na,1,0,1\n": "no job that asked for GPUs",
    "submit_time,gpus,seconds\n2020-04-01 00:00:00,1,1\nyesterday,1,1\n": "must be a date",
    "": "no rows",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_bad_traces(tmp_path, text):
    with pytest.raises(TableError, match=BAD[text]):
        read_jobs(write(tmp_path, text))


def test_bad_files(tmp_path):
    with pytest.raises(TableError, match="did you mean philly-1"):
        read_jobs("phily-1")
    with pytest.raises(TableError, match="no such file"):
        read_jobs(str(tmp_path / "none.csv"))
    with pytest.raises(TableError, match="is a folder"):
        read_jobs(str(tmp_path))
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(TableError, match="not UTF-8"):
        read_jobs(str(tmp_path / "x.csv"))
    (tmp_path / "y.csv.gz").write_bytes(gzip.compress(np.random.default_rng(0).bytes(5000))[:3000])
    with pytest.raises(TableError, match="cannot be read"):
        read_jobs(str(tmp_path / "y.csv.gz"))
    with pytest.raises(TableError, match="no column colour"):
        read_jobs("philly-1", {"colour": "red"})
    with pytest.raises(TableError, match="no row with"):
        read_jobs("philly-1", {"vc": "red"})


def test_jobs_one_by_one_say_all_that_is_wrong():
    with pytest.raises(TableError, match=r"submit times.*GPUs must.*ranks must.*speeds must"):
        jobs_of([Job(id="a", submit=-1, gpus=0, seconds=1, rank=2.0, slow=(0.0, 1.0))])


def test_left_out_jobs_keep_dependencies():
    jobs = jobs_of([
        Job(id="a", submit=0, gpus=9, seconds=1), Job(id="b", submit=1, gpus=1, seconds=1, after=("a",)),
        Job(id="c", submit=2, gpus=1, seconds=1, after=("a", "b")),
    ])  # fmt: skip
    kept = jobs.only(jobs.gpus < 5, "too large")
    assert (kept.ids, kept.after, kept.left_out) == (["b", "c"], {0: (), 1: (0,)}, {"too large": 1})


@pytest.mark.parametrize("jobs", [300, 2000, 20_000])  # a fraction of a day to weeks
def test_drawn_jobs_load_the_machine_as_asked(jobs: int) -> None:
    drawn = draw_jobs(Arrivals(jobs=jobs, load=0.9), 4480, np.random.default_rng(0))
    assert (drawn.gpus * drawn.seconds).sum() / 4480 / drawn.submit.max() == pytest.approx(0.9, rel=1e-6)


def test_arrivals_keep_their_load_and_rhythm():
    rng = np.random.default_rng(1)
    jobs = draw_jobs(Arrivals(jobs=20_000, load=0.7, rhythm=0.9), 4480, rng)
    asked = (jobs.gpus * jobs.seconds).sum()
    assert asked / jobs.submit.max() / 4480 == pytest.approx(0.7, rel=3e-2)
    hour = jobs.submit % 86400 // 3600
    day, night = np.count_nonzero(hour // 12 == 0), np.count_nonzero(hour // 12 == 1)
    assert day > 2 * night  # 1 + 0.9 sin: 1.57 to 0.43
    assert np.median(jobs.seconds) == pytest.approx(7700, rel=0.1)
    again = draw_jobs(Arrivals(jobs=20_000, load=0.7, rhythm=0.9), 4480, np.random.default_rng(1))
    np.testing.assert_array_equal(jobs.submit, again.submit)
    assert draw_jobs(Arrivals(jobs=100), 4, rng).gpus.max() <= 4


def test_bad_arrivals():
    with pytest.raises(PodsimError, match=r"jobs=0.*load=-1"):
        Arrivals(jobs=0, load=-1)
    with pytest.raises(PodsimError, match="no size of"):
        draw_jobs(Arrivals(jobs=3, sizes=(8,), weights=(1.0,)), 4, np.random.default_rng(0))
