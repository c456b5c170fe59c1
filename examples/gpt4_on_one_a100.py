"""GPT-4 on one A100: the lecture's 412 years, and where its arithmetic parts from podsim's.

The lecture counts 1.8 T parameters in 120 layers and 13 T tokens, 1 ms a token at the A100's 312 TFLOP/s, and 60 GB a
layer at 4 bytes a parameter.
"""

from __future__ import annotations

import podsim

YEAR = 365.25 * 86400
TOKENS = 13e12
PEAK = podsim.load_gpu("a100-sxm4-80gb").peaks["bf16"]


def two_digits(value: float) -> str:
    """A number rounded to two significant digits."""
    return f"{float(f'{value:.2g}'):,.15g}"


def years(seconds_a_token: float) -> str:
    """Years for all tokens."""
    return two_digits(TOKENS * seconds_a_token / YEAR)


print("The lecture")
print(f"  1 ms a token x 13 T tokens = {TOKENS * 1e-3 / YEAR:.0f} years")
work = 1e-3 * PEAK
print(f"  1 ms at {PEAK / 1e12:.0f} TFLOP/s is {work / 1e12:.3f} TFLOP")
print(f"  which trains {work / 6 / 1e9:.0f} G parameters at 6 FLOP per parameter and token")
print(f"  1.8 T parameters / 120 layers x 4 B = {1.8e12 / 120 * 4 / 1e9:.0f} GB a layer")

for name, what in (("gpt4-1.8t", "dense"), ("gpt4-1.8t-moe", "16 experts, 2 active")):
    model = podsim.load_model(name)
    one = podsim.predict(name, on="dgx-a100-80gb", gpus=1, batch=1, recompute="full")
    layer = sum(block.count * sum(op.weight + op.bias for op in block.ops) for block in model.layers) / 120
    ideal = 6 * model.active_parameters / PEAK
    print()
    print(f"{name}: {what}")
    print(
        f"  parameters {model.parameters / 1e12:.2f} T, of which a token passes {model.active_parameters / 1e12:.2f} T"
    )
    print(f"  a layer at 4 B a parameter: {layer * 4 / 1e9:.0f} GB")
    print(f"  6 x active parameters = {6 * model.active_parameters / 1e12:.1f} TFLOP a token")
    more = two_digits(ideal / 1e-3)
    print(
        f"  at peak, {two_digits(1e3 * ideal)} ms a token: {years(ideal)} years, {more} times the lecture's"
    )
    print(f"  its forward pass alone, 2 x active parameters: {two_digits(1e3 * ideal / 3)} ms")
    slower = one.step_time / one.plan["sequence"]  # type: ignore[operator]
    print(f"  as podsim times it, {two_digits(1e3 * slower)} ms a token: {years(slower)} years, if it fitted")
    print(
        f"  memory it would need: {two_digits(one.memory / 1e12)} TB of the {one.memory_limit / 1e12:.2f} TB there are"
    )

print()
print("Where they part: a millisecond at peak does less arithmetic than one token needs, dense or sparse;")
print("the rest is what kernels lose against the peak, and the forward pass computed twice to save memory.")
