"""ResNet-50 captured from PyTorch, against published runs; and what TF32 loses to the layout of its tensors.

The graph was captured once, for any batch (`podsim capture examples/modules/resnet50.py:training --input Bx3x224x224`),
so this needs no PyTorch. The software's constants are fitted to rows of one GPU (role `calibrate`), rows of more are not.
"""

from __future__ import annotations

from statistics import mean

import podsim
from podsim.accuracy.price_networks import price_networks
from podsim.accuracy.tables import load

MODELS = ("Classification/RN50v1.5", "Classification/ConvNets/resnet50v1.5")

rows = load("vision").where(lambda row: row.text("model") in MODELS and row.text("task") == "train")
predicted = price_networks(rows).predictions

print(f"{'framework':12}  {'GPUs':>13}  {'precision':10}  {'role':9}  {'measured':>8}  {'podsim':>6}  error")
errors: dict[str, list[float]] = {}
for row in rows:
    measured = row.number("throughput")
    if row.id not in predicted or not measured:
        continue
    error = predicted[row.id] / measured - 1
    errors.setdefault(f"{row.role}, {row.text('precision')}", []).append(abs(error))
    print(
        f"{row.text('framework'):12}  {row.text('n_gpus')} x {row.text('gpu'):>9}  {row.text('precision'):10}  "
        f"{row.role:9}  {measured:8,.0f}  {predicted[row.id]:6,.0f}  {error:+.0%}"
    )

print()
print("Mean absolute error")
for name, values in sorted(errors.items()):
    print(f"  {name:21}  {mean(values):4.0%}  of {len(values)} rows")

print()
print("One A100, 256 images, images a second with software that was fitted to no convolution")
for precision in ("fp16", "tf32"):
    for layout in ("channels-last", "channels-first"):
        step = podsim.graph(
            "resnet50",
            on="a100-sxm4-80gb",
            batch=256,
            precision=precision,
            layout=layout,
            software="megatron-core",
        )
        print(
            f"  {precision}  {layout:14}  {step.batch / (step.forward + step.backward + step.update):6,.0f}"
        )
print("PyTorch's TF32 run, which is channels first, was published with 938.")

cut = podsim.graph("resnet50", on="a100-sxm4-80gb", batch=256, devices=4).cut
assert cut is not None
print()
print(
    f"Cut over four GPUs: {cut.bytes / 1e6:.0f} MB sent forward, fullest {cut.balance - 1:+.0%} over the mean"
)
