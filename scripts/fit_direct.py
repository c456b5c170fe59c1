"""Residuals of the law of direct convolution kernels over its two constants: python scripts/fit_direct.py.

Rows are those with role `calibrate` of networks of images whose convolutions have groups, and of those without to hold
the frameworks; each framework, architecture and precision has one factor of its own, as software will fit it. Printed is
what is left: the root of the mean square of logarithms. The first line is without the law (bytes at full bandwidth).
Then the share of the peak that long windows reach, for the rows of QuartzNet alone and without any factor.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from podsim.accuracy.price_networks import NetworkCosts, NetworkRun, network_runs
from podsim.accuracy.tables import load
from podsim.kernels import convolutions as kernels_conv

NETWORKS = ("resn", "se-resn", "efficientnet", "ssd300")
BYTES = (1e9, 0.8, 1.0, 1.1, 1.25, 1.5, 2.0)
ARITHMETIC = (0.045, 0.25, 0.5, 1.0)
LONG = (0.03, 0.04, 0.045, 0.05, 0.06, 0.5)


def measured(networks: tuple[str, ...]) -> list[tuple[NetworkRun, float]]:
    """(run, samples a second) of every row of networks whose names begin so."""
    rows = [row for row in load("vision") if row.role == "calibrate" and row.number("throughput")]
    found, _ = network_runs([(row.id, row.fields) for row in rows])
    return [
        (found[row.id], row.number("throughput") or 0.0)
        for row in rows
        if row.id in found and found[row.id].network.startswith(networks)
    ]


def left(rows: list[tuple[NetworkRun, float]]) -> float:
    """What one factor for each framework, architecture and precision does not explain."""
    costs = NetworkCosts()
    errors = np.log([costs.rate(run) / rate for run, rate in rows])
    names = [f"{run.software} {run.cluster.gpu.architecture} {run.precision}" for run, _ in rows]
    _, group = np.unique(names, return_inverse=True)
    errors -= (np.bincount(group, errors) / np.bincount(group))[group]
    return float(np.sqrt(np.mean(errors**2)))


def main() -> None:
    """Print the table."""
    kept = kernels_conv.DIRECT_BYTES, kernels_conv.DIRECT_ARITHMETIC
    rows = measured(NETWORKS)
    print(f"{len(rows)} rows\n B a cycle  share of fp32 peak  left")
    for each, share in product(BYTES, ARITHMETIC):
        if each == BYTES[0] and share != ARITHMETIC[-1]:
            continue
        kernels_conv.DIRECT_BYTES, kernels_conv.DIRECT_ARITHMETIC = each, share
        print(f"{each:10g} {share:19g} {left(rows):5.1%}", flush=True)
    kernels_conv.DIRECT_BYTES, kernels_conv.DIRECT_ARITHMETIC = kept
    rows = measured(("quartznet",))
    print(f"{len(rows)} rows\n share of fp32 peak  left")
    for share in LONG:
        kernels_conv.LONG_ARITHMETIC = share
        costs = NetworkCosts()
        errors = np.log([costs.rate(run) / rate for run, rate in rows])
        print(f"{share:19g} {np.sqrt(np.mean(errors**2)):5.1%}", flush=True)


if __name__ == "__main__":
    main()
