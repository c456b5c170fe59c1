"""Latency, throughput and memory of a model by batch, on one GPU or on equal instances of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from podsim.answers.served import Served, ServedBatch
from podsim.axes import Floats, Shaped
from podsim.errors import ModelError
from podsim.hardware.parts import Gpu
from podsim.kernels.gemm import peak_of
from podsim.kernels.power_clock import borrowed_clock
from podsim.serving.bisection import best_batch
from podsim.serving.encoder_decoder import (
    decoder_part,
    decoder_step,
    encoder_part,
    encoder_pass,
    has_encoder,
    sequence_cache_bytes,
)
from podsim.serving.engines import Engine
from podsim.serving.inference_passes import (
    Pass,
    cache_bytes,
    image_pass,
    is_encoder,
    model_weight_bytes,
    prompt_pass,
    token_pass,
)
from podsim.serving.kernels import runs_on, weight_bytes
from podsim.workload.convolution import ConvNet
from podsim.workload.model import Model

LARGEST_BATCH = 65_536
"""The largest number of concurrent sequences, above any engine's limit."""

_CLOCKED = ("products", "attention")
"""parts whose speed is that of the clock"""

Network: TypeAlias = "Model | ConvNet"


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is served, and how."""

    network: Network
    precision: str
    sparse: bool
    tokens: int
    """The number of tokens of a sequence or prompt."""
    output: int
    """The number of tokens to produce; 0 for encoders and images."""
    engine: Engine

    @property
    def kind(self) -> str:
        """encoder, generator or images."""
        if isinstance(self.network, ConvNet):
            return "images"
        return "encoder" if is_encoder(self.network) and not has_encoder(self.network) else "generator"

    @property
    def weights(self) -> float:
        """B of weights."""
        if isinstance(self.network, ConvNet):
            return self.network.parameters * weight_bytes(self.precision, self.sparse)
        return model_weight_bytes(self.network, self.precision, self.sparse)

    @property
    def cache(self) -> float:
        """B of keys and values of one sequence when its last token is there."""
        if isinstance(self.network, ConvNet):
            return 0.0
        if has_encoder(self.network):
            return sequence_cache_bytes(self.network, self.tokens, self.output)
        return cache_bytes(self.network, self.tokens + self.output)

    @property
    def activations(self) -> float:
        """B of the largest pair of tensors that are in memory together, for one sequence or image."""
        if isinstance(self.network, ConvNet):
            widest = max(
                layer.read + 2 * layer.outputs * layer.size**2 for layer in self.network.convolutions
            )
            return widest * weight_bytes(self.precision, False)
        ops = [(op, block) for block in self.network.layers for op in block.ops if op.kind == "gemm"]
        widest = max(
            (op.n + op.k + self.network.hidden) * (block.top_k if op.expert else 1) for op, block in ops
        )
        return float(self.tokens * widest * max(weight_bytes(self.precision, False), 2.0))

    @property
    def flops(self) -> float:
        """FLOP of one sequence or image, arithmetic of products and attention."""
        if isinstance(self.network, ConvNet):
            return self.network.flops
        if has_encoder(self.network):
            parts = (
                (encoder_part(self.network), self.tokens, "encoder"),
                (decoder_part(self.network), self.output, ""),
            )
            return sum(_flops(model, length, kind) for model, length, kind in parts)
        return _flops(self.network, self.tokens + self.output, self.kind)


def _flops(model: Model, length: int, kind: str) -> float:
    """FLOP of products and attention of one sequence."""
    per_token = attended = 0.0
    for block in model.layers:
        for op in block.ops:
            copies = block.count * (block.top_k if op.expert else 1)
            per_token += copies * 2.0 * op.n * op.k * (op.kind == "gemm")
            if op.kind == "attention":
                attended += block.count * 2.0 * op.heads * (op.head_dim + (op.value_dim or op.head_dim))
    return per_token * length + attended * length**2 / (1 if kind == "encoder" else 2)


def _passes(task: Task, gpu: Gpu, batch: Shaped[Floats, "batch"]) -> tuple[Pass, Pass | None]:
    """The pass over the input, and for a generator the pass of one more token at the mean length of the cache."""
    kind: dict[str, Any] = {"precision": task.precision, "sparse": task.sparse}
    if isinstance(task.network, ConvNet):
        return image_pass(task.network, gpu, batch, **kind), None
    if has_encoder(task.network):
        first = encoder_pass(task.network, gpu, batch, task.tokens, **kind)
        return first, decoder_step(task.network, gpu, batch, (task.tokens, task.output / 2), **kind)
    first = prompt_pass(task.network, gpu, batch, task.tokens, **kind)
    if not task.output:
        return first, None
    return first, token_pass(task.network, gpu, batch, task.tokens + task.output / 2, **kind)


def rows_of(task: Task, gpu: Gpu, batches: Sequence[int], limit: float | None) -> tuple[ServedBatch, ...]:
    """A row for each batch."""
    batch_sizes = np.array(batches, float)
    first, more = _passes(task, gpu, batch_sizes)
    parts = first.seconds(task.engine, task.precision, task.sparse)
    if more is None:
        parts = _clocked(task, gpu, batch_sizes, parts)
    prompt = sum(parts.values(), np.zeros_like(batch_sizes))
    token = np.zeros_like(batch_sizes)
    if more is not None:
        step = more.seconds(task.engine, task.precision, task.sparse)
        token = sum(step.values(), token)
        parts = {key: parts[key] + (task.output - 1) * step[key] for key in parts}
    total = prompt + max(task.output - 1, 0) * token
    peak = peak_of(runs_on(gpu, task.precision, task.sparse), task.precision)
    made = []
    for index, batch in enumerate(batches):
        latency = float(total[index])
        memory = memory_bytes(task, batch)
        made.append(
            ServedBatch(
                batch=batch, latency=latency, throughput=batch / latency,
                first_token=float(prompt[index]) if task.output else 0.0, token=float(token[index]),
                tokens_per_second=batch * task.output / latency, memory=memory, fits=memory <= gpu.memory,
                in_time=limit is None or 2 * latency <= limit,
                parts={key: float(value[index]) for key, value in parts.items()},
                utilisation=batch * task.flops / latency / peak,
            )
        )  # fmt: skip
    return tuple(made)


def _clocked(
    task: Task, gpu: Gpu, batch: Shaped[Floats, "batch"], parts: dict[str, Floats]
) -> dict[str, Floats]:
    """The parts of one pass at the clock that the power limit leaves for its arithmetic."""
    peak = peak_of(runs_on(gpu, task.precision, task.sparse), task.precision)
    clock = borrowed_clock(gpu, batch * task.flops / sum(parts.values()) / peak)
    return {key: seconds / clock if key in _CLOCKED else seconds for key, seconds in parts.items()}


def memory_bytes(task: Task, batch: int) -> float:
    """B on one instance: weights, caches, activations, and the floor of the engine."""
    return task.weights + batch * (task.cache + task.activations) + task.engine.memory_floor


def largest_batch(task: Task, gpu: Gpu) -> int:
    """Sequences that fit at once; 0 where the weights alone do not."""
    room = gpu.memory - task.weights - task.engine.memory_floor
    return max(0, min(int(room // (task.cache + task.activations)), LARGEST_BATCH))


def serve_on(
    task: Task,
    gpu: Gpu,
    *,
    batches: Sequence[int],
    limit: float | None,
    instances: int = 1,
    neighbours: float = 0.0,
) -> Served:
    """The result of serving the task on `instances` GPUs like this one; `neighbours` is the share that busy ones cost.

    The best batch has the greatest throughput of the rows that fit and are in time. With a limit, the search for the
    largest batch in time covers batches between the rows, too.
    """
    if task.output and task.kind != "generator":
        raise ModelError(
            f"{task.network.name} produces no tokens; leave the number of tokens to produce away"
        )
    rows = rows_of(task, gpu, batches, limit)
    largest = largest_batch(task, gpu)
    best = best_batch(
        rows, lambda batch: rows_of(task, gpu, [batch], limit)[0], largest, is_limited=limit is not None
    )
    shown = rows[-1] if best is None else best
    return Served(
        model=task.network.name, kind=task.kind, gpu=gpu.name, instances=instances, precision=task.precision,
        sparse=task.sparse, engine=task.engine.name, tokens=task.tokens, output=task.output, weights=task.weights,
        cache=task.cache, memory_limit=gpu.memory, largest=largest, limit=limit, rows=rows, best=best,
        total=0.0 if best is None else best.throughput * instances * (1 - neighbours), neighbours=neighbours,
        bottleneck=max(shown.parts, key=lambda key: shown.parts[key]), assumptions=(),
    )  # fmt: skip
