"""Published latencies of BERT: TensorRT's demonstration by batch (1 to 128), length (128, 384), precision and date."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.accuracy.tables import load
from podsim.axes import Floats, Shaped
from podsim.errors import TableError
from podsim.hardware.catalog import load_gpu
from podsim.serving.inference_passes import Pass, prompt_pass
from podsim.workload.catalog import load_model

REVISIONS = {"tensorrt-2021": "ab20a8ac26", "tensorrt-2026": "9973b2f4ab"}
"""The revision of TensorRT's demo/BERT/README.md that each engine is fitted to."""
_GPUS = {"A100-40GB": "a100-sxm4-40gb", "V100-16GB": "v100-sxm2-16gb"}
_SPARSE = "Megatron Large with Sparsity"
"""BERT-Large in size, pruned 2:4 and quantised"""


@dataclass(frozen=True, kw_only=True)
class LatencyRows:
    """Latencies of one network, GPU, precision and length, at increasing batches."""

    model: str
    gpu: str
    precision: str
    sparse: bool
    tokens: int
    """The number of tokens of a sequence."""
    batch: Shaped[Floats, "batch"]
    seconds: Shaped[Floats, "batch"]
    """s. The measured times."""

    def run(self) -> Pass:
        """The same pass by the kernel laws."""
        return prompt_pass(
            load_model(self.model), load_gpu(self.gpu), self.batch, self.tokens, precision=self.precision,
            sparse=self.sparse,
        )  # fmt: skip


def latency_rows(revision: str) -> tuple[LatencyRows, ...]:
    """The latencies of one revision. Raises TableError for a revision that the tables do not hold."""
    latencies: dict[tuple[str, str, str, bool, int], list[tuple[float, float]]] = {}
    for row in load("vision"):
        if row.text("framework") != "TensorRT" or f"@{revision}" not in row.text("path"):
            continue
        sparse, named = row.text("model") == _SPARSE, row.text("model").lower()
        key = (
            "bert-base" if "base" in named else "bert-large", _GPUS[row.text("gpu")],
            row.text("precision").split()[0].lower(), sparse, row.integer("seq_len") or 0,
        )  # fmt: skip
        latencies.setdefault(key, []).append(
            (row.number("batch_per_gpu") or 0.0, (row.number("latency_ms") or 0.0) * 1e-3)
        )
    if not latencies:
        raise TableError(
            f"no latencies of revision {revision[:40]!r}; known are {', '.join(REVISIONS.values())}"
        )
    return tuple(
        LatencyRows(
            model=model, gpu=gpu, precision=precision, sparse=sparse, tokens=tokens,
            batch=np.array([b for b, _ in sorted(pairs)]), seconds=np.array([s for _, s in sorted(pairs)]),
        )
        for (model, gpu, precision, sparse, tokens), pairs in latencies.items()
        if "int8" not in precision or "int8" in load_gpu(gpu).peaks
    )  # fmt: skip
