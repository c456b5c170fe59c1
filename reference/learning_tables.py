"""Points of convergence and minutes to a target, from the collected tables of MLPerf Training.

    curated_minutes(rows)        canonical rows of time_to_train.csv and its like
    curated_convergence(rows)    canonical rows of convergence.csv and its like

The others make the shipped tables. `convergence_rows` gives each reference point once (repeats and second names of a
benchmark are left out), and before v1.0, or without reference points, the mean of the submissions that are marked
calibrate. `minutes_rows` gives every closed submission on GPUs with its samples to the target.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_cluster, read_count
from podsim.accuracy.tables import find_kind
from podsim.errors import PodsimError
from podsim.learning.benchmarks import Benchmark, find_benchmark, own_samples
from reference.csv_rows import each_row
from reference.machine_words import cluster_settings, find_node

Cells = Mapping[str, str]
CONVERGENCE = (
    "role",
    "id",
    "benchmark",
    "version",
    "batch",
    "n_seeds",
    "mean",
    "sd",
    "unit",
    "source",
    "tables",
)
_LEFT_OUT = ("hpc", "v0.5")
"""HPC, and a round whose logs have the batch of one GPU."""


def convergence_rows(directory: Path) -> list[dict[str, str]]:
    """The rows of learning/convergence.csv."""
    first = {
        (cells["batch"], cells["mean"]): (cells["version"], cells["source"])
        for cells in _read(directory / "learning" / "convergence.csv")
        if cells["benchmark"] == "ssd" and not cells["version"].startswith("1.") and cells["repeat"] == "0"
    }
    rows = [
        _reference_point(cells, first)
        for cells in _read(directory / "learning" / "convergence.csv")
        if cells["repeat"] == "0" and not _is_second_name(cells)
    ]
    rows += _means_of_submissions(directory, {row["benchmark"] for row in rows})
    return [{**row, "id": f"{row['benchmark']}/{row['version']}/{row['batch']}"} for row in rows]


def _is_second_name(cells: Cells) -> bool:
    """Whether the same points stand under another name: rgat is gnn, sd stable_diffusion, ssd from v2.0 on retinanet."""
    return cells["benchmark"] in ("rgat", "sd") or (
        cells["benchmark"] == "ssd" and not cells["version"].startswith("1.")
    )


def _reference_point(cells: Cells, first: Mapping[tuple[str, str], tuple[str, str]]) -> dict[str, str]:
    version, source = cells["version"], cells["source"]
    if cells["benchmark"] == "retinanet":
        version, source = first.get((cells["batch"], cells["mean"]), (version, source))
    return {
        "role": cells["role"], "benchmark": cells["benchmark"], "version": _round({**cells, "version": version}),
        "batch": cells["batch"], "n_seeds": cells["n_seeds"], "mean": cells["mean"], "sd": cells["sd"] or "0",
        "unit": cells["unit"].split()[0], "source": source, "tables": "mlperf-convergence",
    }  # fmt: skip


def _means_of_submissions(directory: Path, known: set[str]) -> list[dict[str, str]]:
    """A point for each round and batch of submissions marked calibrate, where no reference point is."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in minutes_rows(directory):
        is_early = row["version"].startswith("v0.")
        if row["role"] == "calibrate" and row["samples"] and (is_early or row["name"] not in known):
            groups[row["name"], row["version"], row["global_batch"]].append(row)
    return [
        _mean_point(*key, rows)
        for key, rows in sorted(groups.items(), key=lambda item: (item[0][0], item[0][1], int(item[0][2])))
    ]


def _mean_point(name: str, round: str, batch: str, rows: list[dict[str, str]]) -> dict[str, str]:
    seeds = sum(int(row["n_success"]) for row in rows)
    samples = sum(int(row["n_success"]) * float(row["samples"]) for row in rows) / seeds
    return {
        "role": "calibrate", "benchmark": name, "version": round, "batch": batch, "n_seeds": str(seeds),
        "mean": f"{samples:.7g}", "sd": "", "unit": "samples", "tables": "mlperf-convergence-runs",
        "source": "; ".join(dict.fromkeys(row["source"] for row in rows)),
    }  # fmt: skip


def curated_minutes(rows: Iterable[Cells]) -> list[dict[str, str]]:
    """The canonical rows of a table of times to train, as many and in order."""
    return each_row(rows, (*find_kind("minutes").columns,), _minutes_row)


def _minutes_row(cells: Cells) -> dict[str, str]:
    if cells.get("division", "closed") != "closed":
        return {"reason": "the open division: its model, its data or its target may be others"}
    own = minutes_cells(cells)
    if own["reason"]:
        return own
    return own | {"samples": _samples(cells, find_benchmark(cells["benchmark"], cells["version"]))}


def minutes_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The columns cluster and reason of a row of minutes in its source's words."""
    try:
        gpus = read_count(row, "n_accelerators")
        node = find_node(cell_text(row, "accelerator"), row.get("system", ""))
        if node is None:
            raise NotExpressible(f"no node of the catalog has GPUs like {row['accelerator'][:60]!r}")
        cluster = cluster_settings(node, gpus, {})
        read_cluster(cluster).subset(gpus)
        find_benchmark(row["benchmark"], row["version"])
    except (PodsimError, NotExpressible) as problem:
        return {"cluster": "", "reason": str(problem)}
    return {"cluster": cluster, "reason": ""}


def curated_convergence(rows: Iterable[Cells]) -> list[dict[str, str]]:
    """The canonical rows of a table of points of convergence, as many and in order."""
    columns = (*find_kind("convergence").columns, "reason")
    return each_row(rows, columns, lambda cells: {"version": _round(cells), "unit": cells["unit"].split()[0]})


def _round(cells: Cells) -> str:
    """The round of a point, as podsim writes it: v1.0, or hpc_v1.0."""
    prefix = "hpc_v" if cells.get("suite", "training") != "training" else "v"
    return prefix + cells["version"].lower().removeprefix("hpc_").removeprefix("v").removesuffix(".0")


def minutes_rows(directory: Path) -> Iterator[dict[str, str]]:
    """The raw rows of the table "minutes"; `name` is podsim's name of the benchmark."""
    for cells in _read(directory / "mlperf_training.csv"):
        yield from _minutes({
            **cells, "source": cells["path"],
            "nodes": cells["n_nodes"], "interconnect": "", "networking": "",
        })  # fmt: skip
    for line, cells in enumerate(_read(directory / "learning" / "time_to_train.csv"), 2):
        yield from _minutes({
            **cells, "id": f"ttt{line:05}", "batch_per_accel": "", "grad_accum": "",
        })  # fmt: skip


def _minutes(cells: dict[str, str]) -> Iterator[dict[str, str]]:
    """The row of one submission, if it is of a known benchmark, in the closed division, and has a score."""
    is_left_out, is_scored = cells["version"].startswith(_LEFT_OUT), bool(cells["minutes_score"])
    if is_left_out or not is_scored or cells["division"] != "closed" or not int(cells["n_accelerators"] or 0):
        return
    try:
        benchmark = find_benchmark(cells["benchmark"], cells["version"])
    except PodsimError:
        return
    yield {**cells, "name": benchmark.name, "samples": _samples(cells, benchmark)}


def _samples(cells: Cells, benchmark: Benchmark) -> str:
    count = own_samples(cells, benchmark)
    return f"{count:.7g}" if count else ""


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for cells in csv.DictReader(file):
            yield {column: (cell or "").strip() for column, cell in cells.items()}
