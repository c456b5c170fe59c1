"""Wait for the slowest, or train on old weights? 64 workers at 3 steps/s, ResNet-50's gradients, parameter servers."""

from __future__ import annotations

import podsim
from podsim.answers.exchanged import ExchangeRun, Tradeoff

GRADIENTS = 4 * 25_557_032  # B: fp32, parameters of torchvision.models.resnet50
WORKERS, COMPUTE = 64, 1 / 3  # s of a step, as in parameter_server.py
SERVER = 12.5e9  # B/s, one adapter of 100 Gb/s
WHO = {
    "compute": COMPUTE, "gradients": GRADIENTS, "workers": WORKERS, "bandwidth": SERVER, "jitter": 0.1, "steps": 100,
}  # fmt: skip


def one(**how: object) -> ExchangeRun:
    found = podsim.workers(**WHO, **how)  # type: ignore[arg-type]
    assert isinstance(found, ExchangeRun)
    return found


print(f"{WORKERS} workers, 10 % of noise, adapters of 100 Gb/s everywhere")
print()
print("In step over parameter servers: how many does it take to come near an all-reduce?")
ring = one()
print(f"  all-reduce   {ring.steps_per_second:.2f} steps/s, {ring.idle:4.0%} idle")
for servers in (1, 4, 16, 64):
    run = one(exchange="ps", servers=servers)
    need = WORKERS * GRADIENTS / (servers * SERVER)
    told = f"{run.steps_per_second:.2f} steps/s, {run.idle:4.0%} idle"
    print(f"  servers: {servers:<3} {told}; all gradients at once would take {need * 1e3:.0f} ms to come in")

for title, trouble in (("noise alone", {}), ("noise, and worker 7 at half speed", {"slow": {7: 2.0}})):
    found = podsim.workers(**WHO, servers=16, compare=True, **trouble)  # type: ignore[arg-type]
    assert isinstance(found, Tradeoff)
    print()
    print(f"16 servers, {title}: how many rounds may the fastest be ahead?")
    for run in found.runs[1:]:
        bound = "any number" if run.bound is None else f"{run.bound:<10}"
        print(
            f"  {bound}   {run.steps_per_second:.1f} steps/s, {run.idle:4.0%} idle, {run.staleness:3.0f} updates stale,"
            f" 99 % within {run.staleness_p99:.0f}"
        )
print()
print("Noise needs a small bound only; a worker that is always slow holds up every bound, later or sooner.")
