"""Random legal plans of random models on random clusters: the same ones for the same seed.

A scene is a model, a cluster and many legal plans, which one evaluation of the law costs together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from podsim.errors import ModelError, PodsimError
from podsim.hardware.catalog import names
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.training.batch import StepCost, step_cost
from podsim.training.plan import Plan
from podsim.training.plan_values import ARRAY_FIELDS
from podsim.training.rules import facts, violations
from podsim.training.software import Software, load_software, software_names
from podsim.workload.catalog import entries, load_specification
from podsim.workload.finetuning import fine_tuned
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

FIXED = {"collectives.algo": "ring", "collectives.proto": "simple"}
"""overrides with which NCCL has no choice of its own"""
_CANDIDATES = 3000
"""combinations that are drawn for a scene; its plans are those among them that are legal"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Many legal plans of one model on one cluster."""

    name: str
    spec: Transformer
    train: str
    on: str
    overrides: Mapping[str, Any]
    gpus: int
    plans: Plan

    @cached_property
    def model(self) -> Model:
        return model_of(self.spec, self.train)

    @cached_property
    def cluster(self) -> Cluster:
        return load_cluster(self.on, self.overrides, self.gpus)

    @cached_property
    def software(self) -> Software:
        return load_software(self.plans.software, self.cluster.gpu)

    @cached_property
    def cost(self) -> StepCost:
        return step_cost(self.model, self.cluster, self.plans)

    def say(self, row: int) -> str:
        """A plan as a user would ask for it."""
        plan = self.plans.take(row).describe()
        fields = " ".join(f"{key}={value}" for key, value in plan.items())
        changed = " ".join(f"--set {key}={value}" for key, value in self.overrides.items())
        named = entries().get(self.spec.name)
        model = self.spec.name if named and named.specification == self.spec else _said(self.spec)
        return f"{self.name} row {row}: {model} --on {self.on} --gpus {self.gpus} --train {self.train} {changed} {fields}"


def _said(spec: Transformer) -> str:
    plain = Transformer(name="", layers=0, hidden=0, heads=0, vocab=0, sequence=0)
    own = {
        key: value for key, value in vars(spec).items() if value != getattr(plain, key) and key != "source"
    }
    return f"Transformer({', '.join(f'{key}={value!r}' for key, value in own.items())})"


def legal(model: Model, cluster: Cluster, plans: Plan) -> np.ndarray:
    """Which plans keep every rule about numbers."""
    broken = np.zeros(plans.size, dtype=bool)
    for wrong in violations(plans, facts(model, cluster, plans.length(model))).values():
        broken |= wrong
    return ~broken


@cache
def _specification(name: str) -> Transformer:
    return load_specification(name)


def model_of(spec: Transformer, train: str) -> Model:
    """The model of a specification, as far as it is trained."""
    return fine_tuned(build(spec), train)


def random_spec(dice: Random) -> Transformer:
    """A transformer of the catalog, or one with dimensions of its own, dense or a mixture."""
    if dice.random() < 0.6:
        spec = _specification(dice.choice(tuple(entries())))
        length = dice.choice((spec.sequence, 512, 2048, 4096, 32768))
        return spec if spec.positions and length > spec.positions else replace(spec, sequence=length)
    heads, width = (
        dice.choice((1, 2, 4, 8, 12, 16, 20, 32, 48, 64, 96)),
        dice.choice((32, 64, 80, 96, 128, 256)),
    )
    experts = dice.choice((0, 0, 0, 2, 8, 16, 60, 128))
    hidden = heads * width if dice.random() < 0.8 else 64 * dice.randint(1, 256)
    return Transformer(
        name="random", layers=dice.choice((1, 2, 3, 4, 7, 8, 12, 24, 32, 40, 61, 80, 96)), hidden=hidden,
        heads=heads, kv_heads=dice.choice([d for d in (1, 2, 4, 8, heads) if heads % d == 0]), head_dim=width,
        ffn=dice.choice((4 * hidden, 8 * hidden // 3 // 64 * 64 or 64, 64 * dice.randint(1, 400))),
        vocab=dice.choice((1000, 30522, 32000, 50257, 51200, 128256, 256000)),
        sequence=dice.choice((128, 512, 1024, 2048, 4096, 8192, 32768, 131072)),
        gated=dice.random() < 0.5, tied=dice.random() < 0.5, dropout=dice.random() < 0.3,
        norm=dice.choice(("layernorm", "rmsnorm")), position=dice.choice(("learned", "rope", "none")),
        parallel_residual=dice.random() < 0.2, bidirectional=dice.random() < 0.2,
        windows=dice.choice(((), (), (512,), (0, 1024))), experts=experts,
        top_k=min(experts, dice.choice((1, 2, 6, 8))), expert_ffn=64 * dice.randint(1, 64) if experts else 0,
        shared_ffn=dice.choice((0, 1024)) if experts else 0,
    )  # fmt: skip


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="podsim-random-plans-"))


