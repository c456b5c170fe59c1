"""Small random traces."""

from __future__ import annotations

import numpy as np

from podsim.fleet.jobs import JobColumns, make_jobs


def random_jobs(seed, *, n=25, most=8, limits=False, chains=False, slow=False, users=3):
    rng = np.random.default_rng(seed)
    after = [
        tuple(str(p) for p in rng.choice(j, size=min(j, int(rng.integers(0, 3))), replace=False))
        if chains and j
        else ()
        for j in range(n)
    ]
    seconds = np.round(rng.exponential(300.0, n), 3) + 1.0
    return make_jobs(JobColumns(
        ids=[str(j) for j in range(n)], submit=np.round(np.cumsum(rng.exponential(40.0, n)), 3),
        gpus=rng.integers(1, most + 1, n), seconds=seconds,
        limit=np.round(seconds * rng.uniform(1.0, 3.0, n), 3) if limits else None,
        user=[f"u{u}" for u in rng.integers(0, users, n)], after=after if chains else None, rank=rng.uniform(0, 1, n),
        slow=np.stack([np.ones(n), rng.uniform(0.7, 1.0, n), rng.uniform(0.4, 0.7, n)], axis=1) if slow else None,
    ))  # fmt: skip
