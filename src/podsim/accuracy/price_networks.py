"""Rows of vision, language, speech and recommendation training, and of MLPerf, as replicas of captured networks.

A user's row names a network of the catalog as its model, or a model of the packaged tables; it then trains as their first
row of that name does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from podsim.accuracy.measured_runs import (
    NotExpressible,
    cell_text,
    is_described,
    read_cluster,
    read_count,
    read_settings,
)
from podsim.accuracy.own_words import cluster_settings, find_node
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows, load
from podsim.errors import PodsimError
from podsim.graphs.fusion import FUSIONS, fuse
from podsim.graphs.graph_cost import PlainCosts, plain_costs, scaled_costs, update_seconds
from podsim.graphs.graph_step import replicas_step
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph import OpGraph
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.kernels.gemm import peak_of
from podsim.training.software import Software, load_software

_FRAMEWORKS = {
    "mxnet": "dle-mxnet", "tensorflow": "dle-tensorflow", "tensorflow2": "dle-tensorflow2", "paddlepaddle": "dle-paddle",
}  # fmt: skip
"""Framework -> software entry of a row that names a network of the catalog; other frameworks count as PyTorch."""
_PRECISIONS = ("fp16", "bf16", "tf32", "fp32")


@dataclass(frozen=True, kw_only=True)
class NetworkRun:
    """The run of a row of a table of networks: replicas of a captured network."""

    network: str
    batch: int
    """The number of samples that a GPU computes at once."""
    accumulate: int
    """The number of micro-batches of a step."""
    items: float
    """count. The number of the row's units in one sample."""
    precision: str
    fuse: str
    channels_first: bool
    optimizer: str
    software: str
    cluster: Cluster
    gpus: int


def price_networks(rows: Rows) -> Priced:
    """Predicted rates, in each row's own unit, for rows of the kinds "vision" and "mlperf"."""
    runs, reasons = network_runs(rows.kind, [(row.id, row.fields) for row in rows])
    predictions: dict[str, float] = {}
    ideals: dict[str, float] = {}
    if rows.what != "samples/s":
        why = f"{rows.what} need the number of steps to the end, which is no figure of a step"
        return Priced(predictions={}, reasons={**dict.fromkeys(runs, why), **reasons})
    costs = NetworkCosts()
    for id, run in runs.items():
        try:
            predictions[id], ideals[id] = costs.rate(run), costs.peak(run)
        except PodsimError as error:
            reasons[id] = str(error)
    return Priced(predictions=predictions, reasons=reasons, ideals=ideals)


