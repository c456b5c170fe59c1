"""LARS and LAMB against their published formulas; warm-up; averaged weights; measured gradients."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.errors import PlanError
from podsim.lab.training.local_steps import LocalSteps
from podsim.lab.training.optimizers import make_optimizer
from podsim.questions.learn.large_batch import scale_batch
from podsim.questions.learn.train import train

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("torch")]
SHORT: dict[str, Any] = {
    "steps": 4, "sequence": 16, "batch": 8, "backend": "gloo", "timeout": 120.0, "overrides": {"model.layers": "1"},
}  # fmt: skip


def lars(weights: Any, grads: Any, rate: float) -> Any:
    """You, Gitman and Ginsburg 2017, algorithm 1, in numpy."""
    speed = np.zeros_like(weights)
    for grad in grads:
        length, slope, decay = np.linalg.norm(weights), np.linalg.norm(grad), 1e-4
        share = 1e-3 * length / (slope + decay * length)
        speed = 0.9 * speed + rate * share * (grad + decay * weights)
        weights = weights - speed
    return weights


def lamb(weights: Any, grads: Any, rate: float) -> Any:
    """You et al. 2020, algorithm 2, in numpy."""
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for count, grad in enumerate(grads, 1):
        mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad**2
        step = mean / (1 - 0.9**count) / (np.sqrt(square / (1 - 0.999**count)) + 1e-6) + 0.01 * weights
        weights = weights - rate * np.linalg.norm(weights) / np.linalg.norm(step) * step
    return weights


@pytest.mark.parametrize(("name", "law", "rate"), [("lars", lars, 5.0), ("lamb", lamb, 0.02)])
def test_steps_are_those_of_the_paper(name: str, law: Any, rate: float) -> None:
    torch = pytest.importorskip("torch")
    draws = np.random.default_rng(1)
    weights, grads = draws.normal(size=(6, 5)), draws.normal(size=(7, 6, 5))
    tensor = torch.nn.Parameter(torch.tensor(weights))
    optimizer = make_optimizer(name, [tensor], rate)
    for grad in grads:
        tensor.grad = torch.tensor(grad)
        optimizer.step()
    assert tensor.detach().numpy() == pytest.approx(law(weights, grads, rate), rel=1e-12)


def losses(**changes: Any) -> list[float]:
    run = train(**SHORT | changes)
    assert run is not None
    return [row.loss for row in run.rows]


@pytest.mark.parametrize("name", ["sgd", "lamb"])
def test_layouts_agree(name: str) -> None:
    alone = losses(optimizer=name, rate=0.05, warmup=2)
    assert losses(optimizer=name, rate=0.05, warmup=2, dp=2, zero=1) == pytest.approx(alone, rel=1e-4)
    assert losses(optimizer=name, rate=0.05, warmup=2, dp=2, exchange="ps") == pytest.approx(alone, rel=1e-4)
    assert alone[-1] < alone[0]


@pytest.mark.parametrize(("exchange", "rate", "momentum"), [("local", 1.0, 0.0), ("diloco", 0.7, 0.9)])
def test_outer_steps_are_those_of_the_papers(
    exchange: str, rate: float, momentum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stich 2019, algorithm 1: the mean. Douillard et al. 2023, algorithm 1: Nesterov on the mean movement."""
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 2, dtype=torch.float64)
    draws = np.random.default_rng(2)
    moves = draws.normal(size=(3, 2, 8))  # of each round, of both replicas
    job = SimpleNamespace(exchange=exchange, local_steps=4, steps=100)
    layout = SimpleNamespace(parameters=lambda: list(layer.named_parameters()))
    local = LocalSteps(job, SimpleNamespace(torch=torch, group=None, world=2), layout)  # type: ignore[arg-type]
    common, speed = local.common.numpy().copy(), np.zeros(8)
    for number, (mine, other) in enumerate(moves):
        monkeypatch.setattr(
            torch.distributed,
            "all_reduce",
            lambda flat, group, sent=common + other: flat.add_(torch.tensor(sent)),
        )
        torch.nn.utils.vector_to_parameters(torch.tensor(common + mine), layer.parameters())
        local.exchange(4 * number + 2)  # no end of a round
        local.exchange(4 * number + 3)
        gradient = -(mine + other) / 2
        speed = momentum * speed + gradient
        common = common - rate * (gradient + momentum * speed)
        held = torch.nn.utils.parameters_to_vector(layer.parameters()).detach().numpy()
        assert held == pytest.approx(common, rel=1e-12)


def test_replicas_of_own_steps_learn() -> None:
    given = {"rate": 0.01, "dp": 2, "steps": 6, "local_steps": 2}
    for exchange in ("local", "diloco"):
        run = losses(**given, exchange=exchange)
        assert run[-1] < run[0]


def test_a_run_gives_its_noise_scale(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    plain = losses(dp=2, steps=6)
    assert losses(dp=2, steps=6, micro_batch=2, noise_scale=True, save=path) == pytest.approx(plain, rel=1e-4)
    assert 0 < scale_batch(path).critical < 1e4
    losses(steps=1, save=path)
    with pytest.raises(Exception, match="--noise-scale"):
        scale_batch(path)


def test_what_cannot_run() -> None:
    for given, why in (
        ({"optimizer": "lion"}, "unknown optimizer"), ({"optimizer": "lamb", "dp": 2, "zero": 3}, "whole tensors"),
        ({"noise_scale": True, "micro_batch": 8}, "two micro-batches"), ({"exchange": "local", "dp": 2}, "local-steps"),
        ({"rate_rule": "sqrt"}, "--base-batch"), ({"local_steps": 4}, "local and diloco"),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=why):
            train(**SHORT | given)


def test_pruned_and_trained_on(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "batch": 32, "micro_batch": 32, "steps": 150, "overrides": {"model.layers": "1"}, "sequence": 32,
    }  # fmt: skip
    kept = tmp_path / "kept"
    run = train(**SHORT | given | {"prune_at": 90, "test_samples": 256, "checkpoint": kept, "keep": 1})
    assert run is not None
    shares = run.accuracy
    assert abs(shares["end"] - shares["dense"]) < 0.005  # the bar: half a point
    assert 0.7 < shares["kept"] < 0.8  # of a normal distribution 0.763
    (file,) = kept.rglob("rank-0.safetensors")
    weights = safetensors_numpy().load_file(file)
    matrix = weights["weights.layers.0.mlp.up.weight"]
    assert ((matrix.reshape(-1, 4) != 0).sum(axis=1) == 2).all()
    assert (weights["weights.tokens.weight"] != 0).mean() > 0.9
    again = train(**SHORT | given | {"prune_at": 90, "steps": 152, "checkpoint": kept, "resume": True})
    assert again is not None  # the mask is that of the weights
    (file,) = kept.rglob("step-152/rank-0.safetensors")
    after = safetensors_numpy().load_file(file)["weights.layers.0.mlp.up.weight"]
    assert ((after != 0) == (matrix != 0)).all()


def safetensors_numpy() -> Any:
    return pytest.importorskip("safetensors.numpy")
