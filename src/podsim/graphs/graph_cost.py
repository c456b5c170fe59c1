"""Seconds of every op of a captured graph on one GPU: the same kernel laws as the built-in models.

    gemm                   the law of products, forward and one product per needed gradient; products too narrow for
                           tiles may run as a direct kernel    kernels_narrow
    conv                   the same on the product of an implicit GEMM      kernels_conv
    attention              the law of attention, fused where the GPU and the precision allow it
    recurrent              one product and the gates per step, in sequence    kernels_recurrent
    all others             bytes, with as many kernels as an eager framework launches

Bytes were captured in one number format and scale to the requested one. A pass takes the longer of the times of GPU and
host, which launches kernel after kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from podsim.errors import PlanError, check_name
from podsim.graphs.op_graph import DIMS, KINDS, OpGraph
from podsim.graphs.op_graph_batch import side_by_side
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.attention import AttentionShape, attention_seconds
from podsim.kernels.convolutions import TENSOR_CORES, ConvShape, conv_seconds
from podsim.kernels.elementwise import memory_seconds, optimizer_seconds
from podsim.kernels.gemm import peak_of
from podsim.kernels.narrow import product_seconds
from podsim.kernels.recurrent import recurrent_seconds
from podsim.kernels.sparse_products import saved_seconds
from podsim.training.plan_values import Array
from podsim.training.shapes import distinct_rows, element_bytes
from podsim.training.software import Software

OPTIMIZERS = {"none": 0.0, "sgd": 20.0, "adam": 28.0, "lamb": 52.0}
"""B. The bytes of an fp32 update per parameter: gradient, weight and states read; weight and states written. LAMB as in
fused kernels: the gradient's norm; Adam's step, stored; norms of weight and step; the weight updated with both."""
_CAST = 6.0
"""B. The bytes per parameter of a 16-bit copy of an fp32 weight, once per step."""
_PRODUCTS = ("gemm", "conv", "attention", "recurrent")
_GEMM, _CONV, _ATTENTION, _RECURRENT = (KINDS.index(kind) for kind in _PRODUCTS)


@dataclass(frozen=True, kw_only=True)
class OpCosts:
    """The seconds and bytes of every op, [ops]."""

    forward: Array
    """s. The GPU time of the forward pass."""
    backward: Array
    """s. The GPU time of the backward pass."""
    moved: Array
    """B. The bytes moved in the forward pass."""
    moved_back: Array
    """B. The bytes moved in the backward pass."""
    light: Array
    """s. The time of both passes at the data sheet's peaks."""
    bound: tuple[str, ...]
    """The bound: arithmetic or memory."""
    host: float
    """s. The host time to launch the forward pass."""
    host_back: float
    """s. The host time to launch the backward pass."""
    exchange: float | None = None
    """s. The exchange of placed embedding tables; None: they are divided evenly over the GPUs, if there are any."""

    @property
    def passes(self) -> tuple[float, float]:
        """(forward, backward) s, each the longer of the times of GPU and host."""
        return max(float(self.forward.sum()), self.host), max(float(self.backward.sum()), self.host_back)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainCosts:
    """The seconds of every op by the kernel laws, before the factors of the software, [ops]."""

    product: Array
    """s. The forward pass of a product, convolution or attention."""
    product_back: Array
    """s. The backward pass of a product, convolution or attention."""
    memory: Array
    """s. The forward pass of work bound by bytes."""
    memory_back: Array
    """s. The backward pass of work bound by bytes; for a product, the traffic beyond its operands."""
    moved: Array
    """B. The bytes moved in the forward pass."""
    moved_back: Array
    """B. The bytes moved in the backward pass."""
    light: Array
    """s. The time of both passes at the data sheet's peaks."""
    bound: tuple[str, ...]
    """The bound: arithmetic or memory."""


def graph_costs(
    graph: OpGraph, gpu: Gpu, precision: str, software: Software, *, channels_first: bool = False
) -> OpCosts:
    """The costs of each op. Raises PlanError for a precision that the GPU lacks."""
    plain = plain_costs(graph, gpu, precision, software.flash, channels_first=channels_first)
    return scaled_costs(graph, plain, software)


def sparse_costs(graph: OpGraph, costs: OpCosts) -> OpCosts:
    """The costs with weights pruned 2:4: the forward pass of their products and convolutions is faster."""
    pruned = np.isin(graph.kind, (_GEMM, _CONV)) & (graph.parameters > 0)
    return replace(
        costs, forward=np.where(pruned, costs.forward - saved_seconds(1.0) * costs.forward, costs.forward)
    )