def _user_cluster(dice: Random, name: str) -> str:
    """The path of a cluster as a user's file describes one."""
    nodes, link = dice.randint(1, 40), dice.choice((10, 25, 100, 200, 400, 800))
    text = (
        f'inherits = "{dice.choice(("dgx-a100-80gb", "dgx-h100", "dgx-1-v100-32gb", "dgx-b200"))}"\n'
        f'source = "our lab"\nnodes = {nodes}\nnics = {dice.choice((1, 2, 4, 8))}\n'
        f'fabric = "{dice.choice(("infiniband", "roce", "ethernet", "efa", "slingshot"))}"\n'
        f'[network]\nbandwidth = "{link}Gb/s"\nlatency = "{dice.choice((1, 3, 20))}us"\n'
    )
    file = _folder() / f"{name}.toml"
    file.write_text(text)
    return str(file)


def _random_cluster(dice: Random, name: str) -> tuple[str, dict[str, Any], int]:
    """(words for --on, overrides, GPUs of the job)."""
    overrides: dict[str, Any] = {}
    kind = dice.choice(("gpu", "gpu", "system", "system", "cluster", "file"))
    if kind == "gpu":
        on = dice.choice(names("gpu"))
    elif kind == "system":
        on = f"{dice.choice(names('system'))}"
    elif kind == "cluster":
        on = dice.choice(names("cluster"))
    else:
        on = _user_cluster(dice, name)
    base = load_cluster(on)
    if dice.random() < 0.3:
        for key, value in (
            ("gpu.memory_bandwidth", base.gpu.memory_bandwidth), ("nvlink.bandwidth", base.nvlink.bandwidth),
            ("gpu.memory", base.gpu.memory), ("network.bandwidth", base.network.bandwidth),
        ):  # fmt: skip
            if value and dice.random() < 0.4:
                overrides[key] = value * dice.choice((0.3, 0.5, 0.9, 1.1, 2.0, 3.0))
    per = base.gpus_per_node
    most = base.gpus if kind in ("cluster", "file") else per * (128 if base.nics else 1)
    sizes = [size for size in (1, 2, 4, *(per * n for n in (1, 2, 3, 4, 8, 16, 32, 64, 128))) if size <= most]
    gpus = dice.choice(sizes)
    return on, overrides, load_cluster(on, overrides, gpus).gpus


def scenes(seed: int, *, plans: int = 200) -> Iterator[Scene]:
    """Endless scenes with at most so many plans each."""
    for number in count():
        name = f"{seed}/{number}"
        try:
            scene = random_scene(name, plans)
        except (
            PodsimError,
            ModelError,
        ):  # GPUs that a cluster does not have, frozen layers that a model does not
            continue
        if scene is not None:
            yield scene


