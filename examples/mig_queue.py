"""Two thousand jobs, most of them on MIG instances, on eight DGX A100: where should each instance go?"""

from __future__ import annotations

import numpy as np

from podsim.fleet.jobs import JobColumns, make_jobs
from podsim.fleet.metrics import make_run
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine
from podsim.fleet.sliced import run_sliced
from podsim.fleet.slots import PACKERS
from podsim.hardware.mig.profiles import slicings

JOBS, LOAD = 2000, 0.9
SHARES = {"1g": 1 / 7, "2g": 2 / 7, "3g": 3 / 7, "7g": 1.0, "": 1.0}


def main() -> None:
    """Draw the jobs, run them under each way to place instances, print what became of them: means of two draws."""
    machine, slicing = Machine(nodes=8, gpus_per_node=8), slicings()["a100-80gb"]
    print(f"{JOBS} jobs on 64 A100-80GB, load {LOAD:.0%}, first come first served; what fits overtakes")
    print(f"{'placement':10} {'wait mean':>9} {'of no use':>9} {'divided anew':>12}")
    for packer, says in PACKERS.items():
        runs = []
        for seed in range(2):
            rng = np.random.default_rng(seed)
            profile = rng.choice(list(SHARES), JOBS, p=[0.45, 0.2, 0.15, 0.05, 0.15])
            gpus = np.where(profile == "", rng.choice([1, 2, 4, 8], JOBS), 1)
            seconds = np.minimum(3600 * np.exp(rng.standard_normal(JOBS)), 86400)
            work = float((np.array([SHARES[one] for one in profile]) * gpus * seconds).sum())
            columns = JobColumns(
                ids=range(JOBS), submit=np.sort(rng.uniform(0, work / machine.gpus / LOAD, JOBS)), gpus=gpus,
                seconds=seconds, mig=profile.tolist(),
            )  # fmt: skip
            made = run_sliced(
                make_jobs(columns), machine, find_policy("fifo-skip"), slicing, packer=packer, relay=10.0
            )
            runs.append(make_run(made, timeline=False))
        wait, lost, anew = (
            float(np.mean([getattr(run, name) for run in runs]))
            for name in ("wait_mean", "fragmented", "relaid")
        )
        print(f"{packer:10} {wait / 60:7.1f} m {lost:9.2%} {anew:12.0f}   {says}")


if __name__ == "__main__":
    main()
