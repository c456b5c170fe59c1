"""Rows of vision, language, speech and recommendation training, and of MLPerf, as replicas of captured networks.

A row that does not state its network, cluster and plan is read as its source words it: reference.curate_networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from podsim.accuracy.bands_networks import NetworkFeatures, band_of_graph, features_of_graph
from podsim.accuracy.measured_runs import (
    NotExpressible,
    described_runs,
    read_cluster,
    read_settings,
)
from podsim.accuracy.price_inference import is_inference, price_inference
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows
from podsim.errors import PodsimError
from podsim.graphs.fusion import FUSIONS, fuse
from podsim.graphs.graph_cost import PlainCosts, plain_costs, scaled_costs, several_costs, update_seconds
from podsim.graphs.graph_step import fed_step, loading_seconds, replicas_step
from podsim.graphs.networks import load_network
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.recommender import Recommender, table_step, tables_of
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.gemm import peak_of
from podsim.training.software import Software, load_software
from podsim.workload.image_loaders import loader_of_software


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
    """Predicted rates, in each row's own unit, for rows of the kinds "vision" and "mlperf"; latencies of inference."""
    fields = {row.id: row.fields for row in rows}
    served = {id: row for id, row in fields.items() if is_inference(row)}
    runs, reasons = network_runs((id, row) for id, row in fields.items() if id not in served)
    predictions, of_inference = price_inference(served.items(), rows.what)
    reasons |= of_inference
    ideals: dict[str, float] = {}
    if rows.what != "samples/s":
        why = f"{rows.what} need the number of steps to the end, which is no figure of a step"
        return Priced(predictions=predictions, reasons={**dict.fromkeys(runs, why), **reasons})
    costs, bands = NetworkCosts(), {}
    costs.price(runs.values())
    for id, run in runs.items():
        try:
            predictions[id], ideals[id] = costs.rate(run), costs.peak(run)
        except PodsimError as error:
            reasons[id] = str(error)
            continue
        band = band_of_graph(costs.features(run))
        bands[id] = (predictions[id] / (1 + band.high), predictions[id] / (1 + band.low))
    return Priced(predictions=predictions, reasons=reasons, ideals=ideals, bands=bands)


def network_runs(
    rows: Iterable[tuple[str, Mapping[str, str]]],
) -> tuple[dict[str, NetworkRun], dict[str, str]]:
    """(id -> run, id -> reason for none) of the rows of a table."""
    return described_runs(rows, read_network_run)


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


class NetworkCosts:
    """Caches of graphs and of their costs by the kernel laws; constants must not change while an object is in use."""

    def __init__(self) -> None:
        """Start with empty caches."""
        self._graphs: dict[tuple[str, int, str], OpGraph] = {}
        self._plain: dict[tuple[object, ...], PlainCosts] = {}

    def rate(self, run: NetworkRun, software: Software | None = None, *, places_tables: bool = True) -> float:
        """Items of the row's unit per second; `software` replaces that of the run.

        Unless `places_tables`, lookups in embedding tables take what they were captured with, and nothing is exchanged.
        """
        software = software or self.software(run)
        graph, gpu, tables = self.graph(run), run.cluster.gpu, tables_of(run.network)
        costs = scaled_costs(graph, self.plain(run, software.flash), software)
        if places_tables and tables is not None:
            costs = table_step(
                Recommender(network=run.network, tables=tables, optimizer=run.optimizer), graph, costs, gpu, run.cluster,
                run.precision, software, gpus=run.gpus,
            ).costs  # fmt: skip
        step = replicas_step(
            graph, costs, run.cluster, run.precision, software, gpus=run.gpus, accumulate=run.accumulate,
            update=update_seconds(graph, gpu, run.precision, run.optimizer, software),
        )  # fmt: skip
        loading = run.accumulate * loading_seconds(
            run.network, run.batch, run.cluster, run.gpus, loader_of_software(run.software)
        )
        return run.gpus * run.batch * run.accumulate * run.items / fed_step(step, loading, software).seconds

    def features(self, run: NetworkRun) -> NetworkFeatures:
        """The features in which published runs resemble a run."""
        software, graph, gpu = self.software(run), self.graph(run), run.cluster.gpu
        costs = scaled_costs(graph, self.plain(run, software.flash), software)
        return features_of_graph(
            graph, costs, architecture=gpu.architecture, precision=run.precision, network=run.network
        )

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

    def price(self, runs: Iterable[NetworkRun]) -> None:
        """Price the graphs of runs that differ in nothing but network, batch and fusion in one call, for `plain`."""
        alike: dict[tuple[Gpu, str, str, bool, float], dict[tuple[str, int, str], OpGraph]] = {}
        for run in runs:
            with suppress(PodsimError):  # which `rate` raises
                graph, flash = self.graph(run), self.software(run).flash
                key = (run.cluster.gpu, run.precision, flash, run.channels_first, graph.element)
                alike.setdefault(key, {})[run.network, run.batch, run.fuse] = graph
        for key, graphs in alike.items():
            with suppress(PodsimError):
                costs = several_costs(list(graphs.values()), *key[:3], channels_first=key[3])
                self._plain |= {(*of, *key[:4]): plain for of, plain in zip(graphs, costs, strict=True)}

    def plain(self, run: NetworkRun, flash: str) -> PlainCosts:
        """Costs of a run's graph by the kernel laws."""
        gpu = run.cluster.gpu
        key = (run.network, run.batch, run.fuse, gpu, run.precision, flash, run.channels_first)
        if key not in self._plain:
            self._plain[key] = plain_costs(
                self.graph(run), gpu, run.precision, flash, channels_first=run.channels_first
            )
        return self._plain[key]
