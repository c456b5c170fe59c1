"""Collectives run for real on forked gloo ranks: right results, and runs that break off well."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result

from podsim.accuracy.nccl_tests import read_log_text
from podsim.answers.saved_run import read_run, run_of
from podsim.errors import LabError, PodsimError
from podsim.lab.data import input_of, wrong
from podsim.lab.engine import Engine
from podsim.lab.measured_collectives import Job, task_of
from podsim.lab.processes import fork, wait_all
from podsim.lab.ranks import Note, Task, run_here, started_rank
from podsim.lab.wires import Wires, connect, gpus_here
from podsim.network.collectives import ALGORITHMS, Algorithm, Table, make_table
from podsim.network.collectives.lookup import ON_TORI
from podsim.network.collectives.program import programs
from podsim.questions.operate.measure import measure_collective

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]
QUICK = {"sizes": "12K:12K", "iters": 2, "timeout": 20.0}


def _job(**changes: object) -> Job:
    tables = tuple(one.build(3) for one in ALGORITHMS if one.name in ("ring", "tree"))
    given = {
        "collective": "all-reduce", "ranks": 3, "local": 3, "tables": tables, "library": False, "sizes": (12_288,),
        "iterations": 2, "warmup": 1, "limit": 5.0, "in_place": True, "apart": False, "timeout": 15.0,
    }  # fmt: skip
    return Job(**(given | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("collective", sorted({one.collective for one in ALGORITHMS}))
def test_every_table_and_the_library_are_right(collective: str) -> None:
    """Every table of every collective, in place and out, with the in-network one's switch as a process of its own."""
    found = measure_collective(collective, ranks=4, local=2, **QUICK)  # type: ignore[arg-type]
    assert found is not None
    names = {row.algorithm for row in found.rows}
    known = {one.name for one in ALGORITHMS if one.collective == collective}
    assert known - names == known & set(ON_TORI)  # no torus joins processes of one machine
    assert all(row.wrong == 0 and row.in_place_wrong == 0 and row.seconds > 0 for row in found.rows)
    assert ("library" in names) == (
        collective in ("all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter")
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_messages_in_groups_as_nccl_takes_them(
    algorithm: Algorithm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other way to start messages, all that are posted together at once, on gloo: what NCCL would be given."""
    table: Table = algorithm.build(3)

    def work(rank: int) -> int:
        wires = connect(
            rank=rank, world=table.nodes, local_rank=rank, local=table.nodes, init=f"file://{tmp_path}/meeting",
            backend="gloo", timeout=15.0,
        )  # fmt: skip
        program = programs(table, 500, range(rank, rank + 1))[0]
        own = wires.torch.from_numpy(input_of(rank, program.elements))
        held = wires.empty(program.elements).zero_()
        for first, last, _ in program.input:
            held[first:last] = own[first:last]
        Engine(program, replace(wires, grouped=True)).run(held, own)
        wires.barrier()
        return int(rank < table.ranks and wrong(held.numpy(), program.output, table.ranks) > 0)

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert wait_all({rank: fork(partial(work, rank)) for rank in range(table.nodes)}) is None


def test_a_table_that_forgets_a_part_is_found_out() -> None:
    rows = {"step": [0, 1], "source": [0, 1], "destination": [1, 0], "chunk": 0, "reduce": [False, False]}
    bad = make_table("forgets", "all-reduce", rows, ranks=2, chunks=1)
    found = run_of(run_here(task_of(_job(ranks=2, local=2, tables=(bad,)))))
    assert found.rows[0].wrong > 6000
    assert found.rows[0].in_place_wrong == found.rows[0].wrong


def test_sizes_that_no_chunk_divides() -> None:
    found = measure_collective(
        "all-reduce", ranks=3, algo="ring,tree,halving-doubling", sizes="4:28:+12", iters=1
    )
    assert found is not None
    assert {row.count for row in found.rows} == {1, 4, 7}
    assert not any(row.wrong or row.in_place_wrong for row in found.rows)


def test_the_command_prints_what_nccl_tests_prints(podsim: Callable[..., Result], tmp_path: Path) -> None:
    """And the reader of real logs reads it."""
    kept = tmp_path / "run.jsonl"
    done = podsim(
        "measure",
        "collective",
        "--ranks",
        2,
        "--algo",
        "ring",
        "--sizes",
        "4K:16K:2",
        "--iters",
        2,
        "--save",
        kept,
    )
    assert done.exit_code == 0, done.output
    log = read_log_text(done.stdout, "all_reduce")
    assert [int(row.text("size_bytes")) for row in log.rows] == [4096, 8192, 16384]
    assert done.stdout.count("Out of bounds values : 0 OK") == 1
    run = read_run(kept)
    assert [row.size for row in run.rows] == [4096.0, 8192.0, 16384.0]
    assert all(
        row.algorithm_bandwidth == row.bus_bandwidth for row in run.rows
    )  # two ranks: 2 (n - 1) / n is 1
    assert run.rows[0].messages == 4


def test_json_of_one_buffer(podsim: Callable[..., Result]) -> None:
    done = podsim(
        "measure",
        "collective",
        "--ranks",
        2,
        "--algo",
        "ring",
        "--sizes",
        "4K",
        "--iters",
        1,
        "--no-in-place",
        "--json",
    )
    (row,) = json.loads(done.stdout)["rows"]
    assert row["in_place"] is None
    assert row["wrong"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "0"], "--ranks 0; 1 to 64"),
        (["--ranks", "65"], "torchrun"),
        (["--ranks", "6", "--local", "4"], "--local 4 does not divide 6"),
        (["--algo", "rung"], "did you mean ring"),
        (["--algo", "ring,nccl"], "is called library here"),
        (["--algo", ","], "--algo is empty"),
        (["--sizes", "6"], "no whole number of floats"),
        (["--iters", "0", "--warmup", "0"], "--iters 0; it must be at least 1; --warmup 0"),
        (["--timeout", "nan"], "--timeout nan"),
        (["--backend", "mpi"], "auto, gloo, nccl"),
        (["gather", "--algo", "library"], "PyTorch's gather is not run"),
        (
            ["--ranks", "2", "--backend", "nccl"],
            "--backend nccl needs a GPU for each of 2 ranks; this machine has 0",
        ),
        (["--save", "nowhere/run.jsonl"], "there is no folder nowhere"),
        (["--json", "--csv"], "choose one"),
    ],
)
def test_misuse(podsim: Callable[..., Result], arguments: list[str], said: str) -> None:
    done = podsim("measure", "collective", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def _tables(gpus: int, monkeypatch: pytest.MonkeyPatch, **given: object) -> tuple[Job, dict[str, str]]:
    """What `--algo all` runs on a machine with so many GPUs, and what it leaves out."""
    jobs = []
    monkeypatch.setattr("podsim.lab.collective_job.gpus_here", lambda: gpus)
    monkeypatch.setattr("podsim.lab.ranks.run_here", lambda _, watch: None)
    monkeypatch.setattr("podsim.questions.operate.measure.task_of", jobs.append)
    assert measure_collective(**given) is None  # type: ignore[arg-type]
    return jobs[0], dict(jobs[0].left_out)


def test_a_switch_does_not_take_the_gpus_from_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine processes on eight GPUs would be run on processors, every one of them."""
    job, out = _tables(8, monkeypatch, ranks=8)
    assert job.nodes == 8
    assert "there are 8: --backend gloo runs it" in out["in-network"]
    assert _tables(8, monkeypatch, ranks=8, backend="gloo")[0].nodes == 9
    assert _tables(8, monkeypatch, ranks=7)[0].nodes == 8
    assert _tables(0, monkeypatch, ranks=8)[0].nodes == 9
    with pytest.raises(PodsimError, match="its switch needs a GPU"):
        _tables(8, monkeypatch, ranks=8, algo="in-network")
    job, out = _tables(0, monkeypatch, ranks=64)
    assert job.nodes == 64
    assert "at most 64 are forked" in out["in-network"]


def test_sizes_that_nobody_gave_are_divided_by_any_number_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    for collective in ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"):
        job, _ = _tables(0, monkeypatch, collective=collective, ranks=3)
        assert job.sizes == (65_532, 262_140, 1_048_572)
    assert _tables(0, monkeypatch, collective="all-reduce", ranks=3)[0].sizes == (65_536, 262_144, 1_048_576)
    with pytest.raises(PodsimError, match="for each of 3 ranks"):
        _tables(0, monkeypatch, collective="all-gather", ranks=3, sizes="64K")


def test_gpus_are_counted_where_nothing_is_forked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA works no more in processes that are forked after it was asked."""
    torch = pytest.importorskip("torch")
    here, asked = os.getpid(), []

    def available() -> bool:
        if os.getpid() == here:
            asked.append("this process")
        return True

    monkeypatch.setattr(torch.cuda, "is_available", available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 5)
    assert gpus_here() == 5
    assert not asked
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int("broken"))
    assert gpus_here() == 0


def _children() -> set[str]:
    """The processes that this one has, e.g. the resource tracker of another test's pool, which stays to the end."""
    numbers = set[str]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            numbers |= set((task / "children").read_text().split())
    return numbers


@pytest.mark.parametrize(("how", "words"), [("kill", "killed by SIGKILL"), ("exit", "ended with status 3")])
def test_a_rank_that_dies_is_named_and_the_others_stop(how: str, words: str) -> None:
    def hook(rank: int, doing: str) -> None:
        if rank == 1 and doing.startswith("tree"):
            os.kill(os.getpid(), signal.SIGKILL) if how == "kill" else os._exit(3)

    before = _children()
    with pytest.raises(LabError, match=f"rank 1 .*{words} during tree"):
        run_here(task_of(_job()), hook=hook)
    assert _children() <= before


def test_a_rank_that_hangs_is_named() -> None:
    def hook(rank: int, doing: str) -> None:
        if rank == 2 and doing.startswith("tree"):
            os.kill(os.getpid(), signal.SIGSTOP)

    with pytest.raises(LabError, match="rank 2 did not answer within 2 s during tree"):
        run_here(task_of(_job(timeout=2.0)), hook=hook)


def test_an_error_of_a_rank_is_told() -> None:
    def hook(rank: int, doing: str) -> None:
        if rank == 1:
            raise KeyError("broken")

    with pytest.raises(LabError, match="rank 1 failed: KeyError: 'broken'"):
        run_here(task_of(_job()), hook=hook)


def test_ranks_run_any_task_and_tell_what_they_do() -> None:
    def work(wires: Wires, note: Note) -> dict[str, float]:
        note("adding", share=0.5)
        total = wires.empty(1).fill_(wires.rank + 1.0)
        wires.torch.distributed.all_reduce(total)
        return {"sum": float(total)}

    heard: list[tuple[int, dict[str, object]]] = []
    found = run_here(
        Task(work=work, nodes=3, timeout=15.0), watch=lambda rank, told: heard.append((rank, told))
    )
    assert found == {"sum": 6.0}
    assert sorted(rank for rank, _ in heard) == [0, 1, 2]
    assert all(told == {"doing": "adding", "share": 0.5} for _, told in heard)


def test_a_mistake_that_ranks_find_is_told_as_it_is() -> None:
    def work(wires: Wires, _note: Note) -> None:
        raise PodsimError("17 cannot be cut in three")

    with pytest.raises(LabError, match=r"^(the last|rank 0) failed: 17 cannot be cut in three$"):
        run_here(Task(work=work, nodes=2, names={1: "the last"}, timeout=15.0))


def _joined(rank: int, world: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    told = {
        "RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, "-m", "podsim.cli", "measure", "collective", *arguments],
        env=os.environ | {key: str(value) for key, value in told.items()}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def _free() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_ranks_that_others_started_find_each_other_and_lose_one() -> None:
    """As under torchrun: rank 0 prints; when rank 1 is killed in the middle, rank 0 stops and names it."""
    port = _free()
    endless = (
        "--algo",
        "ring",
        "--sizes",
        "4K:4K",
        "--iters",
        "10000000",
        "--limit",
        "10000",
        "--timeout",
        "20",
    )
    with _joined(0, 2, port, *endless) as first, _joined(1, 2, port, *endless) as second:
        try:
            until = time.monotonic() + 60
            while _sockets(second.pid) < 6 and time.monotonic() < until:  # until the ranks have met
                time.sleep(0.05)
            time.sleep(0.5)
            second.kill()
            _, said = first.communicate(timeout=60)
        finally:
            first.kill()
            second.kill()
    assert first.returncode == 2
    assert "rank 1 died or fell silent during ring of 4,096 B; rank 0 stopped" in said


def _sockets(pid: int) -> int:
    """Sockets that a process holds open; a descriptor may close between being listed and being read."""
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(one.readlink()).startswith("socket:")
    return found


def test_a_port_in_use_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with _joined(0, 1, port, "--algo", "ring", "--timeout", "5") as rank:
            _, said = rank.communicate(timeout=60)
    assert rank.returncode == 2
    assert f"127.0.0.1:{port}: the port is in use by another program; set MASTER_PORT" in said


def test_ctrl_c_leaves_nothing_behind() -> None:
    command = [
        sys.executable, "-m", "podsim.cli", "measure", "collective", "--ranks", "2", "--algo", "ring", "--sizes", "4K:4K",
        "--iters", "10000000", "--limit", "10000",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        children = _wait_for_children(run.pid, 2)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "interrupted" in said
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_a_killed_parent_takes_its_ranks_with_it() -> None:
    command = [
        sys.executable, "-m", "podsim.cli", "measure", "collective", "--ranks", "2", "--algo", "ring", "--sizes", "4K:4K",
        "--iters", "10000000", "--limit", "10000",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        children = _wait_for_children(run.pid, 2)
        run.kill()
        run.wait()
    until = time.monotonic() + 5
    while any(_runs(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in children)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _wait_for_children(pid: int, count: int) -> list[int]:
    place = Path(f"/proc/{pid}/task/{pid}/children")
    if not place.exists():
        pytest.skip("this kernel does not list the children of a process")
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = [int(word) for word in place.read_text().split()]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError("no ranks were forked")


def test_environments_that_say_half() -> None:
    whole = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    assert started_rank({}) is None
    assert started_rank(whole).rank == 1  # type: ignore[union-attr]
    with pytest.raises(LabError, match="MASTER_PORT not"):
        started_rank({key: value for key, value in whole.items() if key != "MASTER_PORT"})
    with pytest.raises(LabError, match="do not go together"):
        started_rank(whole | {"RANK": "2"})
    with pytest.raises(LabError, match="is no number"):
        started_rank(whole | {"WORLD_SIZE": "two"})


def test_more_ranks_than_the_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(PodsimError, match="this job was started with 2"):
        measure_collective("all-reduce", ranks=4)
