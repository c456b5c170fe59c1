"""What does a slower NVLink cost? The A800 is an A100 with 400 GB/s of NVLink instead of 600."""

from __future__ import annotations

import podsim


def step(on: str, **overrides: str) -> podsim.Prediction:
    """GPT-22B with tensor parallelism over one node, as in the sequence-parallelism paper."""
    keys = {key.replace("__", "."): value for key, value in overrides.items()}
    return podsim.predict(
        "gpt-22b", on=on, tp=8, batch=4, micro_batch=4, recompute="selective", sequence_parallel=True,
        software="megatron-2022", overrides=keys,
    )  # fmt: skip


base = step("dgx-a100-80gb")
print(
    f"NVLink of 600 GB/s: {base.parts['tp'] / base.step_time:.0%} of the step waits for tensor-parallel communication"
)
for text, one in (
    ("hgx-a800, 400 GB/s", step("hgx-a800")),
    ("dgx-a100 set to 400 GB/s", step("dgx-a100-80gb", nvlink__bandwidth="200 GB/s")),
    ("dgx-a100 set to 1200 GB/s", step("dgx-a100-80gb", nvlink__bandwidth="600 GB/s")),
):
    change = one.step_time / base.step_time - 1
    waits = one.parts["tp"] / base.parts["tp"]
    print(f"{text}: the step takes {change:+.0%}, tensor-parallel waiting {waits:.1f} times as long")
