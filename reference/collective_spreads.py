"""How far measured collectives lie from predictions that have not seen their cluster: src/podsim/accuracy/spreads.toml.

    python -m reference.collective_spreads

A class of two clusters or more is predicted without each in turn, one of one by the constants of the nearest (NEAR).
`single` is for classes of one cluster or none: all of these clusters together, each counting alike. `node` is for one
node: rows that state their launch. Calibrate rows only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from podsim.accuracy.price_collectives import SPREAD_BOUNDS, call_seconds, network_sweeps, read_call
from podsim.accuracy.tables import load, measurement
from podsim.network.collective_settings import NETWORKS
from podsim.network.fit_networks import UNFITTED, FittedNetworks, Sweep, fit_networks, swept_seconds

NEAR = {"efa-v2": "efa-v1", "tcpxo": "efa-v2", "slingshot": "infiniband"}
"""Class of one cluster -> the class whose constants predict it as if it had none."""
SHARE = 0.9
"""The share of measurements within a spread."""
Points = list[tuple[float, float]]
"""(B of a message, measured over predicted time)"""


def left_out_points(sweeps: Sequence[Sweep]) -> dict[str, dict[str, Points]]:
    """Class of networks -> cluster -> points."""
    clusters: dict[str, set[str]] = defaultdict(set)
    for sweep in sweeps:
        clusters[sweep.wires.fabric].add(sweep.cluster)
    fitted = fit_networks(sweeps)
    points: dict[str, dict[str, Points]] = defaultdict(dict)
    for kind, names in clusters.items():
        for name in sorted(names) if len(names) > 1 or kind in NEAR else ():
            others = [sweep for sweep in sweeps if sweep.cluster != name]
            known = _with_near(fitted, kind) if kind in NEAR else fit_networks(others)
            own = [
                s for s in sweeps if s.cluster == name and s.wires.fabric == kind and s.collective != UNFITTED
            ]
            points[kind][name] = [
                (size, time / value)
                for sweep in own
                for size, time, value in zip(
                    sweep.sizes, sweep.seconds, swept_seconds(known, sweep), strict=True
                )
            ]
    return points


def _with_near(fitted: FittedNetworks, kind: str) -> FittedNetworks:
    near = replace(fitted.networks[NEAR[kind]], adapter=fitted.networks[kind].adapter)
    return FittedNetworks(networks={**fitted.networks, kind: near})


def single_classes(sweeps: Sequence[Sweep]) -> list[str]:
    """The classes of networks with one cluster or none."""
    clusters = {(sweep.wires.fabric, sweep.cluster) for sweep in sweeps}
    return [kind for kind in NETWORKS if sum(own == kind for own, _ in clusters) < 2]


def node_points() -> Points:
    """Points of collectives in one node whose launch is stated."""
    rows = [
        row
        for row in load("collectives")
        if row.role == "calibrate" and row.text("nodes") == "1" and row.validates
    ]
    calls = {row.id: call for row in rows if not isinstance(call := read_call(row.fields), str)}
    seconds, _ = call_seconds({id: call for id, call in calls.items() if "launch" not in call.unstated})
    measured = {row.id: value for row in rows if (value := measurement(row, "seconds"))}
    return [(calls[id].size, measured[id].value / value) for id, value in seconds.items() if id in measured]


def spread(clusters: Sequence[Points]) -> list[tuple[float, float]]:
    """(least, most) of measured over predicted time between SPREAD_BOUNDS; clusters count alike."""
    out = []
    for low, high in zip((0.0, *SPREAD_BOUNDS), (*SPREAD_BOUNDS, np.inf), strict=True):
        parts = [[ratio for size, ratio in points if low <= size < high] for points in clusters]
        ratios = np.array([ratio for part in parts for ratio in part])
        weights = np.array([1 / len(part) for part in parts for _ in part])
        order = np.argsort(ratios)
        places = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
        least, most = np.interp(((1 - SHARE) / 2, (1 + SHARE) / 2), places, ratios[order])
        out.append((min(float(least), 1.0), max(float(most), 1.0)))
    return out


def spreads_text(sweeps: Sequence[Sweep], points: Mapping[str, Mapping[str, Points]]) -> str:
    """The text of spreads.toml."""
    known = {kind: list(of.values()) for kind, of in sorted(points.items()) if len(of) > 1}
    known["single"] = [own for of in points.values() if len(of) < 3 for own in of.values()]
    known["node"] = [node_points()]
    lines = [
        "# Measured over predicted time of collectives, 90 % of cases, by size of the message",
        "# (SPREAD_BOUNDS).",
    ]
    lines += ['made_by = "python -m reference.collective_spreads"', ""]
    for name, clusters in known.items():
        least, most = zip(*spread(clusters), strict=True)
        lines += [f"[{name}]", f"clusters = {len(clusters)}"]
        lines += [f"classes = {json.dumps(single_classes(sweeps))}"] if name == "single" else []
        lines += [
            f"{key} = {[round(value, 3) for value in of]}" for key, of in (("least", least), ("most", most))
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    measured = network_sweeps(load("collectives"))
    text = spreads_text(measured, left_out_points(measured))
    Path("src/podsim/accuracy/spreads.toml").write_text(text, "utf-8")
