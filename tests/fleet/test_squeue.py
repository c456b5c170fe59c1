"""When waiting jobs start, by the text of Slurm's commands."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.fleet.squeue import expand_hosts, limit_seconds

HOUR = 3600.0
SQUEUE = """\
Mon Nov 23 03:42:00 2026
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
               125     batch   train2      eve PD       0:00      4 (Priority)
               123     batch my train    alice PD       0:00      3 (Resources)
               126     debug     test      bob PD       0:00      1 (JobHeldUser)
       130_[1-3%2]     debug     test      bob PD       0:00      1 (Priority)
               120     batch    train      bob  R    5:00:00      2 gpu[01-02]
               121     batch    train    alice  R 1-02:00:00      1 gpu03
               122     debug    train    alice  R      10:00      1 gpu05
"""
SINFO = """\
PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
batch*       up 2-00:00:00      3  alloc gpu[01-03]
batch*       up 2-00:00:00      1  idle gpu04
debug        up      30:00      1  alloc gpu05
debug        up      30:00      1  drain* gpu06
"""
PIPES = """\
JOBID|PARTITION|NAME|USER|STATE|TIME|TIME_LIMIT|NODES|TRES_PER_NODE|PRIORITY|NODELIST(REASON)
125|batch|x|eve|PENDING|0:00|1:00:00|1|gres/gpu:4|50|(Priority)
123|batch|x|alice|PENDING|0:00|10:00:00|3|gres/gpu:a100:8|100|(Resources)
120|batch|train|bob|RUNNING|5:00:00|12:00:00|2|gres/gpu:8|10|gpu[01-02]
121|batch|train|alice|RUNNING|1:00|2:00:00|1|gres/gpu:2|10|gpu03
"""
GRES = """\
PARTITION AVAIL TIMELIMIT NODES STATE NODELIST GRES
batch* up infinite 3 mix gpu[01-03] gpu:a100:8(S:0-1)
batch* up infinite 1 idle gpu04 gpu:a100:4
"""
JOBS = """\
JobId=123 JobName=train
   UserId=alice(1000) GroupId=alice(1000) MCS_label=N/A
   Priority=4294901755 Nice=0 Account=(null) QOS=normal
   JobState=PENDING Reason=Resources Dependency=(null)
   RunTime=00:00:00 TimeLimit=1-00:00:00 TimeMin=N/A
   Partition=batch AllocNode:Sid=login:1
   NumNodes=2-2 NumCPUs=256 NumTasks=16
   TresPerNode=gres/gpu:8

JobId=120 JobName=x
   JobState=RUNNING Reason=None
   RunTime=03:00:00 TimeLimit=04:00:00
   Partition=batch
   NodeList=gpu01
   NumNodes=1
   TresPerNode=gres/gpu:8

JobId=119 JobName=past
   JobState=COMPLETED Reason=None
   RunTime=03:00:00 TimeLimit=04:00:00
   Partition=batch
   NodeList=gpu02
   NumNodes=1
"""
NODES = """\
NodeName=gpu01 Arch=x86_64 CoresPerSocket=64
   Gres=gpu:a100:8(S:0-7)
   State=ALLOCATED ThreadsPerCore=2
   Partitions=batch,debug
NodeName=gpu02 Arch=x86_64 CoresPerSocket=64
   Gres=gpu:a100:8(S:0-7)
   State=IDLE ThreadsPerCore=2
   Partitions=batch
"""


@pytest.fixture
def starts(tmp_path):
    def ask(jobs, nodes, job="", **more):
        for name, text in (("jobs.txt", jobs), ("nodes.txt", nodes)):
            (tmp_path / name).write_text(text, "utf-8")
        said = podsim.queue(
            squeue=str(tmp_path / "jobs.txt"), sinfo=str(tmp_path / "nodes.txt"), job=job, **more
        )
        return {row.job: row.reason or row.start for row in said.starts}, said.warnings

    return ask


def test_whole_nodes_by_hand(starts):
    # 121 ends after 22 h, 120 after 43 h: 125 needs all four nodes, and 123 follows it for its limit of two days
    every, notes = starts(SQUEUE, SINFO)
    assert every == {
        "125": 43 * HOUR, "123": 91 * HOUR, "126": "JobHeldUser", "130_1": 1200.0, "130_2": 3000.0, "130_3": 4800.0,
    }  # fmt: skip
    assert notes == ()
    assert starts(SQUEUE, SINFO, "130")[0] == {"130_1": 1200.0, "130_2": 3000.0, "130_3": 4800.0}
    assert starts(SQUEUE, SINFO.replace("drain*", "idle "), "130")[0]["130_1"] == 0.0


def test_gpus_and_priorities_by_hand(starts):
    # 123 comes first by priority and waits for three full nodes; 125 takes the small node at once
    assert starts(PIPES, GRES)[0] == {"123": 7 * HOUR, "125": 0.0}
    assert starts(PIPES, GRES.replace("gpu04 gpu:a100:4", "gpu04 (null)"))[0] == {"123": 7 * HOUR, "125": 0.0}
    assert starts(PIPES, GRES.replace("gpu04 gpu:a100:4", "gpu04 gpu:a100:8"))[0]["123"] == 7 * HOUR


def test_scontrol(starts):
    assert starts(JOBS, NODES, "123") == ({"123": HOUR}, ())


def test_a_part_of_the_queue_is_noticed(starts):
    _, notes = starts("\n".join(SQUEUE.splitlines()[:6]), SINFO)
    assert "4 nodes run jobs that jobs.txt does not list" in notes[0]


def test_words_of_slurm():
    assert expand_hosts("a[01-03,7],b1,c[1-2]-ib") == ["a01", "a02", "a03", "a7", "b1", "c1-ib", "c2-ib"]
    assert [limit_seconds(text) for text in ("1-00:00:00", "30:00", "45", "infinite")] == [
        86400,
        1800,
        2700,
        1e9,
    ]


@pytest.mark.parametrize(("change", "says"), [
    ({"job": "999"}, r"job 999 is not in .*waiting jobs are 125, 123"),
    ({"job": "120"}, "job 120 runs already"),
    ({"nodes": SQUEUE}, "nodes.txt lists jobs"),
    ({"jobs": SINFO}, "jobs.txt: no id in it"),
    ({"jobs": "", "nodes": ""}, "no rows"),
    ({"jobs": SQUEUE.replace("5:00:00", "5:xx:00")}, "not as Slurm writes them"),
    ({"nodes": SINFO.replace("[01-03]", "[01-9999999]")}, "not as Slurm writes them"),
])  # fmt: skip
def test_wrong_files(starts, change, says):
    given = {"jobs": SQUEUE, "nodes": SINFO, "job": "", **change}
    with pytest.raises(PodsimError, match=says):
        starts(given["jobs"], given["nodes"], given["job"])


def test_both_files_are_needed(tmp_path):
    with pytest.raises(PodsimError, match="give both files"):
        podsim.queue(squeue="squeue.txt")
    with pytest.raises(PodsimError, match="no such file"):
        podsim.queue(squeue=str(tmp_path / "a"), sinfo=str(tmp_path / "b"))
    with pytest.raises(PodsimError, match="which jobs"):
        podsim.queue(on="64")
