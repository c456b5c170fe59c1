"""Activation memory against Korthikanti et al. 2022 (Table 2, Figure 1), worked by hand."""

from __future__ import annotations

import pytest

from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.catalog import load_model
from podsim.workload.graph import Model

GIB = 2**30


def layer_bytes(s: int, b: int, h: int, a: int, t: int, *, sp: bool, selective: bool) -> float:
    """Korthikanti et al. 2022, Table 2: bytes of activations per layer."""
    core = 0 if selective else 5 * a * s / (h * t)
    return s * b * h * (34 / t + core if sp else 10 + 24 / t + core)


@pytest.mark.parametrize("sp", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_table_2(gpt22: Model, node: Cluster, sp: bool, recompute: str) -> None:
    from podsim.training.memory import activation_table
    from podsim.training.plan import Recompute
    from podsim.training.software import load_software

    plan = Plan(tp=8, micro_batch=4, global_batch=4, sequence_parallel=sp, flash=False, precision="fp16")
    table = activation_table(gpt22, plan.arrays(), load_software("megatron-2022"))
    mode = Recompute[recompute.upper()]
    expected = layer_bytes(2048, 4, 6144, 64, 8, sp=sp, selective=recompute == "selective")
    assert table.kept_RBK[mode, 1, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "plan", "weights", "activations"),
    [
        ("gpt-22b", {"tp": 8, "pp": 1, "micro_batch": 4, "global_batch": 4}, 45.5625, 9.5625),
        ("gpt3-175b", {"tp": 8, "pp": 8, "virtual_stages": 3, "global_batch": 64}, 45.5625, 12.3515625),
        ("gpt-530b", {"tp": 8, "pp": 35, "virtual_stages": 3, "global_batch": 280}, 31.640625, 23.076171875),
        ("gpt-1t", {"tp": 8, "pp": 64, "global_batch": 512}, 32.958984375, 26.5625),
    ],
)
def test_figure_1(selene: Cluster, name: str, plan: dict[str, int], weights: float, activations: float) -> None:
    """First-stage memory with sequence parallelism and selective recomputation, GiB (the paper leaves out the edges)."""
    degrees = dict(plan, schedule="interleaved" if plan.get("virtual_stages") else "1f1b")
    layout = Plan(
        **degrees,  # type: ignore[arg-type]
        sequence_parallel=True,
        recompute="selective",  # type: ignore[arg-type]
        flash=False,
        precision="fp16",
        software="megatron-2022",
    )
    stage = predict_plan(load_model(name), selene, layout).stages[0]
    held = sum(stage.kinds[kind] for kind in ("weights", "gradients", "optimizer")) / GIB
    assert held == pytest.approx(weights, rel=0.055)  # the paper counts no embedding
    assert stage.kinds["activations"] / GIB == pytest.approx(activations, rel=0.02)
