"""This machine as metric families: /proc, /sys and, where it is installed, nvidia-smi. No root is needed.

Counters of a port that the kernel lacks, and fields that nvidia-smi does not know, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podsim.axes import Floats
from podsim.monitoring.exposition import Family, label_text
from podsim.monitoring.metric_table import Metric, metrics_of
from podsim.programs import Ask, ask, needs_linux

Rows = Iterator[tuple[Mapping[str, str], str]]
_IDENTITY = ("index", "uuid", "pci.bus_id", "name", "driver_version")
_NOT_A_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_PARTITION = re.compile(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[-+]?\d+(\.\d*)?")
_WORDS = {"Yes": "1", "No": "0", "Active": "1", "Not Active": "0"}
_SCALES = {
    "rate": 1e9 / 8, "counters/port_xmit_data": 4.0, "counters/port_rcv_data": 4.0, "5": 512.0, "6": 1e-3,
    "MemTotal": 1024.0, "MemAvailable": 1024.0,
}  # fmt: skip
"""what a unit of a file is of a metric's: Gb/s, words of 4 octets, sectors, ms, KiB"""


@dataclass(frozen=True, kw_only=True)
class HostSource:
    """The machine whose file systems are under `root`; nvidia-smi is asked of this one only."""

    root: Path = Path("/")
    host_label: str = "hostname"
    run: Ask = ask
    begin: float = 0.0
    length: float = 0.0

    def families(self, times: Floats) -> Iterator[Family]:
        """The families as they are now."""
        if self.root == Path("/"):
            needs_linux("reading a machine's metrics from /proc and /sys")
        gpus = list(self._gpus()) if self.root == Path("/") else []
        readers: Mapping[str, Callable[[str], Rows]] = {
            "gpu": lambda field: ((labels, values.get(field, "")) for labels, values in gpus),
            "port": self._ports, "disk": self._disks, "node": self._node,
        }  # fmt: skip
        for metric in metrics_of(*readers):
            if metric.host:
                rows = [(labels, _number(text)) for labels, text in readers[metric.entity](metric.host)]
                if kept := [(labels, value) for labels, value in rows if value is not None]:
                    yield _family(metric, kept)

    def _gpus(self) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
        """(labels, values by field) of each GPU, without the fields that this nvidia-smi does not know."""
        fields = [*_IDENTITY, *(metric.host for metric in metrics_of("gpu") if metric.host)]
        for _ in range(len(fields)):
            text, why = self.run(
                ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
            )
            unknown = _NOT_A_FIELD.search(why)
            if unknown is None or unknown[1] not in fields:
                break
            fields.remove(unknown[1])
        for line in text.splitlines():
            values = dict(zip(fields, (part.strip() for part in line.split(",")), strict=False))
            index = values.get("index", "")
            yield {
                "gpu": index, "UUID": values.get("uuid", ""), "pci_bus_id": values.get("pci.bus_id", ""),
                "device": f"nvidia{index}", "modelName": values.get("name", ""),
                self.host_label: (self.root / "proc/sys/kernel/hostname").read_text("utf-8").strip(),
                "DCGM_FI_DRIVER_VERSION": values.get("driver_version", ""),
            }, values  # fmt: skip

    def _ports(self, field: str) -> Rows:
        for path in sorted((self.root / "sys/class/infiniband").glob("*/ports/*")):
            yield {"device": path.parent.parent.name, "port": path.name}, _text(path / field)

    def _disks(self, column: str) -> Rows:
        for line in _text(self.root / "proc/diskstats").splitlines():
            words = line.split()
            if len(words) > 6 and not _PARTITION.fullmatch(words[2]):
                yield {"device": words[2]}, words[int(column)]

    def _node(self, field: str) -> Rows:
        if field == "load":
            yield {}, _text(self.root / "proc/loadavg")
        else:
            match = re.search(rf"^{field}:\s+(\d+) kB", _text(self.root / "proc/meminfo"), re.MULTILINE)
            yield {}, match[1] if match else ""


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> float | None:
    """The number that a text begins with; None for a text such as [N/A]."""
    match = _NUMBER.match(_WORDS.get(text, text))
    return (
        None if match is None else float(int(match[0], 16)) if match[0].startswith("0x") else float(match[0])
    )


def _family(metric: Metric, rows: list[tuple[Mapping[str, str], float]]) -> Family:
    values = np.array([[value for _, value in rows]]) * _SCALES.get(metric.host, 1.0)
    labels = [label_text(labels) for labels, _ in rows]
    return Family(
        name=metric.name, type=metric.type, help=metric.help, labels=labels, values=values,
        series=np.arange(len(labels))[None, :],
    )  # fmt: skip
