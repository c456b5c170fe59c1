"""What does each pipeline schedule cost in time and in memory, and what does a slow link between ranks do to it?"""

from __future__ import annotations

import podsim
from podsim.answers.scheduled import ScheduleComparison

P, M = 8, 32


def compared(send: float) -> ScheduleComparison:
    """All schedules; a forward and each of the two gradients take 1 of a rank's whole share of the model."""
    found = podsim.schedule(pp=P, micro_batches=M, send=send)
    assert isinstance(found, ScheduleComparison)
    return found


near, far = compared(0.0), compared(0.2)
print(f"{P} ranks, {M} micro-batches; every pass takes 1; a step without any waiting would take {3 * M}")
print("                  step  bubble   step if a send takes 0.2   activations held   copies of weights")
for row, slow in zip(near.rows, far.rows, strict=True):
    print(
        f"{row.schedule:14} {row.step_time:7.1f} {row.bubble:7.1%} {slow.step_time:22.1f} {row.activations:19.1f} x"
        f" {row.copies:15.0f} x"
    )
