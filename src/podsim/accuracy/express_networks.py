"""A row of the tables of vision, language, speech and recommendation training, or of MLPerf, as a run of a network.

The packaged tables state it in columns of their own: `network`, `cluster`, `plan` (reference/ wrote them). A user's row
names a network of the catalog as its model, or a model of those tables, and trains as their first row of that name does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from podsim.accuracy import load
from podsim.accuracy.express_machine import cluster_settings, node_of, read_cluster
from podsim.accuracy.express_row import NotExpressible, read_settings, stated, whole
from podsim.errors import PodsimError
from podsim.graphs.networks import networks
from podsim.hardware.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class NetworkRun:
    """A row as podsim's nouns: replicas of a captured network."""

    network: str
    batch: int
    """samples that a GPU computes at once"""
    accumulate: int
    """micro-batches of a step"""
    items: float
    """what the row's unit counts in one sample"""
    precision: str
    fuse: str
    channels_first: bool
    optimizer: str
    software: str
    cluster: Cluster
    gpus: int


_SOFTWARE = {
    "mxnet": "dle-mxnet", "tensorflow": "dle-tensorflow", "tensorflow2": "dle-tensorflow2", "paddlepaddle": "dle-paddle",
}  # fmt: skip
"""framework -> entry of the software catalog, of rows that name a network of the catalog; others ran PyTorch"""
_PRECISIONS = ("fp16", "bf16", "tf32", "fp32")


def express_network(table: str, row: Mapping[str, str]) -> NetworkRun:
    """The row of a table ("vision" or "mlperf") as a run; NotExpressible with the reason."""
    if stated(row, "reason"):
        raise NotExpressible(row["reason"])
    try:
        return _read(row) if stated(row, "plan") else _own(table, row)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def _read(row: Mapping[str, str]) -> NetworkRun:
    """A row that states its network, cluster and plan."""
    _, plan = read_settings(row["plan"])
    try:
        gpus = int(plan["gpus"])
        return NetworkRun(
            network=row["network"], batch=int(plan["batch"]), accumulate=int(plan["accumulate"]),
            items=float(plan["items"]), precision=plan["precision"], fuse=plan["fuse"],
            channels_first=plan["channels_first"] == "true", optimizer=plan["optimizer"], software=plan["software"],
            cluster=read_cluster(row["cluster"]).subset(gpus), gpus=gpus,
        )  # fmt: skip
    except (KeyError, ValueError):
        raise NotExpressible(f"plan={row['plan'][:80]!r} does not describe a run of a network") from None


def _own(table: str, row: Mapping[str, str]) -> NetworkRun:
    """A user's row."""
    if row.get("task", "train") != "train":
        raise NotExpressible("inference is not modelled")
    like, batch_of_cell = _like(table, row)
    gpus = whole(row, "n_gpus" if table == "vision" else "n_accelerators")
    precision = _precision(row)
    accumulate = whole(row, "grad_accum", like.accumulate)
    column = "batch_per_gpu" if table == "vision" else "batch_per_accel"
    cell = _number(column, stated(row, column))
    batch = cell * batch_of_cell / accumulate
    if batch < 0.5:
        raise NotExpressible(f"{column}={cell:g} is less than one sample on a GPU")
    return replace(
        like, batch=round(batch), accumulate=accumulate, precision=precision, gpus=gpus,
        channels_first=like.channels_first and precision == like.precision, cluster=_cluster(row, gpus),
    )  # fmt: skip


def _like(table: str, row: Mapping[str, str]) -> tuple[NetworkRun, float]:
    """(a run of the same model, samples of a step on a GPU for each unit of the batch cell)."""
    model, batch = ("model", "batch_per_gpu") if table == "vision" else ("benchmark", "batch_per_accel")
    name, framework = row.get(model, ""), row.get("framework", "").lower().partition(" ")[0]
    if name in networks():
        run = NetworkRun(
            network=name, batch=1, accumulate=1, items=1.0, precision="fp16", fuse="none", channels_first=False,
            optimizer="sgd", software=_SOFTWARE.get(framework, "dle-pytorch"), gpus=1,
            cluster=read_cluster("dgx-a100-80gb:1").subset(1),
        )  # fmt: skip
        return run, 1.0
    known = [each.fields for each in load(table) if each.text(model) == name and each.text("plan")]
    known = [each for each in known if each[batch].replace(".", "", 1).isdigit()]
    known = [each for each in known if each["framework"].lower().startswith(framework)]
    if not known:
        raise NotExpressible(
            f"no packaged row is {row.get('framework', '')[:40]} training of {name.split('/')[-1][:60]}; "
            "a model may also be a name of `podsim show networks`"
        )
    same = [each for each in known if each.get("precision") == row.get("precision")]
    fields = (same or known)[0]
    run = _read(fields)
    return run, run.batch * run.accumulate / float(fields[batch])


def _precision(row: Mapping[str, str]) -> str:
    """The precision of a row; MLPerf's table has no column for it, and its runs compute in fp16."""
    said = stated(row, "precision") or "FP16"
    name = {"amp": "fp16", "fp16/mixed": "fp16"}.get(said.lower(), said.lower())
    if name not in _PRECISIONS:
        raise NotExpressible(f"precision={said!r} is not one of {', '.join(_PRECISIONS)}, amp")
    return name


def _number(column: str, cell: str) -> float:
    if not cell:
        raise NotExpressible(f"{column} is not given")
    try:
        return float(cell)
    except ValueError:
        raise NotExpressible(f"{column}={cell[:40]!r} is not a number") from None


def _cluster(row: Mapping[str, str], gpus: int) -> Cluster:
    gpu = row.get("gpu", row.get("accelerator", ""))
    node = node_of(gpu, row.get("node_type", row.get("system", "")))
    if node is None:
        raise NotExpressible(
            f"no node of the catalog has GPUs like {gpu!r}" if gpu else "the GPU is not given"
        )
    return read_cluster(cluster_settings(node, gpus, {})).subset(gpus)
