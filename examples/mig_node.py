"""How is a DGX A100 divided for training, HPC and inference, and what do seven slices of an A100 serve?"""

from __future__ import annotations

import podsim

node = podsim.mig_plan("dgx-a100-40gb", jobs=["training:4xgpu", "hpc:2xgpu", "inference:14x1g.5gb"])
print(f"The white paper's node: {node.devices} devices")
for gpu in node.gpus:
    print(f"  GPU {gpu.index}: {gpu.mode:5} {gpu.layout or ''} {gpu.jobs[0]}")
for _, commands in node.commands:
    print("\n".join(f"  $ {command}" for command in commands))

print(
    f"{podsim.mig_plan('dgx-a100-40gb', jobs=['user:56x1g']).devices} users on one DGX A100, one slice each"
)

whole, slices = (
    podsim.serve("bert-large", on=on, precision="int8", latency="50 ms")
    for on in ("a100-40gb", "a100-40gb/7x1g.5gb")
)
print("BERT-Large in int8, answered within 50 ms, sequences a second:")
for served in (whole, slices):
    assert not isinstance(served, podsim.Figure)
    assert served.best is not None
    print(f"  {served.instances} x {served.gpu}: {round(served.total, -2):,.0f}, batch {served.best.batch}")

law = podsim.mig_law()
for score in law.scores:
    print(
        f"law of slices, f {score.name}: {score.mean:.1%} off on {score.points} speeds of {score.cases} jobs"
    )
