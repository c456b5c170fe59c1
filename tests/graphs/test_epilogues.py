"""The fusion of element-wise ops into the products before them, and of copies into those after."""

from __future__ import annotations

import numpy as np

from podsim.graphs.fusion import FUSIONS, fuse
from podsim.graphs.networks import load_network


def test_what_a_product_computes_on_its_way_moves_nothing() -> None:
    """DLRM has eight layers, of which seven are followed by a ReLU; the copies before the interaction are free, too."""
    plain, fused = (fuse(load_network("dlrm", 64), FUSIONS[rule]) for rule in ("all", "epilogues"))
    kinds = np.array(plain.kind_names)
    free = (fused.read + fused.written == 0) & (plain.read + plain.written > 0)
    assert free[kinds == "elementwise"].sum() == 7
    assert set(kinds[free]) <= {"elementwise", "copy"}
    assert (fused.kernels[free] == 0).all()
    products = kinds == "gemm"
    assert (fused.read[products] == plain.read[products]).all()


def test_a_sum_of_two_branches_stays() -> None:
    """The sum after a residual block has two inputs: no product computes it."""
    fused = fuse(load_network("resnet50", 1), FUSIONS["epilogues"])
    assert (fused.read[np.array(fused.kind_names) == "norm"] > 0).all()
