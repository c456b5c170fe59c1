"""What do failures make of the training of Llama 3 405B on 16,384 H100, at the rates of four clusters?"""

from __future__ import annotations

import podsim

print("published: 419 unexpected interruptions in 54 days, more than 90 % effective time")
print(f"{'rate of':<10} {'a failure every':>15} {'in 54 days, 90 %':>17} {'effective, 90 %':>16} {'days':>5}")
for study in ("llama-3", "bloom", "rsc-1", "opt-175b"):
    run = podsim.goodput(
        "llama-3.1-405b",
        on="dgx-h100:2048",
        tokens="12T",
        batch=2048,
        limit={"tp": 8, "pp": 16, "micro_batch": 1, "recompute": "none"},
        failures=study,
        runs=400,
    )
    per_day = 54 * 86400 / run.seconds.mean
    low, high = (round(count * per_day, -1) for count in (run.interruptions.low, run.interruptions.high))
    print(
        f"{study:<10} {run.mtbf / 3600:>13.1f} h {low:>9.0f} to {high:>4.0f} "
        f"{run.effective.low:>8.0%} to {run.effective.high:>4.0%} {run.seconds.mean / 86400:>5.0f}"
    )
print(f"a checkpoint of {run.checkpoint.size / 1e12:.1f} TB stops training for {run.checkpoint.stall:.1f} s")
print("llama-3's own count comes back, as it went in; the effective time is predicted")
