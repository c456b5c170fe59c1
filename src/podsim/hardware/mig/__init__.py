"""MIG: a GPU divided into instances. `split(gpu, layout)` gives the instances as GPUs."""

from __future__ import annotations

from podsim.hardware.mig.layouts import Layout, layouts, maximal, read_layout
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.split import slice_of, split

__all__ = ["Layout", "layouts", "maximal", "read_layout", "slice_of", "slicing_of", "split"]
