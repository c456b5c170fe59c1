"""Runs that break off and go on: another layout, a killed worker, a damaged checkpoint, a full or foreign folder."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from podsim.answers.saved_run import read_run
from podsim.answers.trained import MeasuredTraining
from podsim.errors import LabError, PodsimError
from podsim.lab.checkpoint_files import latest, opened, saving, steps
from podsim.lab.ranks import run_here
from podsim.lab.training import train_run as training
from podsim.lab.training.train_job import Training
from podsim.questions.learn.train import train

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]

TOLERANCE = 1e-4
SHORT = {"sequence": 16, "backend": "gloo", "timeout": 120.0, "overrides": {"model.layers": "2"}}
EVERY = 5


def run(**given: Any) -> MeasuredTraining:
    found = train("gpt-tiny", **(SHORT | given))
    assert found is not None
    return found


def losses(found: MeasuredTraining) -> list[float]:
    return [row.loss for row in found.rows]


def test_each_layout_goes_on_where_another_broke_off(tmp_path: Path) -> None:
    """Weights and moments: losses after four changes of layout are those of a run without any."""
    whole = losses(run(steps=10))
    layouts: list[dict[str, Any]] = [
        {"tp": 2, "dp": 2, "zero": 3}, {"dp": 2, "tp": 2, "zero": 1}, {"pp": 2}, {"dp": 4, "zero": 2}, {"tp": 2},
    ]  # fmt: skip
    for place, layout in enumerate(layouts):
        found = run(steps=2 * place + 2, checkpoint=tmp_path, resume=True, micro_batch=4, **layout)
    assert losses(found) == pytest.approx(whole, rel=TOLERANCE)
    assert found.resumed == (2, 4, 6, 8)
    assert steps(tmp_path) == (2, 4, 6, 8, 10)


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    run(steps=5, checkpoint=tmp_path, every=2, keep=2)
    assert steps(tmp_path) == (4, 5)
    assert losses(run(steps=5, checkpoint=tmp_path, resume=True)) == losses(
        run(steps=5)
    )  # nothing is left to do


def test_a_run_does_not_write_over_another(tmp_path: Path) -> None:
    """It says so before its first step, not when all are done."""
    run(steps=2, checkpoint=tmp_path)
    done: list[int] = []
    with pytest.raises(LabError, match="has a checkpoint of step 2"):
        run(steps=1, checkpoint=tmp_path, progress=lambda step, _: done.append(step))
    assert not done


@pytest.mark.parametrize("small", ["4m"], indirect=True)
def test_a_full_drive_leaves_the_last_good_one(small: Path) -> None:
    root = small / "kept"
    with pytest.raises(LabError, match=r"was not written: the drive is full; step-\d is as it was"):
        run(steps=6, dp=2, zero=3, checkpoint=root, every=1)
    last = latest(root)
    assert last is not None
    assert opened(root).step == last
    assert [path.name for path in root.iterdir() if path.name.startswith(".")] == []


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    run(steps=2, checkpoint=tmp_path)
    part = next((tmp_path / "step-2").glob("*.safetensors"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(LabError, match=rf"damaged: the checksum of {part.name}"):
        run(steps=4, checkpoint=tmp_path, resume=True)


def test_a_checkpoint_is_data_and_a_pickled_one_is_refused(tmp_path: Path) -> None:
    """An index as earlier releases wrote it, whose reading would make a folder."""
    run(steps=1, checkpoint=tmp_path)
    assert {path.suffix for path in (tmp_path / "step-1").iterdir()} == {".json", ".safetensors"}
    made = tmp_path / "made"
    with saving(tmp_path, 2, layout={}) as folder:
        shutil.copytree(tmp_path / "step-1", folder, dirs_exist_ok=True, ignore=lambda *_: ["manifest.json"])
        (folder / ".metadata").write_bytes(pickle.dumps(_Command(made)))
    with pytest.raises(
        LabError, match="step-2 was written by an earlier podsim, with an index that is a pickle"
    ):
        run(steps=3, checkpoint=tmp_path, resume=True)
    assert not made.exists()


class _Command:
    """What makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_another_network_is_refused(tmp_path: Path) -> None:
    run(steps=1, checkpoint=tmp_path)
    with pytest.raises(LabError, match="layers was 2, not 3"):
        run(steps=2, checkpoint=tmp_path, resume=True, overrides={"model.layers": "3"})
    for fewer in ({"model.layers": "1"}, {"model.layers": "2", "model.heads": "2"}):
        with pytest.raises(LabError, match="is of another run"):
            run(steps=2, checkpoint=tmp_path, resume=True, overrides=fewer)
    with pytest.raises(LabError, match="batch was 16, not 8; seed was 0, not 3"):
        run(steps=2, checkpoint=tmp_path, resume=True, seed=3, batch=8)