def random_scene(name: str, plans: int = 200) -> Scene | None:
    """The scene of a name; None if none of its plans is legal, or weights stream."""
    dice = Random(f"scene {name}")
    spec = random_spec(dice)
    on, overrides, gpus = _random_cluster(dice, name.replace("/", "-"))
    if dice.random() < 0.7:
        overrides |= FIXED
    train = dice.choice(
        ("full",) * 8 + ("lora:16", "qlora:8", f"frozen:{max(spec.layers // 2, 1)}", "dpo", "dpo+lora:4")
    )
    model, cluster = model_of(spec, train), load_cluster(on, overrides, gpus)
    if cluster.gpu.streams_weights:
        return None
    known = facts(model, cluster, spec.sequence)
    capacity = dice.choice((0.0, 0.0, 0.0, 1.0, 1.25, 2.0, 0.5)) if known.experts else 0.0
    fixed = Plan(
        precision=dice.choice(known.precisions), optimizer_precision=dice.choice(("fp32", "fp32", "bf16", "fp8")),
        software=dice.choice(software_names()), sequence=spec.sequence,
        capacity_factor=min(capacity, known.experts),
        imbalance=dice.choice((0.0, 0.0, 1.0, 1.5, float(known.experts))) if known.experts else 0.0,
    )  # fmt: skip
    if fixed.problems(model, cluster):
        return None
    drawn = _drawn(np.random.default_rng(dice.getrandbits(64)), fixed, cluster, known.experts, known.layers)
    rows = np.flatnonzero(legal(model, cluster, drawn))[:plans]
    if not rows.size:
        return None
    return Scene(
        name=name,
        spec=spec,
        train=train,
        on=on,
        overrides=overrides,
        gpus=gpus,
        plans=drawn.take(rows).wide(),
    )


def _drawn(rng: np.random.Generator, fixed: Plan, cluster: Cluster, experts: int, layers: int) -> Plan:
    """Candidates with every field drawn, legal or not."""

    def of(*values: Any) -> np.ndarray:
        return rng.choice(np.array(values), _CANDIDATES)

    gpus = cluster.gpus
    tp = of(1, 1, 2, 2, 4, 8, 8, 16, 3, 5, 6, 12)
    pp = of(1, 1, 1, 2, 2, 4, 8, 16, 3, 5, 6, 7, 12)
    cp = of(1, 1, 1, 1, 2, 4, 8, 3)
    each = tp * pp * cp
    room = np.maximum(gpus // each, 1)
    dp = np.where(rng.random(_CANDIDATES) < 0.7, room, np.minimum(room, of(1, 2, 3, 4, 8, 16, 64)))
    micro, several = of(1, 1, 2, 3, 4, 8), of(1, 1, 2, 3, 4, 7, 8, 16, 32, 100)
    batches = np.where(rng.random(_CANDIDATES) < 0.6, several * pp, several)
    zero = of(0, 0, 1, 2, 3)
    shard = np.where((zero > 0) & (rng.random(_CANDIDATES) < 0.3), of(1, 2, 4, 8, cluster.gpus_per_node), 0)
    mode = of(0, 1, 2)
    virtual = np.where(pp > 1, of(1, 1, 2, 2, 3, 4), 1)
    schedule = np.where(virtual > 1, of(2, 2, 2, 5, 7, 8), of(0, 1, 1, 1, 3, 4, 6, 9, 10, 8))
    flags = {name: rng.random(_CANDIDATES) < 0.5 for name in ("overlap_grad", "overlap_param", "overlap_tp")}
    columns = {
        "tp": tp, "pp": pp, "cp": cp, "dp": dp, "micro_batch": micro, "global_batch": micro * dp * batches,
        "ep": of(1, 1, 2, 4, 8, 16) if experts else np.ones(_CANDIDATES, int), "zero": zero, "shard": shard,
        "recompute": mode, "recompute_layers": np.where((mode == 2) & (rng.random(_CANDIDATES) < 0.3), of(1, 2, 5), 0),
        "virtual_stages": virtual, "schedule": schedule, "sequence_parallel": (tp > 1) & (rng.random(_CANDIDATES) < 0.5),
        "flash": (rng.random(_CANDIDATES) < 0.7) & cluster.gpu.has_fused_attention, **flags,
        "expert_tp": of(0, 0, 0, 1, 1, 2, 4) if experts else np.zeros(_CANDIDATES, int),
    }  # fmt: skip
    assert set(columns) == set(ARRAY_FIELDS)
    return fixed.having(columns)
