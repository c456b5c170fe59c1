"""What does a step of a pipeline look like, and which of its ops and links decide how long it takes?

The step is laid out by hand: four stages, eight micro-batches, 1F1B. `write_timeline(timeline, "step.html")` would make a
page of it, "step.pftrace" a trace for ui.perfetto.dev.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from podsim.answers.timeline import Lane, Timeline
from podsim.timeline.timelines import read_timeline, write_timeline

STAGES, BATCHES, FORWARD, BACKWARD = 4, 8, 1e-3, 2e-3


def order(stage: int) -> list[tuple[str, int]]:
    """The passes of a stage: some forward to fill the pipeline, then one forward and one backward in turn."""
    ahead = min(STAGES - stage - 1, BATCHES)
    steady = [one for k in range(BATCHES - ahead) for one in (("forward", ahead + k), ("backward", k))]
    return (
        [("forward", k) for k in range(ahead)]
        + steady
        + [("backward", k) for k in range(BATCHES - ahead, BATCHES)]
    )


ends: dict[tuple[str, int, int], float] = {}
left = {stage: order(stage) for stage in range(STAGES)}
free = dict.fromkeys(range(STAGES), 0.0)
rows = []
while any(left.values()):
    for stage, passes in left.items():
        while passes:
            kind, batch = passes[0]
            before = (kind, batch, stage - 1 if kind == "forward" else stage + 1)
            if before[2] == STAGES:
                before = ("forward", batch, stage)
            if before[2] >= 0 and before not in ends:
                break
            start = max(free[stage], ends.get(before, 0.0))
            free[stage] = ends[kind, batch, stage] = start + (FORWARD if kind == "forward" else BACKWARD)
            rows.append((stage, int(kind == "backward"), start, free[stage], batch))
            passes.pop(0)

lane, kind, start, end, batch = (np.array(column) for column in zip(*rows, strict=True))
timeline = Timeline(
    lanes=tuple(Lane(process=f"stage {stage}", name="compute") for stage in range(STAGES)),
    names=("forward", "backward"), kinds=("forward", "backward"), lane=lane, name=kind, kind=kind, start=start, end=end,
    arguments={"micro_batch": batch},
)  # fmt: skip

print(f"{len(timeline)} passes in {timeline.seconds * 1e3:.0f} ms")
for where, busy in zip(timeline.lanes, timeline.busy("lane"), strict=True):
    print(f"{where.process}: busy {busy / timeline.seconds:.0%}")
print(
    f"a bubble of {1 - BATCHES * (FORWARD + BACKWARD) / timeline.seconds:.1%}; (p-1)/(m+p-1) is {3 / 11:.1%}"
)

print()
for row in range(STAGES):
    line = ["."] * round(timeline.seconds * 1e3)
    for k in np.flatnonzero(lane == row):
        for at in range(round(start[k] * 1e3), round(end[k] * 1e3)):
            line[at] = str(batch[k]) if kind[k] else chr(ord("a") + batch[k])
    print("".join(line))
print("letters: forward passes, digits: backward passes of the same micro-batches, a column 1 ms")

print()
with tempfile.TemporaryDirectory() as folder:
    for name in ("step.json", "step.pftrace", "step.html", "step.svg"):
        write_timeline(timeline, Path(folder) / name, title="1F1B, four stages, eight micro-batches")
    again = read_timeline(Path(folder) / "step.pftrace")
same = dict(zip(again.kinds, again.busy(), strict=True))
print(
    f"read back from the trace: forward {same['forward'] * 1e3:.0f} ms, backward {same['backward'] * 1e3:.0f} ms"
)
