"""The metrics of podsim's exporters, from metrics.csv: name, type, help, what each is of, and the field that fills it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from podsim.packaged import packaged_csv

ENTITIES = ("gpu", "port", "wire", "node", "disk", "slurm_node", "queue", "job", "job_node")
"""What the series of a machine are of, in a simulated day or a real one."""


class Metric(NamedTuple):
    """A metric."""

    entity: str
    """What each series is of: gpu, port, wire, node, disk, slurm_node, queue, job, job_node, training."""
    field: str
    """The field of a simulated day or a training run; "" if it has none."""
    host: str
    """The file, column or nvidia-smi field of a real machine; "" if it has none."""
    type: str
    peers: str
    """What its values are compared with: all, busy, job, past or none (no event is usual); "" for nothing."""
    relative: str
    """share. How far a healthy part may be from the median of its peers, of that median."""
    absolute: str
    """How far it may be at least, in the metric's unit; of none, the events an hour."""
    predicted: str
    """The metric that predicts it for a job; "" if none does."""
    name: str
    help: str

    @property
    def part(self) -> str:
        """The kind of part that it is of."""
        return {"wire": "port", "slurm_node": "node"}.get(self.entity, self.entity)


@cache
def metrics_of(*entities: str) -> Sequence[Metric]:
    """The metrics of some entities, in the order of the table."""
    return tuple(Metric(**row) for row in packaged_csv("monitoring/metrics.csv") if row["entity"] in entities)


@cache
def xids() -> Mapping[int, tuple[str, str]]:
    """(severity, message) of each XID code."""
    return {
        int(row["code"]): (row["severity"], row["message"]) for row in packaged_csv("monitoring/xids.csv")
    }
