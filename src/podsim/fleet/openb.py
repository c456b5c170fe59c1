"""Readers of Alibaba's openb trace: nodes, and pods that request cores, memory and parts of GPUs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from podsim.errors import TableError
from podsim.fleet.csv_rows import numbers, read_rows
from podsim.fleet.packing import WHOLE, Nodes, Requests

_POD = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE = ("cpu_milli", "memory_mib", "gpu", "model")


def read_nodes(path: Path) -> Nodes:
    """The nodes of a file with the columns cpu_milli, memory_mib, gpu, model. Raises TableError."""
    rows = read_rows(path, _NODE)
    models, model = np.unique([row["model"] for row in rows], return_inverse=True)
    return Nodes(
        cpu=numbers(rows, "cpu_milli", path), memory=numbers(rows, "memory_mib", path),
        gpus=numbers(rows, "gpu", path).astype(np.int64), model=model.astype(np.int64), models=tuple(models.tolist()),
    )  # fmt: skip


def read_requests(path: Path, models: tuple[str, ...]) -> Requests:
    """The kinds of pods of a file with cpu_milli, memory_mib, num_gpu, gpu_milli (and gpu_spec: models separated by |).

    Raises TableError for unreadable files, for parts of a GPU outside 1 to 1000, and for parts of several GPUs.
    """
    rows = read_rows(path, _POD)
    table = np.stack([numbers(rows, name, path) for name in _POD], axis=1)
    gpus, share = table[:, 2], table[:, 3]
    bad = (gpus > 0) & ((share < 1) | (share > WHOLE) | ((gpus > 1) & (share != WHOLE)))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise TableError(
            f"{path.name}: row {first + 1} requests {share[first]:g} thousandths of {gpus[first]:g} GPUs;"
            f" expected 1 to {WHOLE} of one GPU, or {WHOLE} of each of several"
        )
    seen = Counter(
        (*map(float, line), row.get("gpu_spec") or "") for line, row in zip(table, rows, strict=True)
    )
    kinds = sorted(seen)
    values = np.array([kind[:4] for kind in kinds], np.float64).reshape(-1, 4)
    return Requests(
        cpu=values[:, 0].copy(), memory=values[:, 1].copy(), gpus=values[:, 2].astype(np.int64),
        share=values[:, 3].astype(np.int64),
        allowed=np.array([[not kind[4] or model in str(kind[4]).split("|") for model in models] for kind in kinds]),
        count=np.array([seen[kind] for kind in kinds], np.int64),
    )  # fmt: skip
