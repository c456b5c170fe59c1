"""Sheets of the captured networks."""

from __future__ import annotations

from podsim.graphs.networks import load_network, networks
from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.units import format_quantity


def all_networks_sheet() -> Sheet:
    """The sheet of all captured networks, with their parameters."""
    rows = tuple(
        Row(
            label=network.name, value=float(network.parameters), unit="",
            text=format_quantity(float(network.parameters), ""), how=network.title, source=network.source,
        )
        for network in networks().values()
    )  # fmt: skip
    return Sheet(
        name="networks", kind="network", title="Networks captured for any batch: podsim graph NAME --batch N --on GPU",
        sections=(Section(title="Network (parameters)", rows=rows),),
    )  # fmt: skip


def network_sheet(name: str) -> Sheet:
    """The sheet of one captured network: parameters, FLOP, activations and ops."""
    network, graph = networks()[name], load_network(name, 1)
    figures = (
        ("parameters", float(graph.parameters.sum()), "", "count of weights"),
        ("forward", float(graph.flops.sum()), "FLOP", f"of one {network.sample}"),
        ("backward", float(graph.flops_back.sum()), "FLOP", f"of one {network.sample}"),
        (
            "activations",
            float(graph.kept.sum()),
            "B",
            f"of one {network.sample}, in the number format of the capture",
        ),
        (
            "ops",
            float(len(graph)),
            "",
            ", ".join(f"{graph.count(k)} {k}" for k in sorted({*graph.kind_names})),
        ),
    )
    rows = [
        Row(
            label=label,
            value=value,
            unit=unit,
            text=format_quantity(value, unit),
            how=how,
            source=network.source,
        )
        for label, value, unit, how in figures
    ]
    rows.append(
        Row(
            label="captured", value=None, unit="", text=f"examples/modules/{network.module}",
            how=", ".join(network.inputs), source=network.source,
        )
    )  # fmt: skip
    return Sheet(
        name=name,
        kind="network",
        title=f"{name}: {network.title}",
        sections=(Section(title="Network", rows=tuple(rows)),),
    )