def network_run(table: str, row: Mapping[str, str]) -> NetworkRun:
    """The run of a row of a table ("vision" or "mlperf"); NotExpressible with the reason."""
    if cell_text(row, "reason"):
        raise NotExpressible(row["reason"])
    try:
        return read_network_run(row) if is_described(row) else own_network_run(table, row)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def network_runs(
    table: str, rows: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[dict[str, NetworkRun], dict[str, str]]:
    """(id -> run, id -> reason for none) of the rows of a table."""
    runs: dict[str, NetworkRun] = {}
    reasons: dict[str, str] = {}
    for id, row in rows:
        try:
            runs[id] = network_run(table, row)
        except NotExpressible as problem:
            reasons[id] = str(problem)
    return runs, reasons


def read_network_run(row: Mapping[str, str]) -> NetworkRun:
    """The run of a network of a row that states its network, cluster and plan."""
    _, plan = read_settings(row["plan"])
    try:
        gpus = int(plan["gpus"])
        run = NetworkRun(
            network=row["network"], batch=int(plan["batch"]), accumulate=int(plan["accumulate"]),
            items=float(plan["items"]), precision=plan["precision"], fuse=plan["fuse"],
            channels_first=plan["channels_first"] == "true", optimizer=plan["optimizer"], software=plan["software"],
            cluster=read_cluster(row["cluster"]).subset(gpus), gpus=gpus,
        )  # fmt: skip
    except (KeyError, ValueError):
        raise NotExpressible(f"plan={row['plan'][:80]!r} does not describe a run of a network") from None
    if (
        run.precision not in PRECISIONS
        or run.fuse not in FUSIONS
        or min(run.batch, run.accumulate, run.items) <= 0
    ):
        raise NotExpressible(
            f"plan={row['plan'][:80]!r}: precision, fuse or a count is not one that podsim knows"
        )
    return run


def own_network_run(table: str, row: Mapping[str, str]) -> NetworkRun:
    """The run of a network of a user's row; NotExpressible with the reason."""
    if row.get("task", "train") != "train":
        raise NotExpressible("inference is not modelled")
    like, batch_of_cell = _similar_run(table, row)
    gpus = read_count(row, "n_gpus" if table == "vision" else "n_accelerators")
    precision = _network_precision(row)
    accumulate = read_count(row, "grad_accum", like.accumulate)
    column = "batch_per_gpu" if table == "vision" else "batch_per_accel"
    cell = _number(column, cell_text(row, column))
    batch = cell * batch_of_cell / accumulate
    if batch < 0.5:
        raise NotExpressible(f"{column}={cell:g} is less than one sample on a GPU")
    return replace(
        like, batch=round(batch), accumulate=accumulate, precision=precision, gpus=gpus,
        channels_first=like.channels_first and precision == like.precision, cluster=_network_cluster(row, gpus),
    )  # fmt: skip


def _similar_run(table: str, row: Mapping[str, str]) -> tuple[NetworkRun, float]:
    """(a run of the same model, samples that a GPU takes in a step per unit of the batch cell)."""
    model, batch = ("model", "batch_per_gpu") if table == "vision" else ("benchmark", "batch_per_accel")
    name, framework = row.get(model, ""), row.get("framework", "").lower().partition(" ")[0]
    if name in networks():
        run = NetworkRun(
            network=name, batch=1, accumulate=1, items=1.0, precision="fp16", fuse="none", channels_first=False,
            optimizer="sgd", software=_FRAMEWORKS.get(framework, "dle-pytorch"), gpus=1,
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
    run = read_network_run(fields)
    return run, run.batch * run.accumulate / float(fields[batch])


def _network_precision(row: Mapping[str, str]) -> str:
    """The precision of a row; MLPerf's table has no column for it, and its runs compute in fp16."""
    text = cell_text(row, "precision") or "FP16"
    name = {"amp": "fp16", "fp16/mixed": "fp16"}.get(text.lower(), text.lower())
    if name not in _PRECISIONS:
        raise NotExpressible(f"precision={text!r} is not one of {', '.join(_PRECISIONS)}, amp")
    return name


def _number(column: str, cell: str) -> float:
    if not cell:
        raise NotExpressible(f"{column} is not given")
    try:
        return float(cell)
    except ValueError:
        raise NotExpressible(f"{column}={cell[:40]!r} is not a number") from None


def _network_cluster(row: Mapping[str, str], gpus: int) -> Cluster:
    gpu = row.get("gpu", row.get("accelerator", ""))
    node = find_node(gpu, row.get("node_type", row.get("system", "")))
    if node is None:
        raise NotExpressible(
            f"no node of the catalog has GPUs like {gpu!r}" if gpu else "the GPU is not given"
        )
    return read_cluster(cluster_settings(node, gpus, {})).subset(gpus)


class NetworkCosts:
    """Caches of graphs and of their costs by the kernel laws; constants must not change while an object is in use."""

    def __init__(self) -> None:
        """Start with empty caches."""
        self._graphs: dict[tuple[str, int, str], OpGraph] = {}
        self._plain: dict[tuple[object, ...], PlainCosts] = {}

    def rate(self, run: NetworkRun, software: Software | None = None) -> float:
        """Items of the row's unit per second; `software` replaces that of the run."""
        software = software or self.software(run)
        graph = self.graph(run)
        step = replicas_step(
            graph, scaled_costs(graph, self.plain(run, software.flash), software), run.cluster, run.precision, software,
            update=update_seconds(graph, run.cluster.gpu, run.precision, run.optimizer, software), gpus=run.gpus,
            accumulate=run.accumulate,
        )  # fmt: skip
        return run.gpus * run.batch * run.accumulate * run.items / step.seconds

    def without_costs(self) -> NetworkCosts:
        """A copy with the graphs and without their costs, for changed constants."""
        fresh = NetworkCosts()
        fresh._graphs = self._graphs
        return fresh

    def peak(self, run: NetworkRun) -> float:
        """Items of the row's unit per second at the peak of every GPU's data sheet."""
        graph = self.graph(run)
        flops = float(graph.flops.sum() + graph.flops_back.sum()) / run.batch
        return run.gpus * run.items * peak_of(run.cluster.gpu, PRECISIONS[run.precision].matmul) / flops

    def software(self, run: NetworkRun) -> Software:
        """The run's entry of the software catalog."""
        return load_software(run.software, run.cluster.gpu, run.precision)

    def graph(self, run: NetworkRun) -> OpGraph:
        """The graph of a run's network, with its fusion."""
        key = (run.network, run.batch, run.fuse)
        if key not in self._graphs:
            self._graphs[key] = fuse(load_network(run.network, run.batch), FUSIONS[run.fuse])
        return self._graphs[key]

    def plain(self, run: NetworkRun, flash: str) -> PlainCosts:
        """Costs of a run's graph by the kernel laws."""
        gpu = run.cluster.gpu
        key = (run.network, run.batch, run.fuse, gpu.name, run.precision, flash, run.channels_first)
        if key not in self._plain:
            self._plain[key] = plain_costs(
                self.graph(run), gpu, run.precision, flash, channels_first=run.channels_first
            )
        return self._plain[key]
