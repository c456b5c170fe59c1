"""A factor on the loss, so that small gradients stay above a format's smallest number; static, or found by halving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsim.learning.number_format_recipes import read_loss_scale

START, GROWTH = 2.0**16, 2000
"""the first dynamic scale, and the clean steps after which it doubles: those of torch.amp.GradScaler"""


class LossScale:
    """The scale of a run, step by step."""

    def __init__(self, text: str, past: Sequence[float] = (), skipped: Iterable[int] = ()) -> None:
        """text: none, dynamic or a number; past: the scales of the steps before a resumption, skipped: those skipped."""
        fixed = read_loss_scale(text)
        self.is_dynamic = fixed is None
        self.value = START if fixed is None else fixed
        self.clean = 0
        for step, value in enumerate(past):
            self.value = value
            self.update(overflowed=step in set(skipped))

    def update(self, *, overflowed: bool) -> None:
        """What a step's gradients say of the next step's scale."""
        if not self.is_dynamic:
            return
        self.clean = 0 if overflowed else self.clean + 1
        if overflowed:
            self.value = max(self.value / 2, 1.0)
        elif self.clean == GROWTH:
            self.value, self.clean = self.value * 2, 0
