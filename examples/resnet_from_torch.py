"""A module of one's own: ResNet-50 captured from PyTorch, costed on A100 and V100, held against published runs.

The graph was captured once (`podsim capture`), so this needs no PyTorch. No constant was fitted to any of these rows.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import podsim
from podsim.verify.tables import load

GRAPH = str(Path(__file__).parent / "modules" / "resnet50.json")  # 256 images
CLUSTERS = {
    "A100-80GB": "dgx-a100-80gb:1",
    "V100-16GB": "dgx-1-v100-16gb:1",
    "V100-32GB": "dgx-1-v100-32gb:1",
}
PRECISIONS = {"FP16/mixed": "fp16", "TF32": "tf32", "FP32": "fp32"}
FUSE = {"PyTorch": "none", "MxNet": "chains"}  # PyTorch eager; MXNet with its fused norm, sum and ReLU
MODELS = ("Classification/RN50v1.5", "Classification/ConvNets/resnet50v1.5")

print(f"{'framework':9}  {'GPUs':>13}  {'precision':10}  {'role':9}  {'measured':>8}  {'podsim':>6}  error")
errors: dict[str, list[float]] = {}
for row in load("vision"):
    gpus, framework, gpu = row.integer("n_gpus"), row.text("framework"), row.text("gpu")
    images, precision = row.number("throughput"), row.text("precision")
    if row.text("model") not in MODELS or row.text("task") != "train" or not images or not gpus:
        continue
    if framework not in FUSE or gpu not in CLUSTERS or gpus not in (1, 8):
        continue
    made = podsim.graph(
        GRAPH, on=CLUSTERS[gpu], gpus=gpus, precision=PRECISIONS[precision], fuse=FUSE[framework]
    )
    found = made.samples_per_second if made.data_parallel is None else made.data_parallel.samples_per_second
    error = found / images - 1
    errors.setdefault(f"{precision}, {row.role}", []).append(abs(error))
    print(
        f"{framework:9}  {gpus} x {gpu:>9}  {precision:10}  {row.role:9}  {images:8,.0f}  {found:6,.0f}  {error:+.0%}"
    )

print()
print("Mean absolute error")
for name, values in sorted(errors.items()):
    print(f"  {name:21}  {mean(values):4.0%}  of {len(values)} rows")
print("TF32 rests on a single measured product, and on no convolution: expect an error of this size there.")

cut = podsim.graph(GRAPH, on="a100-sxm4-80gb", devices=4).cut
assert cut is not None
print()
print(
    f"Cut over four GPUs: {cut.bytes / 1e6:.0f} MB sent forward, fullest {cut.balance - 1:+.0%} over the mean"
)
