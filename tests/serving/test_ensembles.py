"""Ensembles of Triton: the simulated graph, the file, and what is written for Triton."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.answers.scenario_run import EnsembleRun
from podsim.errors import NoFitError, PodsimError
from podsim.serving.batch_queue import BatchServer, poisson_gaps, simulate_queue
from podsim.serving.ensembles import Step, run_ensemble

FILE = Path(__file__).parents[2] / "examples" / "ensemble.toml"


def _step(
    name: str, seconds: float, *, after: tuple[int, ...] = (), cores: int = 0, samples: int = 1
) -> Step:
    """A step whose batches of 1 to 8 take as long, or processor work."""
    batches = np.array([1.0] if cores else [1.0, 8.0])
    server = BatchServer(batches=batches, seconds=np.full(len(batches), seconds), servers=cores or 1)
    return Step(name=name, after=after, server=server, is_model=not cores, samples=samples)


@pytest.mark.parametrize("delay", [0.0, 0.004])
def test_one_model_is_the_queue_of_batches(delay: float) -> None:
    arrivals = np.cumsum(poisson_gaps(4000)) / 300.0
    server = BatchServer(batches=np.array([1.0, 8.0]), seconds=np.array([0.01, 0.02]), servers=2, delay=delay)
    step = Step(name="model", after=(), server=server, is_model=True)
    alone, graph = simulate_queue(server, arrivals), run_ensemble([step], 2, arrivals)
    assert graph.latency == pytest.approx(alone.latency)
    assert graph.batches[0] == pytest.approx(alone.batch)


def test_a_lone_request_takes_its_longest_way() -> None:
    steps = [
        _step("decode", 0.003, cores=2), _step("left", 0.01, after=(0,), cores=1), _step("right", 0.02, after=(0,)),
        _step("join", 0.004, after=(1, 2), cores=1),
    ]  # fmt: skip
    times = run_ensemble(steps, 1, np.zeros(1))
    assert times.latency == pytest.approx([0.027])
    assert times.spent == pytest.approx([0.003, 0.01, 0.02, 0.004])


def test_models_share_the_gpus() -> None:
    steps = [_step("left", 0.01), _step("right", 0.02)]
    times = run_ensemble(steps, 1, np.zeros(1))
    assert times.latency == pytest.approx([0.03])
    assert run_ensemble(steps, 2, np.zeros(1)).latency == pytest.approx([0.02])


def test_more_samples_of_a_request_are_smaller_batches() -> None:
    assert run_ensemble([_step("name", 0.01, samples=4)], 1, np.zeros(8)).batches == pytest.approx([2.0])


def test_the_example_is_served_and_written_for_triton(tmp_path: Path) -> None:
    run = podsim.serve(str(FILE), on="a100-40gb", latency="100ms", triton=tmp_path)
    assert isinstance(run, EnsembleRun)
    assert run.lone < run.latency <= 0.1
    assert run.rate <= run.capacity
    assert run.points[0].p99 < run.points[-1].p99
    graph = (tmp_path / "find_and_name" / "config.pbtxt").read_text("utf-8")
    assert 'platform: "ensemble"' in graph
    assert "instance_group" not in graph
    assert graph.count("model_name") == 4
    assert "instance_group" in (tmp_path / "find" / "config.pbtxt").read_text("utf-8")
    assert "KIND_CPU" in (tmp_path / "decode" / "config.pbtxt").read_text("utf-8")
    assert (tmp_path / "find" / "1").is_dir()


def test_a_limit_below_a_lone_request_cannot_be_kept() -> None:
    with pytest.raises(NoFitError, match="a lone request takes"):
        podsim.serve(str(FILE), on="a100-40gb", latency="1ms")
    with pytest.raises(NoFitError, match="are more than"):
        podsim.serve(str(FILE), on="t4", rate="5000/s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has 1 to 64 tables"),
        ("[[step]", "is not TOML"),
        ('[[step]]\nname = "a"\nmodel = "resnet50"\nafter = ["b"]', "unknown step 'b'"),
        ('[[step]]\nname = "a"\nmodel = "resnet50"\nafter = ["a"]', "waits for another"),
        ('[[step]]\nname = "a"', "give a model, or the seconds"),
        ('[[step]]\nname = "a"\nmodel = "resnet50"\nbatch = "8"', "batch='8' must be a whole number"),
        ('[[step]]\nname = "a"\nseconds = "-1 s"', "0 s to 60 s"),
        ('[[step]]\nname = "a"\nmodel = "resnet50"\nbatches = 8', "unknown key 'batches'"),
        ('[[step]]\nname = "a"\nmodel = "resnet5"', "unknown model"),
    ],
)
def test_what_is_no_ensemble_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "ensemble.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(PodsimError, match=words):
        podsim.serve(str(path), on="t4")


def test_an_ensemble_takes_no_option_of_one_network() -> None:
    with pytest.raises(PodsimError, match="scenario: not of an ensemble"):
        podsim.serve(str(FILE), on="t4", scenario="server")
