"""A simulated day as metric families, with the labels of dcgm-exporter, node_exporter and Slurm's exporters.

One page has the metrics of all nodes, each with the labels that Prometheus would have added (`honor_labels`): counters
of one moment, on which published dashboards work.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from podsim.axes import Floats, Ints
from podsim.monitoring.day import Day
from podsim.monitoring.day_fields import DayFields, Moments, field_values
from podsim.monitoring.exposition import Family, label_text
from podsim.monitoring.metric_table import ENTITIES, Metric, metrics_of, xids
from podsim.version import __version__

_XID = "xid"


def host_name(node: int) -> str:
    """The name of a simulated node."""
    return f"node{node:04d}"


class DaySource:
    """A simulated day; `host_label` is the name of dcgm-exporter's label of the host."""

    def __init__(self, day: Day, host_label: str = "hostname") -> None:
        """Prepare the labels that do not change."""
        self.day, self.fields, self.host_label = day, DayFields(day), host_label
        self.begin, self.length = day.begin, day.length
        self._gpu_labels: dict[tuple[int, int, int], str] = {}
        rng = np.random.default_rng(day.seed)
        self._ids = [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(day.cluster.gpus)]
        nodes = [host_name(node) for node in range(day.cluster.nodes)]
        self._static = {
            "port": [
                label_text({"instance": f"{name}:9100", "device": f"mlx5_{port}", "port": "1"})
                for name in nodes for port in range(day.cluster.nics)
            ],
            "node": [label_text({"instance": f"{name}:9100"}) for name in nodes],
            "disk": [label_text({"instance": f"{name}:9100", "device": "nvme0n1"}) for name in nodes],
            "slurm_node": [label_text({"node": name}) for name in nodes],
            "queue": [""],
            "job": [label_text({"job_id": run.job}) for run in day.runs],
        }  # fmt: skip

    def families(self, times: Floats) -> Iterator[Family]:
        """The families at some times, in s since 1970."""
        moments = Moments(self.fields, times - self.day.begin)
        made: Mapping[str, Callable[[Moments, Metric], Family]] = {
            "gpu": self._gpu,
            "wire": self._wires,
            "job_node": self._job_nodes,
        }
        for metric in metrics_of(*ENTITIES):
            if metric.field and (self.day.cluster.nics or metric.entity not in ("port", "wire")):
                yield made.get(metric.entity, self._plain)(moments, metric)

    def _plain(self, moments: Moments, metric: Metric) -> Family:
        """A metric whose series have the same labels all day."""
        labels = self._static[metric.entity]
        shape = (len(moments.times), len(labels))
        values = np.broadcast_to(field_values(moments, metric.field, metric.entity), shape)
        if metric.entity == "port":
            values = np.where(moments.ports(moments.is_silent), np.nan, values)
        elif metric.entity in ("node", "disk"):
            values = np.where(moments.nodes(moments.is_silent).all(axis=2), np.nan, values)
        return _family(metric, labels, np.where(np.isfinite(values), np.arange(len(labels)), -1), values)

    def _gpu(self, moments: Moments, metric: Metric) -> Family:
        """A metric of GPUs: its labels name the job, and those of XIDs the error."""
        shape = moments.at.shape
        values = np.broadcast_to(field_values(moments, metric.field, "gpu"), shape)
        code = values.astype(np.int64) if metric.field == _XID else np.full(shape, -1)
        keys = np.stack([np.broadcast_to(np.arange(shape[1]), shape), moments.run, code]).reshape(3, -1)
        series: Ints = np.arange(keys.shape[1])
        if shape[0] > 1:
            keys, series = np.unique(keys, axis=1, return_inverse=True)
        labels = [self._gpu_label(*key) for key in zip(*keys.tolist(), strict=True)]
        series = series.reshape(shape)
        return _family(
            metric,
            labels,
            series if metric.field == _XID else np.where(moments.is_silent, -1, series),
            values,
        )

    def _gpu_label(self, gpu: int, run: int, code: int) -> str:
        key = (gpu, run, code)
        if key not in self._gpu_labels:
            node, number = divmod(gpu, self.day.cluster.gpus_per_node)
            labels = {
                "gpu": str(number), "UUID": f"GPU-{self._ids[gpu]}", "pci_bus_id": f"00000000:{number * 16 + 7:02X}:00.0",
                "device": f"nvidia{number}", **self._model_labels(), self.host_label: host_name(node),
                "DCGM_FI_DRIVER_VERSION": f"podsim {__version__}",
            }  # fmt: skip
            if run >= 0:
                labels["hpc_job"] = self.day.runs[run].job
            if code >= 0:
                labels |= {"err_code": str(code), "err_msg": xids().get(code, ("", f"XID {code}"))[1]}
            self._gpu_labels[key] = label_text(labels)
        return self._gpu_labels[key]

    def _model_labels(self) -> dict[str, str]:
        """The labels of the kind of GPU, and of the instance where GPUs are MIG instances, as a100-80gb/3g.40gb."""
        name, _, profile = self.day.cluster.gpu.name.partition("/")
        instance = {"GPU_I_PROFILE": profile, "GPU_I_ID": "1"} if profile else {}
        return {"modelName": f"NVIDIA {name.upper()}", **instance}

    def _wires(self, moments: Moments, metric: Metric) -> Family:
        """The switch that each port reaches: that of its rail, or the next one's after a swap."""
        day = self.day
        unit = day.cluster.system.unit or day.cluster.nodes
        labels = []
        for swap in (0, 1):
            for node in range(day.cluster.nodes):
                for port in range(day.cluster.nics):
                    rail = (port ^ swap) if (port ^ swap) < day.cluster.nics else max(port - swap, 0)
                    labels.append(label_text({
                        "instance": f"{host_name(node)}:9100", "device": f"mlx5_{port}", "port": "1",
                        "unit": str(node // unit), "peer": f"unit{node // unit}-leaf{rail}",
                    }))  # fmt: skip
        swapped = (moments.ports(moments.effect("swapped")) > 0).astype(np.int64)
        series = (
            np.arange(day.cluster.nodes * day.cluster.nics) + day.cluster.nodes * day.cluster.nics * swapped
        )
        silent = moments.ports(moments.is_silent)
        return _family(metric, labels, np.where(silent, -1, series), np.ones(series.shape))

    def _job_nodes(self, moments: Moments, metric: Metric) -> Family:
        """Which node runs which job."""
        per, labels, owners = self.day.cluster.gpus_per_node, [], []
        for number, run in enumerate(self.day.runs):
            for node in np.unique(run.gpus // per).tolist():
                labels.append(label_text({"job_id": run.job, "node_name": host_name(node)}))
                owners.append(number)
        is_on = np.isfinite(moments.jobs(0.0))[:, np.array(owners, np.int64)]
        return _family(metric, labels, np.where(is_on, np.arange(len(labels)), -1), np.ones(is_on.shape))


def _family(metric: Metric, labels: list[str], series: Ints, values: Floats) -> Family:
    return Family(
        name=metric.name, type=metric.type, help=metric.help, labels=labels, series=series, values=values
    )
