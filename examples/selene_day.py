"""How much of GPT-3 (175 G parameters, 300 G tokens) does Selene train in a day?"""

from __future__ import annotations

import podsim

DAY = 86400
TOKENS = 300e9
USUAL = {"flash": (True,), "micro_batch": (1, 2, 4), "tp": (4, 8, 16)}


def two_digits(value: float) -> str:
    """A number rounded to two significant digits."""
    return f"{float(f'{value:.2g}'):,.15g}"


for gpus, batch in ((1024, 1536), (4480, 1680)):
    result = podsim.plan("gpt3-175b", on="selene", gpus=gpus, batch=batch, top=1, limit=USUAL)
    best = result.ranked[0].prediction
    days = TOKENS / best.tokens_per_second / DAY
    print(
        f"{gpus} GPUs, {batch} sequences a step: {two_digits(best.tokens_per_second * DAY / 1e9)} G tokens a day, "
        f"{two_digits(days)} days for all, MFU {100 * best.mfu:.2g} %"
    )
    work = 6 * 175e9 * TOKENS / (gpus * 312e12) / DAY
    print(f"  6 x parameters x tokens at peak would take {two_digits(work)} days")
