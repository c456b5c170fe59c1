"""What ranks said of their machine, as the result of `podsim measure host`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.acceptance.host_constants import runtime_of
from podsim.acceptance.storage_checks import Disk
from podsim.answers.host import MeasuredHost, MeasuredKernel, MeasuredSend
from podsim.lab.inventory import Inventory
from podsim.lab.usage import busiest


def host_result(
    answers: Mapping[str, Any],
    ranks: int,
    name: str,
    images: float | None,
    disk: Disk | None,
    notes: list[str],
) -> MeasuredHost:
    """Plain values as the result, with what follows from them at once."""
    kernels = tuple(
        MeasuredKernel(**{**row, "shape": tuple(int(n) for n in row["shape"])}) for row in answers["kernels"]
    )
    sends = tuple(MeasuredSend(**row) for row in answers["sends"])
    runtime = runtime_of(answers["steps"], ranks)
    streams = [row for row in kernels if row.name == "stream"]
    pairs = [row for row in sends if row.collective == "send_recv"]
    most = max((row.ranks for row in pairs), default=0)
    pairs = [row for row in pairs if row.ranks == most]
    launch = next(row.seconds for row in kernels if row.name == "launch")
    return MeasuredHost(
        name=name, ranks=ranks, device=answers["device"]["name"], software="", cores=answers["cores"],
        started="", seconds=0.0,
        peaks=_peaks(kernels), memory_bandwidth=max(12.0 * row.shape[0] / row.seconds for row in streams),
        launch=launch, link=max((row.size / row.seconds for row in pairs), default=1.0),
        link_latency=min((row.seconds for row in pairs), default=launch), kernels=kernels, sends=sends,
        runtime=runtime, disk=_disk_table(disk), names=dict(disk.names) if disk else {}, images=images,
        others=_others(answers), notes=(*notes, *_shared(answers)),
    )  # fmt: skip


def _peaks(kernels: tuple[MeasuredKernel, ...]) -> dict[str, float]:
    """The best FLOP/s of each precision."""
    peaks: dict[str, float] = {}
    for row in kernels:
        if row.name == "product":
            m, n, k = row.shape
            peaks[row.precision] = max(peaks.get(row.precision, 0.0), 2.0 * m * n * k / row.seconds)
    return peaks


def _disk_table(disk: Disk | None) -> dict[str, float]:
    if disk is None or not disk.fio:
        return {}
    runs = disk.fio
    return {
        "capacity": disk.capacity, "read": runs["read 1M"].read_bandwidth, "write": runs["write 1M"].write_bandwidth,
        "read_operations": runs["read 4k"].read_iops, "write_operations": runs["write 4k"].write_iops,
        "read_latency": runs["read 4k alone"].read_latency, "write_latency": runs["write 4k alone"].write_latency,
    }  # fmt: skip


def _others(answers: Mapping[str, Any]) -> float:
    used = answers["used"]
    return busiest(used, [{"host": "here", "cores": answers["cores"]}] * len(used))[1]


def _shared(answers: Mapping[str, Any]) -> list[str]:
    others = _others(answers)
    if others <= 0.1:
        return []
    return [
        f"other programs used {others:.0%} of the processors meanwhile: measure again when the machine is idle"
    ]


def features_of(machine: Inventory) -> dict[str, str]:
    """The firmware that `podsim verify` later expects: only what this machine can tell."""
    features = {}
    if machine.tpm:
        features["tpm"] = f"{machine.tpm}.0" if machine.tpm == "2" else machine.tpm
    if machine.secure_boot is not None:
        features["secure_boot"] = "on" if machine.secure_boot else "off"
    return features
