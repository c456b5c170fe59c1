"""The smallest instance compared with a seventh of its GPU: MLPerf Inference offline, predicted and measured."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.fields import shown
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.measured_slices import mig_rows
from podsim.hardware.mig.profiles import slicing_of
from podsim.serving.engines import load_engine
from podsim.serving.latency import Task, rows_of
from podsim.workload.catalog import load_model
from podsim.workload.convolution import resnet50

_GPUS = {"A100-40GB": "a100-sxm4-40gb", "A100-80GB": "a100-sxm4-80gb"}
_BATCH = 256
"""queries that come all at once are served in large batches"""
_TOKENS = 384
"""longest sequence of the task (SQuAD)"""


@dataclass(frozen=True, kw_only=True)
class Seventh:
    """Seven times one instance's throughput over that of the whole GPU, without busy neighbours."""

    model: str = shown("network")
    gpu: str = shown("GPU")
    predicted: float = shown(format=":.3f")
    """share. The predicted speed relative to a seventh of the GPU."""
    measured: float = shown(format=":.3f")
    """share. The measured speed relative to a seventh of the GPU."""
    how: str = shown("by")
    """The method: the laws of its kernels, or of SMs alone for an unknown network."""


def sevenths() -> tuple[Seventh, ...]:
    """Every measured pair of MLPerf Inference offline, 0.7 (40 GB) and 1.1 (80 GB); none is fitted.

    Unknown networks are bound by SMs: 98 of 108.
    """
    rates = {
        (row.gpu, row.model, row.slice): row.value
        for row in mig_rows()
        if row.scenario == "Offline" and row.instances == 1 and row.role == "test" and row.gpu in _GPUS
    }
    made = []
    for (gpu, model, name), value in rates.items():
        if name == "full" or "busy" in name or (gpu, model, "full") not in rates:
            continue
        predicted, how = _predict_sevenths(_GPUS[gpu], model, name)
        made.append(
            Seventh(
                model=model, gpu=_GPUS[gpu], predicted=predicted, measured=7 * value / rates[gpu, model, "full"], how=how
            )
        )  # fmt: skip
    return tuple(made)


def _predict_sevenths(gpu: str, model: str, profile: str) -> tuple[float, str]:
    full_gpu, instance = load_gpu(gpu), load_gpu(f"{gpu}/{profile}")
    if model not in ("bert-99", "resnet50"):
        return slicing_of(full_gpu).compute_slices * instance.sms / full_gpu.sms, "SMs alone"
    task = Task(
        network=load_model("bert-large") if model == "bert-99" else resnet50(), precision="int8", sparse=False,
        tokens=_TOKENS if model == "bert-99" else 224, output=0,
        engine=load_engine("tensorrt-2026", full_gpu.architecture),
    )  # fmt: skip
    slice_rate, gpu_rate = (
        rows_of(task, chip, [_BATCH], None)[0].throughput for chip in (instance, full_gpu)
    )
    return 7 * slice_rate / gpu_rate, f"kernels, int8, batch {_BATCH}"
