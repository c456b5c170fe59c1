"""One GPU of 64 is 20 % slower than the others. Who waits for it, and what does the step cost?

LLaMA-3.1-8B on eight DGX A100: four pipeline stages, tensor parallelism over four, four data-parallel replicas. Every
rank that does as others do is played once; the slow one sets apart whoever shares a group with it.
"""

from __future__ import annotations

import podsim

SETTING = {
    "on": "dgx-a100:8", "tp": 4, "pp": 4, "batch": 64, "zero": 1, "sequence_parallel": True, "kernels": False,
}  # fmt: skip
SLOW = 17

base = podsim.simulate("llama-3.1-8b", **SETTING)
print(f"all alike: {base.step_time:.2f} s a step, {base.ranks} classes of ranks stand for {base.gpus} GPUs")

print()
print("how slow is rank 17    step    loss   classes")
for factor in (1.1, 1.2, 1.5, 2.0):
    step = podsim.simulate("llama-3.1-8b", slow={SLOW: factor}, **SETTING)
    print(
        f"{factor:12.1f}      {step.step_time:8.2f} s  {step.step_time / base.step_time - 1:5.0%}   {step.ranks:4}"
    )

step = podsim.simulate("llama-3.1-8b", slow={SLOW: 1.2}, **SETTING)
timeline = step.timeline
print()
print("who waits, rank 17 being 1.2 times as slow (seconds of the compute lane)")
print("                          computes   tp waits   bubble")
kinds = list(timeline.kinds)
for number, lane in enumerate(timeline.lanes):
    if lane.name != "compute" or not lane.process.startswith("stage 1"):
        continue
    mine = timeline.lane == number
    seconds = dict.fromkeys(kinds, 0.0)
    for kind, span in zip(
        timeline.kind[mine].tolist(), (timeline.end - timeline.start)[mine].tolist(), strict=True
    ):
        seconds[kinds[kind]] += span
    busy = seconds["compute"] + seconds["memory"]
    print(f"{lane.process:25} {busy:8.1f}   {seconds['tp']:8.1f} {seconds['bubble']:8.1f}")
print(
    "its tensor-parallel peers wait in every collective, the other replicas at the end; stage 1 has slack beside the"
)
print("last stage, which holds the head: a GPU that is a little slow hides in it")

print()
adapter = podsim.simulate("llama-3.1-8b", slow_link={SLOW: 0.1}, **SETTING)
print(
    f"a tenth of its adapter left instead: {adapter.step_time:.2f} s, {adapter.step_time / base.step_time - 1:+.0%}"
)
