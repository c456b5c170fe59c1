"""The best way to serve: the closed form against simulation, what the search must find, what it must refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim import serve
from podsim.answers.best_serving import BestServing
from podsim.errors import NoFitError, PlanError, PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.serving.best_layouts import Layout
from podsim.serving.best_search import Objective, one_pool
from podsim.serving.kernels import core_seconds
from podsim.serving.load.load_inputs import _shared_gpus
from podsim.serving.load.load_run import run_load
from podsim.serving.load.load_statistics import measure_run
from podsim.serving.load.replica_pool import SCHEDULERS, ReplicaKind, ReplicaPool
from podsim.serving.load.request_streams import RequestStream, draw_requests
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.steady_load import BUDGETS, Workload, at_rate, mixed_curves
from podsim.serving.step_cost import CacheRoom, StepCost, chunk_seconds, decode_seconds, token_seconds
from podsim.workload.catalog import load_model

TOY = StepCost(
    step=1e-3, request=1e-5, tokens=np.array([1.0, 64.0, 1024.0, 4096.0]),
    tokens_seconds=np.array([5e-3, 5e-3, 12e-3, 45e-3]), decode_requests=np.array([1.0, 512.0]),
    decode_context=np.array([16.0, 4096.0]), decode_seconds=np.array([[1e-6, 1e-4], [1e-4, 3e-2]]),
    prompt_new=np.array([1.0, 4096.0]), prompt_past=np.array([0.0, 4096.0]),
    prompt_seconds=np.array([[0.0, 1e-5], [4e-3, 1e-2]]),
)  # fmt: skip


def test_arrays_of_steps_cost_what_each_does() -> None:
    random = np.random.default_rng(1)
    for new, past, decoding, context in random.uniform(1, 6000, (20, 4)):
        step = TOY.step + TOY.request * (decoding + 1) + token_seconds(TOY, new + decoding)
        step = step + decode_seconds(TOY, decoding, context) + chunk_seconds(TOY, new, past)
        assert float(step) == pytest.approx(TOY.seconds([(new, past)], decoding, context), rel=1e-9)


@pytest.mark.parametrize("rate", [10.0, 50.0, 80.0])  # of 100 that it carries
def test_the_estimate_is_near_the_simulation(rate: float) -> None:
    load = Workload(rate=rate, input_tokens=400, output_tokens=100)
    budget = int(np.searchsorted(BUDGETS, 1024))
    limits = np.full((len(BUDGETS), 1), 128.0)
    first, each, _ = at_rate(mixed_curves(TOY, load), load, np.array([rate]), limits, 50)
    kind = ReplicaKind(
        cost=TOY, room=CacheRoom(block_tokens=16, blocks=10**6, token_bytes=1.0), scheduler=SCHEDULERS["vllm"],
        sequences=128, batch_tokens=1024,
    )  # fmt: skip
    stream = RequestStream(requests=3000, rate=rate, input_tokens="400", output_tokens="100")
    steady = measure_run(run_load(draw_requests(stream), ReplicaPool(kinds=(kind,))))
    assert float(each[budget, 0, 0]) == pytest.approx(float(np.median(steady.each_token)), rel=0.05)
    assert float(first[budget, 0, 0]) == pytest.approx(float(np.median(steady.first_token)), rel=0.25)


def test_no_rate_above_the_capacity_has_a_latency() -> None:
    load = Workload(rate=1.0, input_tokens=400, output_tokens=100)
    limits = np.full((len(BUDGETS), 1), 8.0)
    first, _, _ = at_rate(mixed_curves(TOY, load), load, np.array([1.0, 1e3]), limits, 99)
    assert np.isfinite(first[-1, 0]).all()
    assert np.isinf(first[:, 1]).all()


def test_an_objective_with_one_limit_ignores_the_other() -> None:
    pressure = Objective(first=0.5).pressure(np.array([0.25, np.inf]), np.array([9.0, np.inf]))
    assert pressure.tolist() == [0.5, np.inf]


@pytest.fixture(scope="module")
def answer() -> BestServing:
    made = serve(
        "llama-2-70b", on="dgx-h100:1", ttft="500ms", tpot="30ms", rate="20/s", requests=1000, engine="vllm,sglang",
    )  # fmt: skip
    assert isinstance(made, BestServing)
    return made


def test_the_best_way_keeps_the_limits_on_the_fewest_gpus(answer: BestServing) -> None:
    assert answer.candidates >= 5000
    assert answer.simulated == 20
    best = answer.best
    assert best is not None
    assert best.first["p99"] <= 0.5
    assert best.each["p99"] <= 0.03
    assert best.gpus == min(way.gpus for way in answer.ways if way.keeps) == answer.fewest
    assert best.tokens_per_gpu * best.gpus == pytest.approx(20 * 128, rel=0.1)
    assert "--precision fp8" in answer.other_format


def test_the_front_trades_users_for_gpus(answer: BestServing) -> None:
    users, gpus = ([getattr(point, name) for point in answer.front] for name in ("user", "gpu"))
    assert len(answer.front) > 5
    assert users == sorted(users, reverse=True)
    assert gpus == sorted(gpus)


def test_its_command_serves_the_same_load(answer: BestServing) -> None:
    commands = [way.command for way in answer.ways if way.prefill is None]
    assert all(" --replicas " in command and " --rate 20/s " in command for command in commands)


def test_a_pinned_layout_is_kept() -> None:
    made = serve("llama-3.1-8b", on="h100", ttft="1s", rate="5/s", engine="vllm", tp=1, requests=200)
    assert isinstance(made, BestServing)
    assert {(way.plan["engine"], way.plan["tensor"]) for way in made.ways} == {("vllm", 1)}


def test_more_load_than_the_cluster_carries_names_the_gpus() -> None:
    made = serve("llama-3.1-8b", on="h100", ttft="500ms", rate="500/s", engine="vllm", requests=200)
    assert isinstance(made, BestServing)
    assert made.best is None
    assert made.fewest > 1


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"ttft": "5ms"}, NoFitError, "roofline.*FLOP"),
        ({"tpot": "1ms"}, NoFitError, "roofline.*weights"),
        ({"ttft": "1s", "model": "deepseek-v3"}, NoFitError, "GB more than .*what would hold it"),
        ({"ttft": "1s", "rate": ""}, PodsimError, "need a load"),
        ({"ttft": "x"}, PodsimError, "ttft"),
        ({"ttft": "1s", "percentile": 42}, PodsimError, "one of 50"),
        ({"ttft": "1s", "precision": "fp9"}, PodsimError, "unknown precision"),
        ({"ttft": "1s", "model": "bert-large"}, PodsimError, "of language models"),
        ({"ttft": "1s", "tp": 3}, PodsimError, "heads cannot be divided"),
        ({"ttft": "1s", "tp": 8, "pp": 2}, PodsimError, "more than the 8"),
        ({"ttft": "1s", "clients": 8}, PodsimError, "no rate of their own"),
        ({"ttft": "1s", "on": "h100/7x1g.10gb", "model": "llama-3.1-8b"}, NoFitError, "GB more than"),
        ({"ttft": "1s", "rate": "-3"}, PodsimError, "rate"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], kind: type[Exception], message: str) -> None:
    asked = {"model": "llama-2-70b", "on": "dgx-h100:1", "rate": "20/s", "requests": 200} | options
    with pytest.raises(kind, match=message):
        serve(**asked)


def test_an_engine_may_run_as_many_sequences_as_it_starts_with() -> None:
    """Limits are 8, 12, 16 and more: an engine for 12 may have two of them, on one replica or on two."""
    layout = Layout(
        plan=ServingPlan(engine="vllm"), cost=TOY, room=CacheRoom(block_tokens=16, blocks=10**6, token_bytes=1.0),
        sequences=np.full(len(BUDGETS), 1e4), max_batch=12, scheduler=SCHEDULERS["vllm"],
    )  # fmt: skip
    load = Workload(rate=1.0, input_tokens=400, output_tokens=100)
    found, fewest = one_pool([layout], load, Objective(first=10.0), 2)
    assert (set(found.limit), set(found.replicas), fewest) == ({8.0, 12.0}, {1.0, 2.0}, 1)


def test_models_share_gpus_by_their_work() -> None:
    """Twice the work of a request: 4 of 6 GPUs; of two GPUs each has one, and of one no two models."""
    tables = {name: 2 * getattr(TOY, name) for name in ("tokens_seconds", "decode_seconds", "prompt_seconds")}
    room = CacheRoom(block_tokens=16, blocks=10**6, token_bytes=1.0)
    costs = replace(TOY, step=2e-3, request=2e-5, **tables), TOY
    kinds = [ReplicaKind(cost=cost, room=room, model=number) for number, cost in enumerate(costs)]
    node = load_cluster("dgx-a100-80gb:1")
    for gpus, counts in ((2, [1, 1]), (6, [4, 2])):
        shared = _shared_gpus(kinds, (1.0, 1.0), replace(node, system=replace(node.system, gpus=gpus)))
        assert [kind.replicas for kind in shared] == counts
    with pytest.raises(PlanError, match="takes 2 GPUs"):
        _shared_gpus(kinds, (1.0, 1.0), replace(node, system=replace(node.system, gpus=1)))


def test_a_card_of_turing_attends_in_one_kernel_and_an_older_one_in_products() -> None:
    """Scores of 64 heads of 4,096 tokens, 4 GB in 16 bits, are written and read by products alone."""
    core = next(op for op in load_model("llama-2-7b").layers[0].ops if op.kind == "attention")
    scores = 2 * 2 * 32 * 4096**2 * 2  # two sequences, written and read once at least
    for name, is_fused in (("t4", True), ("v100-sxm2-32gb", False)):
        gpu = load_gpu(name)
        seconds = float(core_seconds(gpu, core, np.array(2.0), 4096, "fp16"))
        assert (seconds < scores / gpu.memory_bandwidth + 4 * 2 * 4096**3 / gpu.peaks["fp16"]) == is_fused