def plain_costs(
    graph: OpGraph, gpu: Gpu, precision: str, flash: str, *, channels_first: bool = False
) -> PlainCosts:
    """The costs by the kernel laws; `flash` is the attention kernel of 16 bits. Raises PlanError as `graph_costs` does.

    `channels_first`: tensors have the layout NCHW, so that convolutions on tensor cores convert them both ways.
    """
    check_name("precision", precision, PRECISIONS, PlanError)
    matmul = PRECISIONS[precision].matmul
    scale = element_bytes(precision) / graph.element
    moved = (graph.read + graph.written) * scale
    extra = (graph.read_back + graph.written_back) * scale
    products = np.isin(graph.kind, (_GEMM, _CONV, _ATTENTION, _RECURRENT))
    there, back = np.zeros(len(graph)), np.zeros(len(graph))
    for kind, law in (
        (_GEMM, _gemm_seconds),
        (_CONV, _conv_seconds),
        (_ATTENTION, _attention_seconds),
        (_RECURRENT, _recurrent_seconds),
    ):
        where = np.flatnonzero(graph.kind == kind)
        if len(where):
            first, same = distinct_rows([*graph.dims[where].T, *graph.gradient[where].T])
            seconds = law(graph, where[first], gpu, matmul, flash)
            there[where], back[where] = (times[same] for times in seconds)
    gradients = graph.gradient.sum(axis=1)
    moved_back = extra + np.where(products, gradients, 0) * moved
    arithmetic = (graph.flops + graph.flops_back) / peak_of(gpu, matmul)
    memory = (moved + moved_back) / gpu.memory_bandwidth
    kernels_back = np.where(products, np.minimum(graph.kernels_back, 1.0), graph.kernels_back)
    turned, turned_back = np.zeros(len(graph)), np.zeros(len(graph))
    if channels_first and matmul in TENSOR_CORES:
        turned, turned_back = _layout_bytes(graph, element_bytes(precision))
    memory_there = np.where(products, 0.0, _memory_seconds(gpu, moved, graph.kernels)) + _memory_seconds(
        gpu, turned, np.ones(1)
    )
    return PlainCosts(
        product=there, product_back=back, memory=memory_there,
        memory_back=_memory_seconds(gpu, extra, kernels_back) + _memory_seconds(gpu, turned_back, np.ones(1)),
        moved=moved + turned, moved_back=moved_back + turned_back,
        light=np.maximum(arithmetic, memory),
        bound=tuple(np.where(arithmetic > memory, "arithmetic", "memory").tolist()),
    )  # fmt: skip


def several_costs(
    graphs: Sequence[OpGraph], gpu: Gpu, precision: str, flash: str, *, channels_first: bool = False
) -> list[PlainCosts]:
    """`plain_costs` of several graphs with elements of one size, whose kernels one call prices."""
    joined = plain_costs(side_by_side(graphs), gpu, precision, flash, channels_first=channels_first)
    ends = np.cumsum([len(graph) for graph in graphs]).tolist()
    parts = [slice(end - len(graph), end) for graph, end in zip(graphs, ends, strict=True)]
    names = [field.name for field in fields(PlainCosts)]
    return [PlainCosts(**{name: getattr(joined, name)[part] for name in names}) for part in parts]


def scaled_costs(graph: OpGraph, plain: PlainCosts, software: Software) -> OpCosts:
    """The costs with the speeds of the software."""
    speed = np.ones(len(graph))
    for kind, value in (
        (_GEMM, software.gemm_speed),
        (_CONV, software.gemm_speed * software.conv_speed),
        (_ATTENTION, software.attention_speed),
        (_RECURRENT, software.gemm_speed),
    ):
        speed[graph.kind == kind] = value
    return OpCosts(
        forward=plain.product / speed + plain.memory / software.memory_speed,
        backward=plain.product_back / speed + plain.memory_back / software.memory_speed,
        moved=plain.moved, moved_back=plain.moved_back, light=plain.light, bound=plain.bound,
        host=float(graph.kernels.sum() * software.host_kernel),
        host_back=float(graph.kernels_back.sum() * software.host_kernel),
    )  # fmt: skip


def update_seconds(graph: OpGraph, gpu: Gpu, precision: str, optimizer: str, software: Software) -> float:
    """Seconds of the optimizer, which the host starts op by op, and of casting weights in 16 bits.

    Raises PlanError for an unknown optimizer.
    """
    check_name("optimizer", optimizer, OPTIMIZERS, PlanError)
    moved = OPTIMIZERS[optimizer]
    if moved and element_bytes(precision) == 2.0:
        moved += _CAST
    computed = float(optimizer_seconds(gpu, graph.parameters.sum(), moved)) / software.memory_speed
    return max(computed, software.host_update * float(np.count_nonzero(graph.parameters)))


