"""Sheets of the captured networks."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.graphs.networks import Network, load_network, networks
from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.units import format_quantity


def all_networks_sheet() -> Sheet:
    """The sheet of all captured networks, with their parameters."""
    rows = tuple(
        Row(
            label=network.name, value=float(network.all_parameters), unit="",
            text=format_quantity(float(network.all_parameters), ""), how=network.title, source=network.source,
        )
        for network in networks().values()
    )  # fmt: skip
    return Sheet(
        name="networks", kind="network", title="Networks captured for any batch: podsim graph NAME --batch N --on GPU",
        sections=(Section(title="Network (parameters)", rows=rows),),
    )  # fmt: skip


def _table_figures(network: Network) -> Iterator[tuple[str, float, str, str]]:
    """(label, value, unit, derivation) of a network's embedding tables."""
    tables = network.table_set
    if tables is None:
        return
    largest = max(tables.tables, key=lambda table: table.bytes)
    where = (
        "within the parameters above" if tables.is_dense else "beyond the parameters above, sparse gradients"
    )
    yield "table weights", float(tables.parameters), "", f"{len(tables.tables)} embedding tables, {where}"
    yield "tables", tables.bytes, "B", f"{tables.title}; without states of {tables.optimizer}"
    yield "largest table", largest.bytes, "B", f"{largest.rows:,} rows of {largest.width}"
    yield (
        "lookups",
        tables.lookups,
        "",
        f"of one {network.sample}, {format_quantity(tables.lookup_bytes, 'B')} of rows",
    )


def network_sheet(name: str) -> Sheet:
    """The sheet of one captured network: parameters, FLOP, activations and ops."""
    network, graph = networks()[name], load_network(name, 1)
    figures = (
        ("parameters", float(graph.parameters.sum()), "", "count of weights"),
        *_table_figures(network),
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
