"""Which memory does recomputation save for GPT-3 on 64 GPUs, and at what price in time?"""

from __future__ import annotations

import podsim

print(
    f"{'recompute':<10} {'flash':<6} {'activations':>11} {'total':>7} {'fits':>5} {'time':>5} {'HFU/MFU':>8}"
)
modes = [(mode, flash) for flash in (False, True) for mode in ("none", "selective", "full")]
found = {
    (mode, flash): podsim.predict(
        "gpt3-175b",
        on="dgx-a100-80gb:8",
        tp=8,
        pp=8,
        batch=64,
        recompute=mode,
        flash=flash,
        sequence_parallel=True,
    )
    for mode, flash in modes
}
base = found["none", True]
for (mode, flash), one in found.items():
    print(
        f"{mode:<10} {'yes' if flash else 'no':<6} {one.memory_kinds['activations'] / 1e9:>8.0f} GB "
        f"{one.memory / 1e9:>4.0f} GB {'yes' if one.fits else 'no':>5} {one.step_time / base.step_time:>5.2f} "
        f"{one.hfu / one.mfu:>8.2f}"
    )
print("time is relative to flash attention without recomputation")
