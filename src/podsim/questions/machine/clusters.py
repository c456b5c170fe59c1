"""`podsim clusters`: the systems and clusters of the catalog."""

from __future__ import annotations

from podsim.answers.answer import View
from podsim.hardware.catalog import named_rows
from podsim.hardware.cluster import cluster_names, load_cluster
from podsim.options.machine_options import CatalogFilter
from podsim.options.question import question


@question(CatalogFilter, view=View(report="report.sheets:clusters_report"))
def clusters(options: CatalogFilter) -> list[dict[str, object]]:
    """Every system and cluster of the catalog: name, GPU, GPUs, memory, network, source.

    `text` keeps those whose name or GPU holds it. Raises CatalogError where none does.
    """
    rows: list[dict[str, object]] = []
    for name in cluster_names():
        cluster = load_cluster(name)
        rows.append({
            "name": name, "gpu": cluster.gpu.name, "nodes": cluster.nodes, "gpus": cluster.gpus,
            "memory": cluster.gpu.memory * cluster.gpus, "nvlink": cluster.nvlink.bandwidth,
            "network": cluster.node_bandwidth, "fabric": cluster.fabric, "source": cluster.source,
        })  # fmt: skip
    return named_rows(rows, options.text)
