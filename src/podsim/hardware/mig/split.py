"""An instance as a Gpu, so that all functions of GPUs work on instances.

SMs          as the profile lists them; peaks in proportion to the SMs
memory       as listed; bandwidth and L2 cache in proportion to the memory slices
power        in proportion to the SMs: there is no published figure of an instance
NVLink       none: instances of one GPU neither copy to each other nor join one NCCL communicator
"""

from __future__ import annotations

from dataclasses import replace

from podsim.hardware.mig.layouts import Layout, read_layout
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile, slicing_of
from podsim.hardware.parts import Gpu


def split(gpu: Gpu, layout: Layout | str) -> list[Gpu]:
    """The instances of a layout, each as a Gpu, by first memory slice.

    `layout` may be text ("4g,2g,1g", "3g.20gb@4"), see `read_layout`.  Raises MigError for a GPU without MIG and for an
    invalid layout.
    """
    slicing = slicing_of(gpu)
    made = read_layout(slicing, layout) if isinstance(layout, str) else layout
    return [slice_of(gpu, find_profile(slicing, instance.profile), slicing) for instance in made.instances]


def slice_of(gpu: Gpu, profile: Profile | str, slicing: Slicing | None = None) -> Gpu:
    """An instance of a profile as a Gpu, with the name "a100-sxm4-40gb/1g.5gb".

    Known error: MLPerf Inference on the smallest slice of an A100 runs at 0.76 to 0.97 of a seventh of the GPU's speed.
    98 of 108 SMs would give 0.907. The power limit slows a GPU under full load, but not a slice.
    """
    slicing = slicing or slicing_of(gpu)
    kind = find_profile(slicing, profile) if isinstance(profile, str) else profile
    sms, memory = kind.sms / gpu.sms, kind.size / slicing.memory_slices
    derived = f"derived: {kind.sms} of {gpu.sms} SMs, {kind.size} of {slicing.memory_slices} memory slices"
    keys = ("peaks", "sparse_peaks", "memory_bandwidth", "l2", "power", "nvlinks")
    return replace(
        gpu,
        name=f"{gpu.name}/{kind.name}",
        sms=kind.sms,
        peaks={key: value * sms for key, value in gpu.peaks.items()},
        sparse_peaks={key: value * sms for key, value in gpu.sparse_peaks.items()},
        memory=kind.memory,
        memory_bandwidth=gpu.memory_bandwidth * memory,
        l2=gpu.l2 * memory,
        power=gpu.power * sms,
        nvlinks=0,
        nvlink_bandwidth=0.0,
        nvlink_latency=0.0,
        bridge=False,
        mig=False,
        fraction=memory,
        source=f"{gpu.source}; {slicing.source}",
        confirmed="partial" if gpu.confirmed == "yes" else gpu.confirmed,
        notes={**gpu.notes, **dict.fromkeys(keys, derived), "power": f"estimate; {derived}"},
    )
