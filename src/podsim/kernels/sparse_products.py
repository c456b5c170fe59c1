"""Products with weights pruned 2:4, in training: the measured gain of a kernel, far below twice the speed.

A sparse Tensor Core does two dense products' work in the time of one, but kernels also move activations, and the data
sheet's twice is not reached. In a training step only the forward product gains: the backward one reads the weights'
transpose, whose columns are not 2:4, and the weights' gradient has no sparse operand.

Sources: torchao's measurements on an A100 80GB (pytorch/ao, torchao/sparsity/README.md@e5d27a307 and @28f48fde6,
cuSPARSELt) of SAM ViT-H at batch 32, whose products are 4,096 tokens an image in 32 layers, and of BERT in fp16 at batch
16. A kernel's gain is the dense products' time by podsim's law over that time without what the network saved. For BERT
the whole network's gain stands for it, which is a lower bound. Public figures of training agree: ViT-L, 1.3 times in its
linear layers and 1.06 times in the step (PyTorch, 2024; unconfirmed: from memory).

Known error: the gain depends on the shape; the three lie from 1.18 to 1.38. Limits: measured on the A100 alone, with
large products.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.prediction import SparseGain
from podsim.errors import PlanError
from podsim.hardware.parts import PRECISIONS, Gpu


@dataclass(frozen=True, kw_only=True)
class MeasuredNetwork:
    """A network with dense and with sparse products."""

    name: str
    dense: float
    """s. The time with dense products."""
    sparse: float
    """s. The time with sparse products."""
    products: tuple[tuple[int, int, int], ...]
    """count. The rows, columns and inner size of each pruned product of a layer; empty if they are not known."""
    layers: int
    gain: float
    """factor. The gain of its products."""


_TOKENS = 32 * 4096
_MLP = ((_TOKENS, 5120, 1280), (_TOKENS, 1280, 5120))
_ATTENTION = ((_TOKENS, 3840, 1280), (_TOKENS, 1280, 1280))
MEASURED = (
    MeasuredNetwork(
        name="SAM ViT-H, MLP", dense=1.36173, sparse=1.24515, products=_MLP, layers=32, gain=1.38
    ),
    MeasuredNetwork(
        name="SAM ViT-H, MLP and attention", dense=1.36173, sparse=1.26543, products=_MLP + _ATTENTION, layers=32,
        gain=1.18,
    ),
    MeasuredNetwork(name="BERT, all", dense=19.35, sparse=15.74, products=(), layers=0, gain=1.23),
)  # fmt: skip
"""published inference with dense and with 2:4 sparse weights"""
GAIN = 1.26
"""factor. The gain of a sparse product: the geometric mean of the three."""

_LITTLE = 0.001
"""share. The part of a step below which forward products do not count."""


def check_sparse(gpu: Gpu, precision: str) -> None:
    """Raise PlanError for a GPU without sparse products of a precision."""
    matmul = PRECISIONS[precision].matmul
    if matmul not in gpu.sparse_peaks:
        has = ", ".join(gpu.sparse_peaks) or "none"
        raise PlanError([f"{gpu.name} has no 2:4 sparse {matmul} products; it has {has}"])


def saved_seconds(products: float, gain: float = GAIN) -> float:
    """Seconds that sparse products save of the seconds of dense ones."""
    return products * (1 - 1 / gain)


def sparse_gain(products: float, dense: float) -> SparseGain:
    """The gain of a step of `dense` seconds whose forward products of weights take `products` seconds."""
    gains = [network.gain for network in MEASURED]

    def ratio(gain: float) -> float:
        return dense / (dense - saved_seconds(products, gain))

    return SparseGain(
        kernel=GAIN, kernel_low=min(gains), kernel_high=max(gains), products=products / dense, dense_time=dense,
        gain=ratio(GAIN), gain_low=ratio(min(gains)), gain_high=ratio(max(gains)),
        source="torchao on an A100: " + ", ".join(f"{product.name} {product.gain:g}x" for product in MEASURED),
    )  # fmt: skip


def gain_note(gain: SparseGain) -> str:
    """The gain in words."""
    if gain.products < _LITTLE:
        return "2:4 sparse weights gain nothing here: the forward pass waits for the host"
    span = f"{gain.gain_low:.2f} to {gain.gain_high:.2f}"
    return (
        f"2:4 sparse weights: {gain.gain:.2f}x the dense step ({span}); forward products, "
        f"{100 * gain.products:.0f} % of it, gain {gain.kernel:g}x, as measured on an A100"
    )
