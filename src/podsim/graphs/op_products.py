"""The sizes and arithmetic of products: matrix products, convolutions, attention, Einstein sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from podsim.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A tensor: its shape, and whether the backward pass computes its gradient."""

    shape: tuple[int, ...]
    width: float = 4.0
    """B. The size of an element."""
    trained: bool = False
    floating: bool = True

    @property
    def bytes(self) -> float:
        """B. The size of the tensor."""
        return prod(self.shape) * self.width


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The arithmetic and bytes of one op; the fields are those of OpGraph."""

    kind: str
    dims: tuple[int, ...] = ()
    gradient: tuple[bool, bool] = (False, False)
    flops: float = 0.0
    flops_back: float = 0.0
    read: float = 0.0
    written: float = 0.0
    read_back: float = 0.0
    written_back: float = 0.0
    kernels: float = 1.0
    kernels_back: float = 0.0
    saves_inputs: bool = False
    saves_output: bool = False
    extra: float = 0.0
    """B. The bytes kept in addition to inputs and output: masks, positions of maxima."""
    unknown: bool = False
    sparse: bool = False
    """Whether the gradient of its weights covers few rows, the only ones that the optimizer updates."""


def _product(
    kind: str,
    dims: tuple[int, ...],
    flops: float,
    operands: Sequence[Operand],
    out: Operand,
    bias: Operand | None,
) -> Facts:
    """A product of two operands with an optional bias, whose gradient is a sum over the result's gradient."""
    first, second = operands[0].trained, operands[1].trained
    biased = bias is not None and bias.trained
    return Facts(
        kind=kind, dims=dims, gradient=(first, second), flops=flops, flops_back=flops * (first + second),
        read=sum(operand.bytes for operand in operands) + (bias.bytes if bias else 0.0), written=out.bytes,
        read_back=out.bytes if biased else 0.0, written_back=bias.bytes if bias and biased else 0.0, kernels=1.0,
        kernels_back=float(first + second + biased), saves_inputs=first or second,
    )  # fmt: skip


def gemm_facts(
    left: Operand, right: Operand, out: Operand, *, bias: Operand | None = None, transposed: bool = False
) -> Facts:
    """left (…, m, k) times right (…, k, n); `transposed`: right is (n, k), as the weight of a linear layer."""
    a, b = left.shape, right.shape
    k = a[-1]
    n = (b[0] if len(b) == 2 else 1) if transposed else (b[-1] if len(b) > 1 else 1)
    rows = prod(a[:-1])
    shared = transposed or len(b) <= 2
    m = rows if shared else (a[-2] if len(a) > 1 else 1)
    batch = 1 if shared else prod(out.shape) // max(m * n, 1)
    return _product("gemm", (batch, m, n, k), 2.0 * batch * m * n * k, (left, right), out, bias)


def conv_facts(
    source: Operand,
    weight: Operand,
    out: Operand,
    *,
    groups: int = 1,
    transposed: bool = False,
    bias: Operand | None = None,
) -> Facts:
    """A convolution of (batch, channels, …) by filters of any number of dimensions.

    Arithmetic: each filter at every position of the output (transposed: of the input), for each channel of its group.
    """
    spatial = len(weight.shape) - 2
    batch = source.shape[0] if len(source.shape) == spatial + 2 else 1
    channels, filters = source.shape[-spatial - 1], out.shape[-spatial - 1]
    window, inputs = prod(weight.shape[2:]), prod(source.shape[-spatial:])
    positions = prod(out.shape[-spatial:])
    at = inputs if transposed else positions
    flops = 2.0 * batch * at * window * channels * filters / groups
    dims = (batch, channels, filters, groups, window, positions, inputs, int(transposed))
    return _product("conv", dims, flops, (source, weight), out, bias)


def attention_facts(
    query: Operand,
    key: Operand,
    value: Operand,
    out: Operand,
    *,
    causal: bool = False,
    mask: Operand | None = None,
) -> Facts:
    """softmax(Q K^T) V of (batch, heads, tokens, width). The arithmetic counts all pairs, also masked ones."""
    q, k, v = ((1,) * (4 - len(operand.shape)) + operand.shape for operand in (query, key, value))
    batch, heads = prod(q[:-3]), q[-3]
    pairs = float(batch * heads * q[-2] * k[-2])
    flops = 2.0 * pairs * (q[-1] + v[-1])
    back = 2.0 * pairs * q[-1] * (query.trained + key.trained)
    back += 2.0 * pairs * v[-1] * (value.trained + (query.trained or key.trained))
    trained = query.trained or key.trained or value.trained
    return Facts(
        kind="attention", dims=(batch, heads, k[-3], q[-2], k[-2], q[-1], v[-1], int(causal)),
        gradient=(trained, trained), flops=flops, flops_back=back,
        read=query.bytes + key.bytes + value.bytes + (mask.bytes if mask else 0.0), written=out.bytes, kernels=1.0,
        kernels_back=3.0 if trained else 0.0, saves_inputs=trained, saves_output=trained,
    )  # fmt: skip


def einsum_facts(equation: str, operands: Sequence[Operand], out: Operand) -> Facts:
    """A product of two operands by its letters; letters in both operands and in the result are the batch.

    Raises ModelError for more than two operands, an ellipsis, or a repeated letter.
    """
    left, _, result = equation.replace(" ", "").partition("->")
    names = left.split(",")
    if (
        len(names) != 2
        or len(operands) != 2
        or "." in equation
        or any(len(set(letters)) != len(letters) for letters in names)
    ):
        raise ModelError(
            f"einsum {equation[:60]!r} cannot be costed: it must be a product of two operands with letters; "
            "write it as several such products"
        )
    if "->" not in equation:
        both = left.replace(",", "")
        result = "".join(sorted(c for c in set(both) if both.count(c) == 1))
    size = {
        c: s
        for name, tensor in zip(names, operands, strict=True)
        for c, s in zip(name, tensor.shape, strict=True)
    }
    sets = [set(letters) for letters in names]
    batch = prod(size[c] for c in sets[0] & sets[1] & set(result))
    k = prod(size[c] for c in (sets[0] & sets[1]) - set(result))
    m = prod(size[c] for c in sets[0] - sets[1])
    n = prod(size[c] for c in sets[1] - sets[0])
    return _product("gemm", (batch, m, n, k), 2.0 * batch * m * n * k, operands, out, None)
