"""Ranks measure this machine for real, and the entry that comes of it predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from podsim.answers.host import MeasuredHost
from podsim.errors import LabError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.lab.host_rates import COLLECTIVES, LINEARS, Measuring, measure_ranks
from podsim.lab.ranks import Note, Task, run_here
from podsim.lab.resnet import RECORD, Training, train_resnet, write_records
from podsim.lab.wires import Wires
from podsim.questions.operate.measure_host import measure_host
from podsim.questions.train.predict import predict

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]
SMALL = {
    "model.layers": "2",
    "model.hidden": "128",
    "model.heads": "2",
    "model.sequence": "64",
    "model.vocab": "512",
}


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> tuple[MeasuredHost, Path]:
    """A quick measurement by two ranks."""
    path = tmp_path_factory.mktemp("host") / "host.toml"
    found = measure_host(
        ranks=2,
        name="here",
        seconds=0.002,
        disk=False,
        images=False,
        backend="gloo",
        save=path,
        timeout=120.0,
    )
    return found, path


@pytest.mark.long
def test_everything_is_measured(entry: tuple[MeasuredHost, Path]) -> None:
    found, _ = entry
    assert (found.ranks, found.device, found.name) == (2, "CPU", "here")
    assert all(one.seconds > 0 for one in found.kernels)
    assert {one.name for one in found.kernels} == {
        "product", "linear", "stream", "launch", "norm", "activation", "residual", "loss", "attention", "optimizer",
    }  # fmt: skip
    assert [one.shape for one in found.kernels if one.name == "linear" and one.precision == "fp32"] == list(
        LINEARS
    )
    assert {one.collective for one in found.sends} == set(COLLECTIVES)
    assert all(one.seconds > 0 and one.ranks == 2 for one in found.sends)
    assert set(found.runtime) == {
        *(f"{wide}layer over {ranks}" for wide in ("", "wide ") for ranks in (1, 2)), "stage", "update", "step",
        "layer under ZeRO 3", "wide layer under ZeRO 3",
    }  # fmt: skip
    assert all(seconds >= 0 for seconds in found.runtime.values())
    assert found.peaks["fp32"] > 1e8
    assert 0 <= found.error < 1
    assert found.disk == {}
    assert "the disk was not measured (--no-disk)" in found.notes


@pytest.mark.long
def test_the_entry_predicts(entry: tuple[MeasuredHost, Path]) -> None:
    found, path = entry
    assert path.read_text("utf-8") == found.entry
    cluster = load_cluster(str(path))
    assert (cluster.name, cluster.gpus) == ("here", 2)
    told = predict("gpt2", on=str(path), batch=8, dp=2, micro_batch=4, overrides=SMALL)
    assert told.fits
    assert (told.plan["software"], told.plan["precision"]) == ("pytorch-eager", "fp32")
    assert 1e-4 < told.step_time < 100
    assert cluster.host is not None
    assert [one.ranks for one in (*cluster.host.syncs, *cluster.host.shards)] == [2, 2]
    # twice the work takes between the same and twice the time: what is only paid once a step stays
    more = predict("gpt2", on=str(path), batch=16, dp=2, micro_batch=4, overrides=SMALL)
    assert told.step_time < more.step_time < 2 * told.step_time


def test_the_command_prints_and_saves(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    path = tmp_path / "h.toml"
    args = ("measure", "host", "--ranks", 1, "--no-disk", "--no-images", "--seconds", "0.001", "--save", path)
    result = podsim(*args, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["ranks"] == 1
    assert told["sends"] == []
    assert load_cluster(str(path)).gpus == 1
    assert set(told["runtime"]) == {"layer over 1", "wide layer over 1", "update", "step"}
    assert predict("gpt2", on=str(path), batch=2, overrides=SMALL).fits


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ranks": 0}, "--ranks 0; 1 to 64"), ({"ranks": 65}, "--ranks 65; 1 to 64"),
        ({"save": Path("host.json")}, r"--save host\.json: give the name of a \.toml file"),
        ({"folder": Path("/no/such")}, "there is no such folder"), ({"seconds": 0.0}, "--seconds 0; it must be at least"),
        ({"name": "x" * 61}, "a name of up to 60 letters"),
    ],
)  # fmt: skip
def test_wrong_arguments_say_what_would_work(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(PodsimError, match=problem):
        measure_host(**given)


def test_a_rank_that_fails_is_named() -> None:
    def work(wires: Wires, note: Note) -> Any:
        if wires.rank == 1:
            raise OSError("no memory left on this rank")
        return measure_ranks(Measuring(seconds=0.001, precisions=("fp32",)), wires, note)

    with pytest.raises(LabError, match="rank 1 failed: OSError: no memory left on this rank"):
        run_here(Task(work=work, nodes=2, timeout=20.0, backend="gloo"))


@pytest.mark.parametrize("ranks", [1, 2])
def test_resnet_50_trains(tmp_path: Path, ranks: int) -> None:
    path = tmp_path / "records"
    write_records(path, 2 * ranks)
    assert path.stat().st_size == 2 * ranks * RECORD
    training = Training(records=path, image=32, batch=2, steps=1, epochs=2)
    told = run_here(
        Task(work=lambda w, n: train_resnet(training, w, n), nodes=ranks, timeout=120.0, backend="gloo")
    )
    assert told["parameters"] == 25_557_032  # He et al. 2015, with 1000 classes
    assert len(told["rates"]) == 2
    assert all(rate > 0 for rate in told["rates"])
