"""Rates of benchmarks: samples a second of the whole job, by podsim's laws or by published steps.

A network is costed as its submissions ran it (accuracy/recipes/mlperf.toml), a language model by the best plan of a
search, and what is no network by the seconds of published steps. Known error: docs/time-to-train.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from podsim.accuracy.own_plans import best_plan
from podsim.accuracy.price_networks import NetworkCosts, NetworkRun
from podsim.accuracy.recipes import Recipe, find_recipe
from podsim.errors import PodsimError
from podsim.graphs.networks import networks
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.learning.benchmarks import Benchmark, PublishedSteps, round_number
from podsim.training.plan import Plan, software_of
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned

_SEVERAL_FRAMEWORKS = (2, 0)
"""The first round in which submitters name all frameworks of their containers; what ran is the benchmark's own."""


class BenchmarkRate(NamedTuple):
    """The speed of a benchmark's training."""

    rate: float
    """1/s. The samples of all GPUs."""
    how: str
    """The network, the plan or the published steps that were costed."""


class BenchmarkRates:
    """Rates of benchmarks, with caches of graphs, costs and searches."""

    def __init__(self) -> None:
        """Start with empty caches."""
        self._costs = NetworkCosts()
        self._plans: dict[tuple[object, ...], tuple[float, str]] = {}

    def rate(
        self, benchmark: Benchmark, round: str, cluster: Cluster, batch: float, framework: str = ""
    ) -> BenchmarkRate:
        """The rate with a batch on all GPUs of the cluster, in a round's software.

        Raises PodsimError where podsim knows no rate, or the batch gives a GPU less than half a sample.
        """
        if benchmark.network:
            plain = self._network_rate(benchmark, round, cluster, batch, framework)
        elif benchmark.model:
            plain = self._plan_rate(benchmark.model, cluster, batch)
        elif benchmark.steps:
            plain = _steps_rate(benchmark.steps, cluster, batch)
        else:
            raise PodsimError(f"{benchmark.title}: neither a network nor steps of it are known")
        return plain._replace(rate=plain.rate * benchmark.speed_of(round))

    def _network_rate(
        self, benchmark: Benchmark, round: str, cluster: Cluster, batch: float, framework: str
    ) -> BenchmarkRate:
        framework = framework if round_number(round) < _SEVERAL_FRAMEWORKS else ""
        recipe = _recipe(benchmark.network, round, cluster.gpu, framework)
        samples = batch / (recipe.length if recipe.batch_is == "tokens" else 1.0)
        gpus = min(cluster.gpus, _training_gpus(samples, cluster))
        each = samples / gpus
        accumulate = max(1, math.ceil(each / float(benchmark.network["micro"]) - 1e-9))
        run = NetworkRun(
            network=recipe.network, batch=max(1, _nearest(each / accumulate)), accumulate=accumulate,
            items=recipe.items, precision=recipe.precision or "fp16", fuse=recipe.fuse,
            channels_first=(recipe.precision or "fp16") in recipe.channels_first, optimizer=recipe.optimizer,
            software=recipe.software, cluster=cluster.subset(gpus), gpus=gpus,
        )  # fmt: skip
        title = networks()[run.network].title.partition(",")[0]
        return BenchmarkRate(self._costs.rate(run), f"{title}, {run.precision}, {run.batch} a GPU")

    def _plan_rate(self, model: Mapping[str, Any], cluster: Cluster, batch: float) -> BenchmarkRate:
        key = (tuple(sorted(model.items())), cluster, batch)
        if key not in self._plans:
            self._plans[key] = _searched(model, cluster, _nearest(batch))
        seconds, plan = self._plans[key]
        return BenchmarkRate(batch / seconds, plan)


shared_rates = cache(BenchmarkRates)
"""The rates of all tables and questions of a process, so that none is worked out twice."""


def _training_gpus(samples: float, cluster: Cluster) -> int:
    """The GPUs that train: with fewer samples than GPUs, whole nodes of them; the others evaluate."""
    if samples >= cluster.gpus:
        return cluster.gpus
    each = cluster.gpus_per_node
    return int(samples // each * each) if samples >= each else max(1, int(samples))


def _nearest(count: float) -> int:
    return max(1, round(count))


def _recipe(network: Mapping[str, Any], round: str, gpu: Gpu, framework: str) -> Recipe:
    """How submissions of a round ran a network on a GPU; the benchmark's own network where no recipe says it."""
    recipe = None
    if "benchmark" in network:
        row = {"benchmark": network["benchmark"], "version": round, "accelerator": gpu.name.upper()}
        for name in filter(None, (framework, network["framework"])):
            recipe = find_recipe("mlperf", {**row, "framework": name})
            if recipe is not None and not recipe.skip:
                return recipe
    if "name" in network:
        return Recipe(
            table="mlperf", network=network["name"], software=network["software"], fuse=network["fuse"],
            precision=network["precision"],
        )  # fmt: skip
    raise PodsimError(recipe.skip if recipe else f"{network['benchmark']}: no recipe covers {round}")


def _searched(model: Mapping[str, Any], cluster: Cluster, batch: int) -> tuple[float, str]:
    """(seconds of a step, the plan in words) of the fastest plan; NoFitError if none fits."""
    network = load_model(model["name"], {"sequence": str(model["sequence"])})
    if model["train"] != "full":
        network = fine_tuned(network, model["train"])
    gpu = cluster.gpu
    precision = next(name for name in (model["precision"], "bf16", "fp16", "fp32") if name in gpu.peaks)
    fixed = Plan(
        global_batch=batch, precision=precision, software=software_of(None, gpu), sequence=network.sequence,
        flash=gpu.compute_capability >= 7.5,
    ).check(network, cluster)  # fmt: skip
    seconds, plan = best_plan(network, cluster, fixed)
    return seconds, _plan_text(plan, precision)


def _plan_text(plan: Plan, precision: str) -> str:
    degrees = {"tp": plan.tp, "pp": plan.pp, "cp": plan.cp, "ep": plan.ep}
    text = " ".join(f"{name}={degree}" for name, degree in degrees.items() if int(degree) > 1)
    return f"best plan: {text or 'replicas'}, {precision}"


def _steps_rate(steps: PublishedSteps, cluster: Cluster, batch: float) -> BenchmarkRate:
    """Published steps, scaled to the cluster's GPU by what bounds them."""
    gpu, samples = cluster.gpu, steps.batch or batch
    name = gpu.name if gpu.name in steps.each else _most_alike(steps, gpu)
    known, how = load_gpu(name), f"published steps on {name}"
    if steps.bound == "memory":
        ratio = known.memory_bandwidth / gpu.memory_bandwidth
    elif steps.bound in gpu.peaks:
        ratio = known.peaks[steps.bound] / gpu.peaks[steps.bound]
    else:
        raise PodsimError(f"{gpu.name} does not compute in {steps.bound}, which published steps ran in")
    seconds = steps.seconds + steps.each[name] * ratio * samples / cluster.gpus
    return BenchmarkRate(samples / seconds, how if name == gpu.name else f"{how}, scaled by {steps.bound}")


def _most_alike(steps: PublishedSteps, gpu: Gpu) -> str:
    """The GPU with published steps whose memory is nearest in speed."""
    return min(
        steps.each, key=lambda name: abs(math.log(load_gpu(name).memory_bandwidth / gpu.memory_bandwidth))
    )
