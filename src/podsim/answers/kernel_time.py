"""The time of one kernel on one GPU, and the measured kernels nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class NearestKernel:
    """A measured kernel."""

    id: str
    """The id of its row in the packaged tables."""
    device: str
    engine: str
    """The engine, its release and the source of the kernel."""
    sizes: str
    measured: float
    """s. The measured time."""
    predicted: float
    """s. The time by the same law, NaN where there is none."""
    distance: float
    """factor. The sum of octaves between sizes; another GPU, engine or number format counts one each."""


@dataclass(frozen=True, kw_only=True)
class KernelTime(Answer, view=View(report="report.kernel_table:kernel_report", rows="nearest")):
    """The predicted time of one kernel."""

    kernel: str
    sizes: str
    gpu: str
    engine: str
    """The engine, release, kernel and number formats."""
    seconds: float
    """s. The predicted time of one call, without the host's launch."""
    light: float
    """s. The time at full peak arithmetic or bandwidth, whichever is longer."""
    bound: str
    """The limit at full peak: arithmetic or memory."""
    source: str
    """The law, and the measurements that its constants were fitted to."""
    nearest: tuple[NearestKernel, ...] = ()

    @property
    def share(self) -> float:
        """Share of the roofline: 1 is a kernel at full peak."""
        return self.light / self.seconds
