"""Clusters in network namespaces: what is asked for is laid, carried and shaped, and nothing stays behind."""

from __future__ import annotations

import codecs
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result

from podsim.answers.saved_run import read_run
from podsim.errors import ClusterError, LabError, PodsimError
from podsim.lab import emulated_cluster as stage
from podsim.lab import links
from podsim.lab.emulated_links import emulated_cluster, warnings_of
from podsim.lab.namespaces import unable
from podsim.lab.processes import end_of, fork
from podsim.questions.operate.emulate import emulate

PAIR = {"gpus_per_node": "1", "nics": "1"}
SQUARE = {"gpus_per_node": "2", "nics": "2"}
SHARED = {"gpus_per_node": "2", "nics": "1"}
TALK = """
import os, socket, sys
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
own = f"10.77.{os.environ['GROUP_RANK']}.{int(os.environ['LOCAL_RANK']) + 1}"
here = socket.create_server((own, 7000))
for other in range(world):
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    far = f"10.77.{other // local}.{other % local + 1}"
    for _ in range(200):
        try:
            with socket.create_connection((far, 7000), timeout=5) as line:
                assert line.getsockname()[0] == own
            break
        except ConnectionRefusedError:
            import time; time.sleep(0.02)
    else:
        sys.exit(f"rank {rank} cannot reach {far}")
for _ in range(world):
    here.accept()
"""


def test_rates_are_the_clusters_scaled_down() -> None:
    made = emulated_cluster("dgx-a100:2", scale="1/1000")
    assert (made.servers, made.local, made.nics) == (2, 8, 8)
    assert made.inside == pytest.approx(300e6)
    assert made.between == pytest.approx(25e6)
    assert made.between_burst == 128 << 10
    assert made.inside_burst == 150_000
    whole = emulated_cluster("dgx-a100:2", scale="1/1000", per="server")
    assert (whole.local, whole.nics) == (1, 1)
    assert whole.between == pytest.approx(200e6)
    shared = emulated_cluster("dgx-a100:2", scale="0.001", overrides={"nics": "4"})
    assert shared.nics == 4
    assert shared.between == pytest.approx(25e6)


def test_what_the_cores_cannot_do_is_said() -> None:
    (said,) = warnings_of(emulated_cluster("dgx-a100:2", scale="1/100"))
    assert "16 ranks at 24 Gb/s are 384 Gb/s" in said
    assert warnings_of(emulated_cluster("dgx-a100:2", scale="1/100000")) == ()
    # a server that is one process sends by its eight adapters of 200 Gb/s, not by NVLink
    (said,) = warnings_of(emulated_cluster("dgx-a100:2", scale="1", per="server"))
    assert "2 ranks at 1.6e+03 Gb/s are 3.2e+03 Gb/s" in said
    assert "inside a server" not in said


@pytest.mark.parametrize(
    ("cluster", "named", "said"),
    [
        ("dgx-a100:2", {"scale": "0"}, "--scale '0'; expected a share"),
        ("dgx-a100:2", {"scale": "2"}, "at most 1"),
        ("dgx-a100:2", {"scale": "1/x"}, "such as 1/500"),
        ("dgx-a100:2", {"per": "rack"}, "gpu or server"),
        ("dgx-a100:1", {"per": "server"}, "emulating needs two or more"),
        ("dgx-a100:2", {"scale": "1/100000000"}, "the slowest worth shaping"),
        ("dgx-a199:2", {}, "unknown"),
    ],
)
def test_misuse(cluster: str, named: dict[str, str], said: str) -> None:
    with pytest.raises(PodsimError, match=said):
        emulated_cluster(cluster, **named)  # type: ignore[arg-type]


def test_too_many_ranks_and_no_command_are_one_error() -> None:
    made = emulated_cluster("dgx-a100:16", scale="1/1000")
    with pytest.raises(LabError, match=r"128 ranks; at most 64.*no-such-thing: no such command"):
        stage.perform(made, ["no-such-thing"])
    assert issubclass(ClusterError, PodsimError)


