"""Rows of nccl and of collectives among the measured kernels in their sources' words -> canonical columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from podsim.accuracy.measured_runs import read_cluster
from podsim.accuracy.own_words import cluster_settings, find_node, read_adapters
from podsim.accuracy.price_collectives import read_call

COLUMNS = ("cluster", "launch", "nccl", "in_switch", "reason")
# system and GPU as sources write them -> why no system of the catalog is it
_UNKNOWN_MACHINES = (
    (r"H100-PCIe", "the source does not say how many of three NVLink bridges join the two cards"),
    (r"MI\d00", "RCCL picks and runs collectives by its own tables, of which podsim has none"),
)
# what a log's own floor or date tells where its notes do not: part of its id or source -> (launch, version)
_CIRCUMSTANCES = {
    "superbenchmark": ("single", "2.10"),
    "doc_a100-80_1n8g_all_reduce_mpi8": ("process", "2.2x"),
    "doc_v100": ("single", "2.8"),
    "dgx2": ("single", "2.8"),
    "deepops": ("process", "2.8"),
    "vTrain": ("single", "2.8"),  # nccl-tests without MPI, in the years of its trainings
}


def canonical(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical columns of a row of a table of collectives."""
    launch, version = circumstances(row)
    cells = {
        "cluster": _cluster(row), "launch": launch, "nccl": version, "reason": _disturbance(row["notes"]),
        "in_switch": "no" if "dtype int8" in row["notes"] or row["algo"] == "ring" else "",
    }  # fmt: skip
    machine = f"{row['system']} {row['gpu']}"
    reason = next((why for pattern, why in _UNKNOWN_MACHINES if re.search(pattern, machine)), "")
    if not (cells["cluster"] or cells["reason"]):
        call = read_call({**row, **cells})
        cells["reason"] = reason or (call if isinstance(call, str) else "")
    return cells


def kernel_collective(row: Mapping[str, str]) -> dict[str, str]:
    """A collective in a node: aiconfigurator runs a thread for each GPU, of the NCCL in its path; vTrain one process."""
    version = re.search(r"/nccl/(2\.\d+)", row["path"])
    cells = canonical(
        {
            **row,
            "system": "",
            "nodes": "1",
            "gpus": row["n_gpus"],
            "nics": "",
            "algo": "auto",
            "collective": row["op"].removeprefix("nccl "),
            "size_bytes": row["message_bytes"],
            "notes": f"threads, NCCL {version[1]}" if version else "",
        }
    )
    return {column: cells[column] for column in ("cluster", "launch", "nccl", "reason")}


def _disturbance(notes: str) -> str:
    bad = "problem case" in notes or "much slower" in notes
    return "the source reports a machine that did not work as it should" if bad else ""


def _cluster(row: Mapping[str, str]) -> str:
    """The settings of a row's cluster; "" where the source does not say what it takes."""
    nodes, system = int(row["nodes"]), find_node(row["gpu"], row["system"])
    if system is None:
        return ""
    each = read_cluster(f"{system}:1").gpus_per_node
    network = read_adapters(row["nics"] if nodes > 1 else "", each)
    return (
        ""
        if nodes > 1 and "network.bandwidth" not in network
        else cluster_settings(system, nodes * each, network)
    )


def circumstances(row: Mapping[str, str]) -> tuple[str, str]:
    """(launch, NCCL's version) of a row, from its notes, else from _CIRCUMSTANCES, else what most logs are."""
    notes, place = row["notes"], f"{row['id']} {row['source']}"
    launch, version = next(
        (known for part, known in _CIRCUMSTANCES.items() if part in place), ("single", "2.18")
    )
    if re.search(r"-t \d|threads?\b", notes):
        launch = "thread"
    elif re.search(r"MPI|ranks? (per|x 1) GPU", notes):
        launch = "process"
    match = re.search(r"NCCL (2\.\w+)", notes)
    return launch, match[1] if match else version
