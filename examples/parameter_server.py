"""Why not one parameter server? ResNet-50 on 256 V100s: what the server would need, and what a ring needs."""

from __future__ import annotations

import podsim
from podsim.network.collectives import summary
from podsim.network.collectives.direct import parameter_server_all_reduce
from podsim.network.collectives.rings import ring_all_reduce

PARAMETERS = 25_557_032  # ResNet-50, torchvision.models.resnet50
GRADIENTS = 4 * PARAMETERS  # B, fp32
WORKERS = 256
STEPS = 3.0  # 1/s
IMAGES = 356.0  # 1/s of a V100 32 GB in fp32: NVIDIA DeepLearningExamples, PyTorch resnet50v1.5, README

print("Assumed")
print(
    f"  gradients: {PARAMETERS:,} parameters x 4 B = {GRADIENTS / 1e6:.1f} MB = {GRADIENTS / 2**20:.1f} MiB"
)
print(f"  {WORKERS} workers, {STEPS:g} steps/s, and a server that is none of them")
print(
    f"  a V100 measured at {IMAGES:g} images/s makes {STEPS:g} steps/s with {IMAGES / STEPS:.0f} images a step"
)
print("  counted one way: into the server; as much goes out again, over the other half of a full-duplex link")

server = summary(parameter_server_all_reduce(WORKERS + 1, server=WORKERS), GRADIENTS)
need = server.peak * STEPS
print()
print("One parameter server")
print(f"  fan-in {server.fan_in}, {server.peak / 1e9:.2f} GB into the server each step")
print(f"  {server.peak / 1e9:.2f} GB x {STEPS:g} steps/s = {need / 1e9:.1f} GB/s = {need / 2**30:.1f} GiB/s")
print(
    "  So 73.1 GB/s is the second figure: 97.5 MiB called MB, and 1024 of them a GB. The rate of 3 steps/s is not"
)
print(
    "  sourced: it is the round number that gives 73.1, and the measured GPU allows it. Everything else is counted."
)
other = server.peak * IMAGES / 128
print(f"  At 128 images a step it would be {other / 1e9:.1f} GB/s = {other / 2**30:.1f} GiB/s")
nic = podsim.load_cluster("dgx-1-v100-32gb:32").network.bandwidth
print(
    f"  that is {need / nic:.1f} adapters of {8 * nic / 1e9:.0f} Gb/s, each way, at full rate, all the time"
)

ring = summary(ring_all_reduce(WORKERS), GRADIENTS)
print()
print("A ring")
print(
    f"  each worker sends {ring.sent_most / 1e6:.1f} MB a step, in {ring.rounds} rounds, fan-in {ring.fan_in}"
)
print(
    f"  {ring.sent_most * STEPS / 1e9:.2f} GB/s = {ring.sent_most * STEPS / 2**30:.2f} GiB/s at every worker"
)