def test_commands_of_a_shared_adapter_by_hand() -> None:
    """Two servers of two ranks that share an adapter of 1 Mb/s: 2 % for acknowledgements, the rest in equal leaves."""
    made = emulated_cluster("dgx-a100:2", scale="1/200000", overrides=SHARED)
    text = list(links.fabric_shapes(made))
    assert "qdisc add dev up0n0 root handle 1: htb default 2" in text
    assert any("dev up0n0 parent 1:1 classid 1:2 htb rate 20000bit ceil 1000000bit" in one for one in text)
    leaves = [one for one in text if "dev up0n0 parent 1:1 classid 1:1" in one and "prio 1" in one]
    assert len(leaves) == 2
    assert all("htb rate 490000bit ceil 1000000bit" in one for one in leaves)
    senders = [one.split("src ")[1].split("/")[0] for one in text if "dev dn0n0" in one and "src" in one]
    assert senders == ["10.77.1.1", "10.77.1.2"], "what comes down to a server was sent by the others"
    assert not any("dev ex" in one for one in text)
    own = list(links.fabric_shapes(emulated_cluster("dgx-a100:2", scale="1/200000", overrides=SQUARE)))
    roots = [one.split()[3] for one in own if one.startswith("qdisc") and "root" in one]
    assert sorted(roots) == sorted(f"{kind}{rank}" for kind in ("in", "ex") for rank in range(4))


@pytest.mark.usefixtures("spaces")
@pytest.mark.parametrize("overrides", [PAIR, SQUARE, SHARED], ids=["pair", "square", "shared"])
def test_every_rank_reaches_every_rank_under_its_own_address(overrides: dict[str, str]) -> None:
    before = _links()
    assert emulate("dgx-a100:2", [sys.executable, "-c", TALK], scale="1/4000", overrides=overrides) == 0
    assert _links() == before


@pytest.mark.usefixtures("spaces")
def test_a_server_can_be_one_process() -> None:
    script = "import os; assert os.environ['LOCAL_WORLD_SIZE'] == '1'; assert os.environ['WORLD_SIZE'] == '3'"
    assert emulate("dgx-a100:3", [sys.executable, "-c", script], scale="1/4000", per="server") == 0


@pytest.mark.usefixtures("spaces")
def test_links_hold_their_rates() -> None:
    """The rates that the kernel says it holds, read back in a rank's namespace."""
    script = (
        "import subprocess, sys\n"
        "said = {d: subprocess.run(['tc', 'class', 'show', 'dev', d], capture_output=True, text=True).stdout "
        "for d in ('eth0', 'eth1')}\n"
        "sys.exit(0 if 'root rate 600Mbit ceil 600Mbit' in said['eth0'] "
        "and 'root rate 50Mbit ceil 50Mbit' in said['eth1'] "
        "and 'burst 128Kb' in said['eth1'] else 5)"
    )
    assert emulate("dgx-a100:2", [sys.executable, "-c", script], scale="1/4000", overrides=PAIR) == 0


@pytest.mark.usefixtures("spaces")
def test_status_and_name_of_a_rank_that_fails() -> None:
    quits = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(60)"
    start = time.monotonic()
    assert emulate("dgx-a100:2", [sys.executable, "-c", quits], scale="1/4000", overrides=PAIR) == 7
    assert time.monotonic() - start < 30, "the others are stopped"
    dies = "import os, time; os.kill(os.getpid(), 9) if os.environ['RANK'] == '1' else time.sleep(60)"
    with pytest.raises(LabError, match="rank 1 was killed by SIGKILL; the other ranks were stopped"):
        emulate("dgx-a100:2", [sys.executable, "-c", dies], scale="1/4000", overrides=PAIR)


def _links() -> list[str]:
    return sorted(one.name for one in Path("/sys/class/net").iterdir())


