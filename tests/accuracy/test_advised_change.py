"""Where a source measured two plans of one job, the plan that the law prefers is the faster one."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import combinations

import pytest

from podsim.accuracy.price_llm import make_batches, row_costs, training_runs
from podsim.accuracy.tables import load, training_rows

DIFFERS = 0.05
"""share. The least difference of two measured steps that is more than noise."""


@pytest.mark.skipif(not os.environ.get("PODSIM_LONG"), reason="it prices every measured run: PODSIM_LONG=1")
def test_the_preferred_plan_of_a_measured_pair_is_the_faster(capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs have one source, model, GPUs, batch, sequence, software and precision; their plans differ."""
    valid = {row.id for name in ("llm", "tpu") for row in load(name) if row.validates}
    rows = [row for row in training_rows() if row.get("step_time_s") and row["id"] in valid]
    runs = [(rows[at], run) for at, run in training_runs(rows)[0] if not (run.layer_only or run.chosen)]
    seconds = row_costs(make_batches([run for _, run in runs])).seconds.tolist()
    jobs = defaultdict(list)
    for (row, run), step in zip(runs, seconds, strict=True):
        plan = run.plan
        job = (
            row["role"], row["id"].rsplit("-", 1)[0], run.model.name, run.model.parameters, run.cluster.gpu.name,
            run.cluster.gpus, int(plan.global_batch), plan.length(run.model), plan.software, plan.precision,
        )  # fmt: skip
        jobs[job].append((plan, float(row["step_time_s"]), step))
    right: Counter[str] = Counter()
    pairs: Counter[str] = Counter()
    for job, tried in jobs.items():
        for (plan, measured, law), (other, also_measured, also_law) in combinations(tried, 2):
            apart = max(measured, also_measured) / min(measured, also_measured) - 1
            if plan.describe() != other.describe() and apart > DIFFERS:
                is_right = (measured < also_measured) == (law < also_law)
                for group in (job[0], f"{job[0]}: {job[1]}"):
                    pairs[group] += 1
                    right[group] += is_right
    with capsys.disabled():
        for group in sorted(pairs):
            print(f"{group}: {right[group]} of {pairs[group]}, {right[group] / pairs[group]:.1%}")
    assert all(right[role] >= 0.8 * pairs[role] for role in ("calibrate", "test"))
