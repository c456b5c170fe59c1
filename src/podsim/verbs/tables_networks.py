"""Rows of vision, language, speech and recommendation training, and of MLPerf, as replicas of captured networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from podsim.errors import PodsimError
from podsim.verbs.express import NotExpressible
from podsim.verbs.express_networks import NetworkRun, express_network
from podsim.verbs.tables import Priced

if TYPE_CHECKING:
    from podsim.training.software import Software
    from podsim.verify.rows import Rows
    from podsim.workload.op_graph import OpGraph

__all__ = ["express_networks", "price_networks", "rate_of"]


def price_networks(rows: Rows) -> Priced:
    """Samples (or tokens, …) a second of rows of the kinds "vision" and "mlperf"."""
    found, reasons = express_networks(rows.kind, [(row.id, row.fields) for row in rows])
    predictions: dict[str, float] = {}
    if rows.what != "samples/s":
        why = f"{rows.what} need the number of steps to the end, which is no figure of a step"
        return Priced(predictions={}, reasons={**dict.fromkeys(found, why), **reasons})
    for id, run in found.items():
        try:
            predictions[id] = rate_of(run)
        except PodsimError as error:
            reasons[id] = str(error)
    return Priced(predictions=predictions, reasons=reasons)


def express_networks(
    table: str, rows: Iterable[tuple[str, Mapping[str, str]]]
) -> tuple[dict[str, NetworkRun], dict[str, str]]:
    """(id -> run, id -> why there is none) of rows of a table."""
    found: dict[str, NetworkRun] = {}
    reasons: dict[str, str] = {}
    for id, row in rows:
        try:
            found[id] = express_network(table, row)
        except NotExpressible as problem:
            reasons[id] = str(problem)
    return found, reasons


def rate_of(run: NetworkRun, software: Software | None = None) -> float:
    """What the row's unit counts, a second; `software` instead of the run's own era."""
    from podsim.training.graph_step import replicas_step
    from podsim.training.software import load_software

    gpu = run.cluster.gpu
    era = software or load_software(run.software, gpu)
    step = replicas_step(
        graph_for(run.network, run.batch, run.fuse), run.cluster, run.precision, run.optimizer, era, gpus=run.gpus,
        accumulate=run.accumulate,
    )  # fmt: skip
    return run.gpus * run.batch * run.accumulate * run.items / step.seconds


@lru_cache(maxsize=512)
def graph_for(network: str, batch: int, fuse: str) -> OpGraph:
    """The graph of a network, as it is fused."""
    from podsim.verbs.graph import FUSIONS
    from podsim.workload.fusion import fuse as fused
    from podsim.workload.networks import load_network

    return fused(load_network(network, batch), FUSIONS[fuse])