def _descendants(pid: int) -> set[int]:
    found, waiting = set(), [pid]
    while waiting:
        one = waiting.pop()
        try:
            children = [int(w) for w in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except OSError:
            continue
        found |= set(children)
        waiting += children
    return found


def _asleep(pids: set[int]) -> list[int]:
    """Those of these processes that are ranks: they run sleep."""
    found = []
    for pid in pids:
        with suppress(OSError):
            found += [pid] * (Path(f"/proc/{pid}/comm").read_text().strip() == "sleep")
    return found


@pytest.mark.usefixtures("spaces")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_an_end_of_any_kind_leaves_nothing_behind(number: signal.Signals) -> None:
    """Ctrl-C, a polite request, and a crash: no process, no namespace, no link."""
    before = _links()
    command = [
        sys.executable, "-m", "podsim.cli", "emulate", "dgx-a100:2", "--set", "gpus_per_node=1", "--set", "nics=1",
        "--scale", "1/4000", "--", "sh", "-c", "sleep 60 & setsid sleep 60 & wait",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        until, below = time.monotonic() + 30, set[int]()
        while len(ranks := _asleep(below)) < 4 and time.monotonic() < until:
            below = _descendants(run.pid)
            time.sleep(0.05)
        spaces = {Path(f"/proc/{pid}/ns/net").readlink() for pid in ranks}
        assert len(ranks) == 4
        assert len(spaces) == 2, "each rank has a namespace of its own"
        assert Path("/proc/self/ns/net").readlink() not in spaces
        run.send_signal(number)
        run.wait(timeout=60)
    assert run.returncode == (130 if number != signal.SIGKILL else -9)
    _all_gone(below)
    assert _links() == before


def _all_gone(pids: set[int]) -> None:
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.usefixtures("spaces")
@pytest.mark.parametrize("end", ["exit 0", "exit $RANK", "kill -9 $$"])
def test_what_a_command_leaves_in_the_background_is_stopped(tmp_path: Path, end: str) -> None:
    command = ["sh", "-c", f"setsid sleep 60 & echo $! > {tmp_path}/$RANK; {end}"]
    with suppress(LabError):  # a killed rank is told of
        emulate("dgx-a100:2", command, scale="1/4000", overrides=PAIR)
    _all_gone({int(path.read_text()) for path in tmp_path.iterdir()})


def _become_nobody() -> None:
    codecs.lookup("ascii")  # Python itself may lie where only root can read, and loads encodings late
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    # a program that a user starts is his own in /proc; one that changes its user is root's until it says this
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def test_an_ordinary_user_leaves_nothing_behind_either() -> None:
    """The command killed, in a user namespace: its ranks go, too."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    made = emulated_cluster("dgx-a100:2", scale="1/4000", overrides=PAIR)

    def ordinary() -> int:
        _become_nobody()
        return 1 if unable() else stage.perform(made, ["sleep", "60"])

    pid, until, below = fork(ordinary), time.monotonic() + 30, set[int]()
    while len(_asleep(below)) < 2 and Path(f"/proc/{pid}/exe").exists() and time.monotonic() < until:
        below = _descendants(pid)
        time.sleep(0.05)
    if not _asleep(below):
        os.waitpid(pid, 0)
        pytest.skip("ordinary users get no namespaces here")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    _all_gone(below)


def test_without_the_right_to_make_namespaces_it_says_so(
    podsim: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "unable", lambda: "it needs CAP_NET_ADMIN")
    done = podsim("emulate", "dgx-a100:2", "--scale", "1/100000", "--", "true")
    assert done.exit_code == 2
    assert "cannot emulate a cluster: it needs CAP_NET_ADMIN" in done.stderr
    assert "podsim measure collective still runs" in done.stderr


def test_an_ordinary_user_gets_a_user_namespace_or_a_reason() -> None:
    """Tried as a user without any capability: it works, or the reason names the capability. It never breaks."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    made = emulated_cluster("dgx-a100:2", scale="1/4000", overrides=PAIR)

    def ordinary() -> int:
        _become_nobody()
        why = unable()
        return int("CAP_NET_ADMIN" not in why) if why else stage.perform(made, ["true"])

    assert end_of(os.waitpid(fork(ordinary), 0)[1]) == ""


def test_no_command_is_misuse(podsim: Callable[..., Result]) -> None:
    assert podsim("emulate", "dgx-a100:2").exit_code == 2
    done = podsim("emulate", "dgx-a100:2", "--scale", "1/100000", "--", "no-such-command")
    assert done.exit_code == 2
    assert "no-such-command: no such command" in done.stderr


@pytest.mark.torch
@pytest.mark.usefixtures("spaces", "torch")
def test_a_collective_on_emulated_links(podsim: Callable[..., Result], tmp_path: Path) -> None:
    """The whole way: two servers of one rank, a ring and the library's own, measured, kept, and compared."""
    from podsim.questions.operate.compare import compare

    kept = tmp_path / "run.jsonl"
    done = podsim(
        "emulate", "dgx-a100:2", "--set", "gpus_per_node=1", "--set", "nics=1", "--scale", "1/4000", "--",
        "podsim", "measure", "collective", "--algo", "ring,library", "--sizes", "64K:256K:4", "--iters", "2", "--apart",
        "--no-in-place", "--save", kept,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    run = read_run(kept)
    assert run.emulated is not None
    assert (run.ranks, run.local, run.backend) == (2, 1, "gloo")
    assert all(row.wrong == 0 for row in run.rows)
    found = compare(kept)
    assert len(found.rows) == 4
    for row in found.rows:
        assert row.predicted == pytest.approx(sum(row.parts.values()) - row.parts["rest"])
        assert row.measured == pytest.approx(row.predicted + row.parts["rest"])
