"""Parts of the lab that start no process, by hand."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.errors import LabError
from podsim.lab import port_counters
from podsim.lab.checkpoint_files import CheckpointError, begin, latest, part_of, saving, steps
from podsim.lab.places import place_of
from podsim.lab.ranks import _first_line
from podsim.lab.sparse.click_network import ClickNetwork
from podsim.lab.training import batches
from podsim.lab.training.metrics_log import MetricsLog
from podsim.lab.training.parameter_servers import _Server
from podsim.lab.training.rank_layout import _copies
from podsim.lab.training.shards import FORMAT, Shard, _overlap, _shards_of


def test_gradients_of_the_click_network_are_those_of_differences() -> None:
    random = np.random.default_rng(0)
    network = ClickNetwork(3, 2, 4)
    weights = network.first_weights(1)
    numbers, pooled = random.normal(size=(5, 3)), random.normal(size=(5, 2, 4))
    clicked = np.array([0.0, 1, 1, 0, 1])

    def loss(weights: Any, pooled: Any) -> float:
        return network.gradients(weights, numbers, pooled, clicked).loss

    found = network.gradients(weights, numbers, pooled, clicked)
    for place in random.choice(len(weights), 40, replace=False):
        step = np.zeros(len(weights))
        step[place] = 1e-6
        slope = (loss(weights + step, pooled) - loss(weights - step, pooled)) / 2e-6
        assert found.weights[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)
    for place in np.ndindex(pooled.shape):
        step = np.zeros(pooled.shape)
        step[place] = 1e-6
        slope = (loss(weights, pooled + step) - loss(weights, pooled - step)) / 2e-6
        assert found.pooled[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)
    zero = np.zeros(len(weights))
    assert loss(zero, pooled) == pytest.approx(5 * np.log(2))  # neither answer is likelier
    biases = [index for index, shape in enumerate(network.shapes) if len(shape) == 1]
    ends = np.cumsum([np.prod(shape) for shape in network.shapes])
    assert all(not weights[ends[index] - network.shapes[index][0] : ends[index]].any() for index in biases)


def test_steps_of_which_there_is_a_checkpoint(tmp_path: Path) -> None:
    assert (steps(tmp_path / "none"), latest(tmp_path / "none")) == ((), None)
    for name in ("step-10", "step-9", ".step-11.part", "step-x", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-12").write_text("no folder")
    assert (steps(tmp_path), latest(tmp_path)) == ((9, 10), 10)


def test_what_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="steps count from 0"):
        begin(tmp_path, -1)
    for wrong in (KeyError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(wrong)), saving(tmp_path, 0, layout={}) as part:  # noqa: PT012
            assert part == part_of(tmp_path, 0)
            (part / "a").write_bytes(b"1")
            raise wrong
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(CheckpointError), saving(tmp_path, 0, layout={}):
        raise OSError(28, "no space")
    assert list(tmp_path.iterdir()) == []
    with saving(tmp_path, 0, layout={"dp": 2}) as part:
        (part / "a").write_bytes(b"1")
    assert steps(tmp_path) == (0,)
    with pytest.raises(CheckpointError, match="has a checkpoint of step 0"):
        begin(tmp_path, 0)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[a.cc:1] [x] the peer is gone. This is typically caused by y\nmore", "the peer is gone"),
        ("plain", "plain"),
        ("ends in] ", "ends in]"),
    ],
)
def test_the_first_line_of_what_a_backend_raises(text: str, line: str) -> None:
    assert _first_line(RuntimeError(text)) == line


def server(replicas: int, steps: int, order: list[int], exchange: str, staleness: int) -> Any:
    """A server to which replicas send in an order; what it says to whom, and which updates it makes."""
    made: Any = SimpleNamespace(
        job=SimpleNamespace(steps=steps, exchange=exchange, staleness=staleness), replicas=replicas, updates=0,
        late=dict.fromkeys(range(99), 0), sent=[0] * replicas, clock=[0] * replicas, log=[],
    )  # fmt: skip
    arriving = iter(order)

    def receive() -> tuple[int, int]:
        replica = next(arriving)
        return replica, replica

    def update(gradients: Any) -> None:
        made.updates += 1
        made.log.append(f"update {gradients}")

    def reply(replica: int) -> None:
        made.sent[replica] = made.updates
        made.log.append(f"reply {replica}")

    made.receive, made.update, made.reply = receive, update, reply
    return made


def test_free_running_replicas_are_answered_at_once_and_bounded_ones_wait() -> None:
    free = server(2, 2, [0, 0, 1, 1], "async", 0)
    _Server.run_free(free)
    assert free.log == [
        "update 0",
        "reply 0",
        "update 0",
        "reply 0",
        "update 1",
        "reply 1",
        "update 1",
        "reply 1",
    ]
    assert [free.late[k] for k in range(4)] == [3, 0, 1, 0]  # replica 1 had read before two updates
    bounded = server(2, 2, [0, 0, 1, 1], "ssp", 1)
    _Server.run_free(bounded)
    assert bounded.log == [
        "update 0",
        "reply 0",
        "update 0",
        "update 1",
        "reply 0",
        "reply 1",
        "update 1",
        "reply 1",
    ]


def test_copies_of_weights_are_a_tensor_group_apart() -> None:
    assert _copies(stage=1, tensor=1, tp=2, dp=3) == (7, 9, 11)


def test_a_cable_leads_where_the_address_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_counters.links, "hardware_address", lambda rank, _: f"address {rank}")
    made: Any = SimpleNamespace(ranks=8, local=4)
    (row,) = port_counters._cable(made, 1, "address 6")
    assert (row.port, row.neighbour, row.expected, row.owner) == (
        "spine port 1",
        "node1/nic2",
        "node0/nic1",
        "1",
    )
    assert port_counters._cable(made, 1, "address 9") == []


class _File:
    """An open file of one tensor."""

    def __init__(self, form: str, shape: list[int], offset: list[int]) -> None:
        self.header = {"format": form, "shards": json.dumps({"w": {"shape": shape, "offset": offset}})}

    def metadata(self) -> dict[str, str]:
        return self.header

    def keys(self) -> list[str]:
        return ["w"]

    def get_slice(self, _: str) -> Any:
        return SimpleNamespace(get_shape=lambda: [2, 3])


def test_shards_of_a_file() -> None:
    (shard,) = _shards_of(_File(FORMAT, [4, 3], [2, 0])).values()
    assert (shard.shape, shard.offset, shard.size) == ((4, 3), (2, 0), (2, 3))
    with pytest.raises(ValueError, match="its format is other"):
        _shards_of(_File("other", [4, 3], [2, 0]))
    with pytest.raises(ValueError, match="w has 2 axes, and 1 in the header"):
        _shards_of(_File(FORMAT, [4], [2]))
    first, second = Shard(shape=(8,), offset=(0,), size=(4,)), Shard(shape=(8,), offset=(3,), size=(5,))
    both = _overlap(first, second)
    assert both is not None
    assert (both.offset, both.size) == ((3,), (1,))
    assert _overlap(first, Shard(shape=(8,), offset=(4,), size=(4,))) is None


def test_folders_of_images_are_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, grey in (("b", 255), ("a", 0)):
        (tmp_path / name).mkdir()
        image.new("RGB", (8, 6), (grey, grey, grey)).save(tmp_path / name / "1.png")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    found = batches.Images(tmp_path, 4, 0)
    assert ([label for _, label in found.files], found.classes) == ([0, 1], 2)
    pictures, labels = found.batch(0, 16)
    assert {(label, float(picture.max())) for picture, label in zip(pictures, labels, strict=True)} == {
        (0, -2.0),
        (1, 2.0),
    }
    monkeypatch.setattr(batches, "_MOST_IMAGES", 2)
    batches.Images(tmp_path, 4, 0)
    monkeypatch.setattr(batches, "_MOST_IMAGES", 1)
    with pytest.raises(LabError, match="2 images; at most 1 are read"):
        batches.Images(tmp_path, 4, 0)


@pytest.mark.parametrize("name", ["run.jsonl", "run.csv"])
def test_a_line_of_metrics_when_all_ranks_have_done_a_step(tmp_path: Path, name: str) -> None:
    """Eight samples of 10 tokens in the 2 s of the slower rank; the loss is the mean of those that have one."""
    job: Any = SimpleNamespace(
        ranks=2,
        plan=SimpleNamespace(global_batch=8),
        network=SimpleNamespace(sequence=10),
        rate=0.5,
        warmup=0,
    )
    log = MetricsLog(tmp_path / name, job)
    log.hear(0, {"doing": "the start"})
    for step in (1, 2):
        log.hear(0, {"done": step, "loss": 1.0, "seconds": 1.0})
        assert len((tmp_path / name).read_text().splitlines()) == (step - 1) + (name == "run.csv") * (
            step > 1
        )
        log.hear(1, {"done": step, "loss": None if step == 2 else 3.0, "seconds": 2.0})
        log.hear(2, {"done": step, "loss": 9.0, "seconds": 9.0})  # no rank of the job
    text = (tmp_path / name).read_text()
    rows = (
        list(csv.DictReader(text.splitlines()))
        if name == "run.csv"
        else [json.loads(x) for x in text.splitlines()]
    )
    keys = ("step", "loss", "step_seconds", "samples_per_second", "tokens_per_second", "learning_rate")
    assert [[float(row[key]) for key in keys] for row in rows] == [
        [0, 2, 2, 4, 40, 0.5],
        [1, 1, 2, 4, 40, 0.5],
    ]
    assert abs(float(rows[0]["time"]) - time.time()) < 60
    MetricsLog(tmp_path / name, job)
    assert (tmp_path / name).read_text() == ""


def test_a_file_that_is_not_there_is_taken_away_quietly(tmp_path: Path) -> None:
    place = place_of(str(tmp_path))
    with place.writing(str(tmp_path / "a")) as file:
        file.write(b"12")
    with place.reading(str(tmp_path / "a")) as file:
        assert file.read() == b"12"
    for _ in range(2):
        place.remove(str(tmp_path / "a"))
        assert list(tmp_path.iterdir()) == []
