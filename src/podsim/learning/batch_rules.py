"""How the learning rate follows the batch, and how a run begins: rules that name no network and no GPU.

linear       the rate grows with the batch (Goyal et al. 2017, section 2.1): for momentum SGD and LARS
square-root  it grows with the root of the batch (You et al. 2020, section 4): for optimizers that divide by the root of
             the second moment, as Adam and LAMB do
warm-up      the rate grows linearly over the first steps (Goyal et al. 2017, section 2.2)

Known limits: both rules fail above the critical batch (`batch_noise.py`), where a larger batch permits no larger rate.
"""

from __future__ import annotations

from collections.abc import Mapping

RULES: Mapping[str, float] = {"none": 0.0, "linear": 1.0, "sqrt": 0.5}
"""the power of the batch that the rate grows with, by the name of a rule"""

RULE_OF: Mapping[str, str] = {"sgd": "linear", "lars": "linear", "adamw": "sqrt", "lamb": "sqrt"}
"""the usual rule of an optimizer"""


def scaled_rate(rate: float, base: float, batch: float, rule: str) -> float:
    """The learning rate at a batch, from the rate at another batch: rate (batch / base)^power."""
    return float(rate * (batch / base) ** RULES[rule])


def warmed_rate(rate: float, step: int, warmup: int) -> float:
    """The learning rate of a step, numbered from 0: it grows linearly over `warmup` steps, then stays."""
    return rate * min(1.0, (step + 1) / warmup) if warmup else rate


def noisy_rate(rate: float, base: float, batch: float, critical: float, rule: str) -> float:
    """The learning rate at a batch by a rule that ends at the critical batch: McCandlish et al. 2018, equation 2.6.

    It is rate_most / (1 + critical / batch)^power: as the rule says in small batches, and constant in large ones.
    """
    return float(rate * ((1 + critical / base) / (1 + critical / batch)) ** RULES[rule])
