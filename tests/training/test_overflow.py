from __future__ import annotations

import numpy as np

from podsim.hardware.cluster import load_cluster
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model


def test_narrow_columns_do_not_overflow() -> None:
    """A search keeps 32-bit columns; tokens times widths of a large model pass 2^31."""
    model, cluster = load_model("deepseek-v3"), load_cluster("dgx-h100:64")
    degrees = {
        "tp": [8, 8],
        "cp": [2, 4],
        "dp": [32, 16],
        "micro_batch": [32, 32],
        "global_batch": [1024, 1024],
    }
    narrow = Plan(**{name: np.array(value, dtype=np.int32) for name, value in degrees.items()})  # type: ignore[arg-type]
    wide = Plan(**{name: np.array(value, dtype=np.int64) for name, value in degrees.items()})  # type: ignore[arg-type]
    assert (step_cost(model, cluster, narrow).seconds == step_cost(model, cluster, wide).seconds).all()
    assert (step_cost(model, cluster, narrow).memory == step_cost(model, cluster, wide).memory).all()
