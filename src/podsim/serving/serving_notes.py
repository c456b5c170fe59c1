"""The assumptions and warnings of a served model."""

from __future__ import annotations

from podsim.hardware.parts import Gpu
from podsim.kernels.constants import kernel_constants
from podsim.serving.latency import Task
from podsim.workload.convolution import ConvNet


def serving_assumptions(task: Task, chip: Gpu, cost: float) -> tuple[str, ...]:
    """The assumptions of a prediction of serving, one sentence each."""
    notes = [f"{task.engine.title}: {task.engine.evidence}"]
    if task.kind == "encoder":
        notes.append(f"every sequence has {task.tokens} tokens, none of them padding")
    if task.kind == "generator":
        notes.append(
            f"{task.tokens} tokens of prompt, {task.output} produced by every sequence of a batch together (no"
            " continuous batching); keys and values in 16 bits"
        )
    if task.kind == "images":
        notes.append(
            "batch norms, ReLU and residual sums are folded into convolutions; decoding of images is not counted"
        )
    if task.sparse:
        notes.append(
            "the weights of the products are pruned 2:4; what that does to the answers is not modelled"
        )
    notes.append("a request in time may wait for one whole batch before its own")
    if cost:
        notes.append(
            f"busy neighbours on the GPU cost {cost:.1%} (MLPerf Inference 1.1: 0.6 to 2.4 % with six)"
        )
    return tuple(notes)


def serving_warnings(task: Task, chip: Gpu) -> tuple[str, ...]:
    """The reasons to trust a prediction of serving less, one sentence each."""
    notes = []
    length = task.tokens + task.output
    if not isinstance(task.network, ConvNet) and length > task.network.sequence:
        notes.append(
            f"{length:,} tokens are more than the {task.network.sequence:,} the network was trained with"
        )
    constants = kernel_constants(chip)
    if constants.extrapolated:
        notes.append(
            f"{chip.name}: no kernel was measured on it; shares of peak are those of {constants.base}"
        )
    if task.kind == "generator":
        notes.append("no published latency of a language model's tokens is held against this")
    if chip.architecture not in ("ampere", "volta"):
        notes.append(f"the engine's constants are those of an A100, not of {chip.architecture}")
    if task.kind == "images":
        slow = "a third" if task.engine.name == "tensorrt-2021" else "4 to 8 %"
        notes.append(
            f"MLPerf's offline throughput (ResNet-50, int8, A100 and slices) comes out {slow} too low, unfitted"
        )
    return tuple(notes)