@pytest.mark.parametrize("layers", ["1", "3"])
def test_another_network_is_refused_where_a_checkpoint_says_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: str
) -> None:
    """As in checkpoints of earlier releases."""
    with monkeypatch.context() as patch:
        patch.setattr(Training, "same", {})
        run(steps=1, checkpoint=tmp_path)
    with pytest.raises(LabError, match="does not fit this network"):
        run(steps=2, dp=2, checkpoint=tmp_path, resume=True, overrides={"model.layers": layers})
    assert losses(run(steps=2, checkpoint=tmp_path, resume=True)) == losses(run(steps=2))


def test_a_file_where_checkpoints_should_lie(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(LabError, match="taken"):
        run(steps=1, checkpoint=tmp_path / "taken")


def test_a_killed_rank_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The others stop, and the next run goes on from the last checkpoint."""

    def hook(rank: int, doing: str) -> None:
        if rank == 1 and doing == "step 4":
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(
        "podsim.lab.ranks.run_here", lambda task, watch: run_here(task, watch=watch, hook=hook)
    )
    with pytest.raises(LabError, match="rank 1 was killed by SIGKILL during step 4"):
        run(steps=8, dp=2, checkpoint=tmp_path, every=3)
    monkeypatch.undo()
    assert latest(tmp_path) == 3
    found = run(steps=8, dp=2, checkpoint=tmp_path, every=3, resume=True)
    assert found.resumed == (3,)
    assert losses(found) == pytest.approx(losses(run(steps=8, dp=2)), rel=TOLERANCE)


def test_a_loss_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "math", SimpleNamespace(isfinite=lambda loss: loss < 5.0))
    with pytest.raises(LabError, match="take a smaller --rate"):
        run(steps=1)


@pytest.fixture
def torchrun(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Two workers that check the weights in every few steps, restarted by torchrun if one dies."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2", "--rdzv-backend",
        "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "-m", "podsim.cli", "train", "--steps", "60", "--set",
        "model.layers=2", "--sequence", "16", "--checkpoint", str(tmp_path / "kept"), "--every", str(EVERY), "--keep",
        "3", "--resume", "--save", str(tmp_path / "run.jsonl"),
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "GLOO_SOCKET_IFNAME": "lo"}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as started:  # fmt: skip
        try:
            yield started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def test_a_worker_killed_under_torchrun_costs_no_more_than_an_interval(
    torchrun: subprocess.Popen[str], tmp_path: Path
) -> None:
    children = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children")
    if not children.exists():
        pytest.skip("this kernel does not list the children of a process")
    until = time.monotonic() + 120
    while (latest(tmp_path / "kept") or 0) < 2 * EVERY and time.monotonic() < until:
        assert torchrun.poll() is None, torchrun.communicate()[0]
        time.sleep(0.01)
    workers = [int(word) for word in children.read_text().split()]
    assert len(workers) == 2
    before = latest(tmp_path / "kept")
    os.kill(workers[1], signal.SIGKILL)
    said, _ = torchrun.communicate(timeout=200)
    assert torchrun.returncode == 0, said
    found = read_run(tmp_path / "run.jsonl")
    assert isinstance(found, MeasuredTraining)
    assert before is not None
    assert len(found.resumed) == 1
    assert (
        found.resumed[0] >= before
    )  # what was written last is what it went on from: at most EVERY steps are lost
    assert found.resumed[0] % EVERY == 0
    assert losses(found) == pytest.approx(losses(run(steps=60, dp=2)), rel=20 * TOLERANCE)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"resume": True}, "--resume: of checkpoints; say where"),
        ({"every": 2, "keep": 1}, "--every, --keep: of checkpoints"),
        ({"steps": 0, "rate": float("nan")}, "--steps 0; it must be 1 to 1e\\+07; --rate nan"),
        ({"save": Path("nowhere/run.jsonl")}, "there is no folder nowhere"),
        ({"backend": "mpi"}, "auto, gloo, nccl"),
        ({"exchange": "gossip"}, "unknown exchange"),
        ({"ranks": 65}, "torchrun"),
        ({"data": "nowhere.txt"}, "cannot be read"),
        ({"overrides": {"gpu.memory": "1GB"}}, "takes fields of the model"),
    ],
)
def test_misuse(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PodsimError, match=said):
        run(**given)
