"""How should LLaMA-3.1-70B be trained on 512 GPUs of Selene, 1024 sequences of 8192 tokens a step?"""

from __future__ import annotations

import podsim


def two_digits(value: float) -> str:
    """A number rounded to two significant digits."""
    return f"{float(f'{value:.2g}'):,.15g}"


result = podsim.plan("llama-3.1-70b", on="selene", gpus=512, batch=1024, top=3)

share = result.fitting / result.evaluated
print(f"{result.model}: about {two_digits(result.evaluated)} plans evaluated, {share:.1f} of them fit")
for ranked in result.ranked:
    one = ranked.prediction
    degrees = " ".join(f"{name}={one.plan[name]}" for name in ("tp", "pp", "cp", "dp", "micro_batch", "zero"))
    print(
        f"{ranked.rank}. {two_digits(one.step_time)} s a step, MFU {100 * one.mfu:.2g} %, "
        f"{two_digits(one.memory / 1e9)} GB: {degrees} recompute={one.plan['recompute']}"
    )

best = result.ranked[0].prediction
longest = sorted(best.parts, key=lambda name: -best.parts[name])[:2]
print("most time goes to:", ", then ".join(longest))
least = result.pareto[-1]
longer = two_digits(least.step_time / best.step_time)
print(f"the leanest plan needs {two_digits(least.memory / 1e9)} GB and {longer} times as long")
