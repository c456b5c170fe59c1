"""What every verb reads from its arguments: a model, a cluster, overrides, a batch."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from pathlib import Path

from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import Gpu
from podsim.workload.catalog import load_model
from podsim.workload.graph import Model

DEFAULT_TOKENS = 4 * 2**20
"""tokens of a step when no batch is given, as large language models of 2020-2024 were trained with"""

LARGEST_BATCH = 10_000_000
"""sequences of a step: a thousand times what has been trained with"""


def split_overrides(pairs: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """(overrides of the model, overrides of the cluster); the model's start with "model."."""
    if pairs is not None and not isinstance(pairs, Mapping):
        raise PodsimError(f'overrides={str(pairs)[:60]!r}: give a mapping, such as {{"gpu.memory": "64GB"}}')
    model, cluster = {}, {}
    for key, value in (pairs or {}).items():
        if key.startswith("model."):
            model[key.removeprefix("model.")] = value
        else:
            cluster[key] = value
    return model, cluster


def read_inputs(
    model: str | Path,
    on: str | Path,
    gpus: int | None,
    sequence: int | None,
    overrides: Mapping[str, str] | None,
) -> tuple[Model, Cluster, int]:
    """The model, the part of the cluster that the job gets, and its GPUs."""
    for_model, for_cluster = split_overrides(overrides)
    if sequence is not None:
        for_model["sequence"] = str(sequence)
    network = load_model(model, for_model)
    cluster = load_cluster(on, for_cluster)
    count = cluster.gpus if gpus is None else gpus
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ClusterError(f"gpus={count!r}: a job has 1 to {cluster.gpus} GPUs on {cluster.name}")
    return network, cluster.subset(count), count


def batch_of(batch: int | None, sequence: int, gpus: int = 1) -> tuple[int, bool]:
    """(sequences of a step, whether that is the default of about four million tokens).

    The default is a power of two times the odd part of the GPUs, so that replicas may divide it: 2,240 on 4,480 GPUs.
    """
    if batch is None:
        sequences = max(1, DEFAULT_TOKENS // sequence)
        odd = gpus // (gpus & -gpus)
        if 1 < odd <= 2 * sequences:
            return odd << max(0, round(log2(sequences / odd))), True
        return 1 << (sequences.bit_length() - 1), True
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= LARGEST_BATCH:
        raise PodsimError(f"batch={batch!r}: a step has 1 to {LARGEST_BATCH:,} sequences")
    return batch, False


def precision_of(precision: str | None, cluster: Cluster) -> str:
    """The precision asked for; without a wish bf16, or fp16 on a GPU without it, fp32 on processors."""
    return precision or default_precision(cluster.gpu)


def default_precision(gpu: Gpu) -> str:
    """bf16, or fp16 on a GPU without it; fp32 on processors."""
    return "fp32" if gpu.architecture == "cpu" else "bf16" if "bf16" in gpu.peaks else "fp16"


_OF_GPUS = ("megatron-core", "dle-pytorch")
"""eras that verbs take by default"""


def software_of(software: str, gpu: Gpu) -> str:
    """The framework era asked for; in place of what verbs take by default, which is of GPUs, eager PyTorch on processors.

    What is printed names what was taken.
    """
    return "pytorch-eager" if gpu.architecture == "cpu" and software in _OF_GPUS else software
