"""Is storage what holds ResNet-50 back on four DGX A100, and what would have to shrink before it did?"""

from __future__ import annotations

import podsim

for nodes in (1, 2, 4):
    run = podsim.storage_input("resnet50", on=f"weka-ra:{nodes}")
    assert run.training is not None
    assert run.training.published is not None
    first, later = run.epochs[0], run.epochs[-1]
    print(
        f"{nodes} DGX A100: {run.training.seconds / 60:.0f} min (published: {run.training.published / 60:.0f}); "
        f"first epoch {first.rate / later.rate:.0%} of later ones, held by {first.limit}, "
        f"reads {first.read / 1e9:.1f} GB/s"
    )

print("Four nodes; in use in the first epoch:")
for row in run.shrink:
    if row.resource != "cache of a node":
        print(f"  {row.resource:27} {row.load:4.0%}")

read = podsim.storage_fio("weka-ra:4").rows
print("fio reads, GB/s with one to four nodes:", ", ".join(f"{row.bandwidth / 1e9:.0f}" for row in read))
lost = podsim.storage_fail("weka-ra:4").rows
for row in lost[1:]:
    print(
        f"{row.failed} servers lost: {row.read / 1e9:.0f} GB/s; {row.verdict}"
        if row.reads
        else f"{row.failed} servers lost: {row.verdict}"
    )