def _memory_seconds(gpu: Gpu, moved: Array, kernels: Array) -> Array:
    """Seconds of ops bound by bytes, with the bytes divided over their kernels."""
    count = np.maximum(kernels, 1.0)
    return np.asarray(count * memory_seconds(gpu, moved / count))


def _gemm_seconds(graph: OpGraph, where: Array, gpu: Gpu, precision: str, flash: str) -> tuple[Array, Array]:
    batch, m, n, k = (graph.dims[where, d].astype(float) for d in range(4))
    there = product_seconds(gpu, m, n, k, batch=batch, precision=precision)
    wanted = graph.gradient[where]  # [op, operand]
    if not wanted.any():
        return there, np.zeros(len(where))
    left = product_seconds(gpu, m, k, n, batch=batch, precision=precision)
    right = product_seconds(gpu, k, n, m, batch=batch, precision=precision)
    return there, np.asarray(left * wanted[:, 0] + right * wanted[:, 1])


def _layout_bytes(graph: OpGraph, element: float) -> tuple[Array, Array]:
    """(forward, backward) B moved by layout conversions of convolutions on tensor cores, to channels last and back.

    The forward pass reads and writes input and output once more, the backward pass those of both gradients.
    Depthwise kernels take either layout. Source: the Deep Learning Performance documentation of NVIDIA, convolutional
    layers ("tensor layouts in memory"), and the kernels nchwToNhwc, nhwcToNchw that profiles of cuDNN show.
    """
    rows = graph.dims.astype(float)  # [op, extent]
    sizes = {name: rows[:, d] for d, name in enumerate(DIMS["conv"])}
    turns = (graph.kind == _CONV) & ~_is_depthwise(graph)
    read = np.where(turns, sizes["batch"] * sizes["channels"] * sizes["inputs"], 0.0)
    made = np.where(turns, sizes["batch"] * sizes["filters"] * sizes["positions"], 0.0)
    both = 2.0 * element * (read + made)
    return both, both * graph.gradient.sum(axis=1)


def _is_depthwise(graph: OpGraph) -> Array:
    """Whether each op is a depthwise convolution, [ops]."""
    channels, groups = (graph.dims[:, DIMS["conv"].index(name)] for name in ("channels", "groups"))
    return np.asarray((graph.kind == _CONV) & (groups > 1) & (groups == channels))


def _recurrent_seconds(
    graph: OpGraph, where: Array, gpu: Gpu, precision: str, flash: str
) -> tuple[Array, Array]:
    rows = graph.dims[where].astype(float)  # [op, extent]
    sizes = {name: rows[:, d] for d, name in enumerate(DIMS["recurrent"])}
    there, state, weights = (
        recurrent_seconds(gpu, which, **sizes, precision=precision)
        for which in ("forward", "state", "weight")
    )
    wanted = graph.gradient[where]  # [op, operand]
    return there, np.asarray(state * wanted[:, 0] + weights * wanted[:, 1])


def _conv_seconds(graph: OpGraph, where: Array, gpu: Gpu, precision: str, flash: str) -> tuple[Array, Array]:
    there, back = np.zeros(len(where)), np.zeros(len(where))
    for transposed in (False, True):
        chosen = graph.dims[where, 7] == transposed
        if chosen.any():
            rows = graph.dims[where[chosen]].astype(float)  # [op, extent]
            sizes = {name: rows[:, d] for d, name in enumerate(DIMS["conv"][:7])}
            shape = ConvShape(**sizes, transposed=transposed)
            wanted = graph.gradient[where[chosen]]  # [op, operand]
            there[chosen] = conv_seconds(gpu, "forward", shape, precision=precision)
            for operand, which in enumerate(("input", "weight")):
                if wanted[:, operand].any():
                    seconds = conv_seconds(gpu, which, shape, precision=precision)
                    back[chosen] += seconds * wanted[:, operand]
    return there, back


def _attention_seconds(
    graph: OpGraph, where: Array, gpu: Gpu, precision: str, flash: str
) -> tuple[Array, Array]:
    fused = precision in ("bf16", "fp16") and gpu.compute_capability >= 8.0
    algorithm = flash if fused else "unfused"
    there, back = np.zeros(len(where)), np.zeros(len(where))
    for causal in (False, True):
        chosen = graph.dims[where, 7] == causal
        if chosen.any():
            rows = graph.dims[where[chosen]].astype(float)  # [op, extent]
            sizes = {name: rows[:, d] for d, name in enumerate(DIMS["attention"][:7])}
            seconds = partial(
                attention_seconds,
                gpu,
                AttentionShape(**sizes, causal=causal),
                algorithm=algorithm,  # type: ignore[arg-type]
                precision=precision,
            )
            there[chosen] = seconds(direction="forward")
            back[chosen] = seconds(direction="backward") * graph.gradient[where[chosen]].any(axis=1)
    return there, back
