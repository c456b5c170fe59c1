"""The cost of one op of a captured graph by its PyTorch name: arithmetic, bytes, saved tensors. Needs no PyTorch.

Bytes are those of an eager framework with a kernel per op: every operand read once, the result written once. Norms
that first need statistics read their input twice. Backward traffic follows from the gradients that are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from podsim.errors import ModelError
from podsim.graphs.op_products import Facts, Operand, attention_facts, conv_facts, einsum_facts, gemm_facts


@dataclass(frozen=True, kw_only=True)
class Call:
    """One captured op, with tensors as Operands and other arguments as given."""

    target: str
    """The name without overload: "conv2d"."""
    arguments: tuple[Any, ...]
    named: Mapping[str, Any] = field(default_factory=dict)
    output: Operand

    @property
    def tensors(self) -> list[Operand]:
        """The tensors that it reads, in order, with those in lists."""
        operands: list[Operand] = []
        for value in (*self.arguments, *self.named.values()):
            operands += [
                item
                for item in (value if isinstance(value, (tuple, list)) else [value])
                if isinstance(item, Operand)
            ]
        return operands

    def get(self, position: int, name: str, default: Any) -> Any:
        """An argument by position or name."""
        return self.arguments[position] if position < len(self.arguments) else self.named.get(name, default)


VIEWS = frozenset((
    "view", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "expand_as", "slice", "select",
    "narrow", "chunk", "split", "split_with_sizes", "tensor_split", "unbind", "getitem", "detach", "alias",
    "view_as", "reshape_as", "as_strided", "flatten", "unflatten", "reshape", "contiguous", "numpy_t",
    "movedim", "swapaxes", "swapdims", "diagonal", "lift_fresh_copy", "clone_view", "_unsafe_view", "identity",
    "broadcast_to", "mt", "real", "to", "_to_copy", "type_as", "clone", "sym_size", "size",
    "_assert_tensor_metadata", "adjoint", "mH", "mT", "T",
))  # fmt: skip
"""The ops that give a view; those that may copy do so only if the capture shows a copy."""
_COPIES = ("reshape", "flatten", "contiguous", "to", "_to_copy", "type_as", "clone", "_unsafe_view")
_PLAIN_READS = frozenset((
    "add", "sub", "rsub", "neg", "add_scalar", "sub_scalar", "where", "masked_fill", "fill", "zeros_like",
    "ones_like", "roll", "flip", "pad", "constant_pad_nd", "cat", "stack", "concat", "index_select", "gather",
    "tril", "triu", "repeat", "repeat_interleave", "tile", "upsample_nearest2d", "pixel_shuffle", "constant_pad",
))  # fmt: skip
"""The ops whose backward pass needs no tensor of the forward pass."""
_OUTPUT_SAVED = frozenset((
    "relu", "sigmoid", "tanh", "exp", "softmax", "log_softmax", "sqrt", "rsqrt", "relu6", "hardtanh",
    "leaky_relu", "elu",
))  # fmt: skip
"""The ops whose backward pass reads their output."""


def is_view(call: Call, copied: bool) -> bool:
    """Whether the op moves no bytes; `copied` means that its output is not a view of its input."""
    return call.target in VIEWS and not (call.target in _COPIES and copied)


def facts_of(call: Call) -> Facts:
    """The arithmetic and bytes of an op; an unknown op is marked and costed by its bytes.

    Raises ModelError for ops with hidden arithmetic.
    """
    if call.target in _OPAQUE:
        raise ModelError(
            f"{call.target} cannot be costed: it hides its products; use nn.LSTM or nn.GRU, or linear layers and a loop"
        )
    rule = RULES.get(call.target)
    if rule is None:
        unknown = call.target not in _ELEMENTWISE
        facts = _elementwise(call)
        return replace(facts, kind="other" if unknown else "elementwise", unknown=unknown)
    return rule(call)


_OPAQUE = frozenset((
    "quantized_lstm", "_cudnn_rnn", "mkldnn_rnn_layer",
))  # fmt: skip
_ELEMENTWISE = frozenset((
    "add", "sub", "rsub", "mul", "div", "neg", "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "log", "sqrt",
    "rsqrt", "pow", "square", "abs", "clamp", "clamp_min", "clamp_max", "minimum", "maximum", "where",
    "masked_fill", "dropout", "feature_dropout", "alpha_dropout", "native_dropout", "relu6", "hardtanh",
    "hardswish", "hardsigmoid", "leaky_relu", "elu", "selu", "mish", "softplus", "erf", "sin", "cos", "eq",
    "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or",
    "bitwise_not", "__and__", "__or__", "__xor__", "fill", "tril", "triu", "lerp", "addcmul", "addcdiv", "glu",
    "prelu", "floor", "ceil", "round", "sign", "reciprocal", "bernoulli", "cumsum", "isnan", "isinf", "nan_to_num",
    "log1p", "expm1", "logaddexp", "threshold", "floor_divide", "remainder", "fmod", "logical_xor", "one_hot",
    "tensor", "lift_fresh", "copy",
))  # fmt: skip
MADE = frozenset((
    "zeros", "ones", "full", "empty", "arange", "linspace", "rand", "randn", "scalar_tensor", "zeros_like",
    "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones", "new_full",
    "new_empty", "exponential", "uniform", "normal", "random",
))  # fmt: skip
"""The ops whose numbers depend on no tensor: they use only the shape of a tensor, and no gradient flows back."""


def _gradients(call: Call) -> list[Operand]:
    """The operands whose gradient the backward pass computes."""
    return [operand for operand in call.tensors if operand.trained]


def _elementwise(call: Call) -> Facts:
    """An op that reads operands and writes a result; backward one kernel per operand with a gradient."""
    out = call.output
    read = sum(operand.bytes for operand in call.tensors)
    masked = "dropout" in call.target
    drops = masked and call.get(2, "train", True) and call.get(1, "p", 0.5)
    mask = float(prod(out.shape)) if drops else 0.0
    if masked and not mask:
        return Facts(kind="elementwise", kernels=0.0, kernels_back=0.0)
    read_back = written_back = kernels = 0.0
    added = call.tensors if call.target in ("add", "sub", "rsub") else []
    if call.target in ("addcmul", "addcdiv"):
        added = call.tensors[:1]
    plain = call.target in _PLAIN_READS or masked
    for operand in _gradients(call):
        broadcast = prod(operand.shape) < prod(out.shape)
        if not broadcast and any(operand is other for other in added):
            continue  # the gradient passes through unchanged
        kernels += 1
        read_back += out.bytes * (1 if plain else 2) + mask
        written_back += operand.bytes
    saves_output = call.target in _OUTPUT_SAVED
    return Facts(
        kind="elementwise", read=read, written=out.bytes + mask, read_back=read_back, written_back=written_back,
        kernels=1.0, kernels_back=kernels, saves_inputs=bool(kernels) and not plain and not saves_output,
        saves_output=bool(kernels) and saves_output, extra=mask if kernels else 0.0,
    )  # fmt: skip


def _creation(call: Call) -> Facts:
    """An op that writes its result, or only allocates it."""
    if call.target in ("empty", "empty_like", "new_empty"):
        return Facts(kind="elementwise", kernels=0.0)
    return Facts(kind="elementwise", written=call.output.bytes)


def _norm(call: Call, reads: int, reads_back: int) -> Facts:
    """A norm that reads its input `reads` times, and backward its gradient and input `reads_back` times in total."""
    source, out = call.tensors[0], call.output
    weights = sum(operand.bytes for operand in call.tensors[1:])
    trained = source.trained or any(operand.trained for operand in call.tensors[1:])
    return Facts(
        kind="norm", read=reads * source.bytes + weights, written=out.bytes,
        read_back=reads_back * source.bytes + weights if trained else 0.0,
        written_back=(source.bytes if source.trained else 0.0) + (weights if trained else 0.0), kernels=1.0,
        kernels_back=1.0 if trained else 0.0, saves_inputs=trained,
    )  # fmt: skip


def _batch_norm(call: Call) -> Facts:
    """Statistics, then normalisation: two reads. Backward: two sums over gradient and input, then the gradient."""
    training = call.get(5, "training", True)
    return _norm(call, 2, 4) if training else _norm(call, 1, 2)


def _layer_norm(call: Call) -> Facts:
    """Rows stay on the chip: one read. Backward: once for its gradient, once for that of the weights."""
    return _norm(call, 1, 4 if len(call.tensors) > 1 else 2)


def _cosine(call: Call) -> Facts:
    """Cosine similarity in six kernels of ATen: broadcast both operands, divide by norms, multiply, sum.

    Each division writes a tensor of the broadcast shape, and so does the product. Backward, per operand: the gradients
    of the product, of the quotient and of the norm, in a dozen kernels of that shape.
    Source: the kernels that PyTorch 2.13 dispatches (a test counts them).
    """
    left, right = call.tensors[:2]
    dim = call.get(2, "dim", 1)
    length = max(left.shape[dim], right.shape[dim])
    wide = prod(call.output.shape) * length * max(left.width, right.width)
    wanted = float(len(_gradients(call)))
    return Facts(
        kind="reduction", read=2 * (left.bytes + right.bytes) + 3 * wide, written=3 * wide + call.output.bytes,
        read_back=wanted * 15 * wide, written_back=wanted * 10 * wide, kernels=6.0, kernels_back=wanted * 12,
        saves_inputs=bool(wanted), extra=2 * wide if wanted else 0.0,
    )  # fmt: skip


def _softmax(call: Call) -> Facts:
    source, out = call.tensors[0], call.output
    back = 1.0 if source.trained else 0.0
    return Facts(
        kind="softmax", read=source.bytes, written=out.bytes, read_back=2 * out.bytes * back,
        written_back=source.bytes * back, kernels=1.0, kernels_back=back, saves_output=bool(back),
    )  # fmt: skip


def _pool(call: Call) -> Facts:
    """Windows share their reads. A maximum also writes its positions (8 B each), for the backward pass."""
    source, out = call.tensors[0], call.output
    where = 8.0 * prod(out.shape) if "max" in call.target else 0.0
    back = 1.0 if source.trained else 0.0
    return Facts(
        kind="pool", read=source.bytes, written=out.bytes + where, read_back=(out.bytes + where) * back,
        written_back=source.bytes * back, kernels=1.0, kernels_back=back, extra=where * back,
    )  # fmt: skip


def _reduction(call: Call) -> Facts:
    read = sum(operand.bytes for operand in call.tensors)
    back = float(len(_gradients(call)))
    plain = call.target in ("sum", "mean")
    return Facts(
        kind="reduction", read=read, written=call.output.bytes,
        read_back=(call.output.bytes + (0.0 if plain else read)) * min(back, 1.0),
        written_back=sum(operand.bytes for operand in _gradients(call)), kernels=1.0, kernels_back=back,
        saves_inputs=bool(back) and not plain,
    )  # fmt: skip


def _embedding(call: Call) -> Facts:
    """A gather of rows. Backward, the gradient of the entire table is cleared, and rows are added to it.

    A sparse gradient covers the rows alone, which are updated at once: gradient and rows are read, rows written.
    """
    table, out = call.tensors[0], call.output
    index = call.tensors[1].bytes if len(call.tensors) > 1 else 0.0
    back = 1.0 if table.trained else 0.0
    if back and call.get(4, "sparse", False):
        return Facts(
            kind="embedding", read=out.bytes + index, written=out.bytes, read_back=2 * out.bytes + index,
            written_back=out.bytes, kernels=1.0, kernels_back=1.0, sparse=True,
        )  # fmt: skip
    return Facts(
        kind="embedding", read=out.bytes + index, written=out.bytes, read_back=(2 * out.bytes + index) * back,
        written_back=(table.bytes + out.bytes) * back, kernels=1.0, kernels_back=2 * back,
    )  # fmt: skip


def _loss(call: Call) -> Facts:
    """Log-softmax, then one value per row. Backward: the gradient of all logits."""
    logits = call.tensors[0]
    back = 1.0 if logits.trained else 0.0
    return Facts(
        kind="loss", read=2 * logits.bytes, written=logits.bytes + call.output.bytes,
        read_back=2 * logits.bytes * back, written_back=2 * logits.bytes * back, kernels=2.0, kernels_back=2 * back,
        extra=logits.bytes * back,
    )  # fmt: skip


def _copy(call: Call) -> Facts:
    read = sum(operand.bytes for operand in call.tensors) or call.output.bytes
    wanted = _gradients(call)
    back = 1.0 if wanted else 0.0
    return Facts(
        kind="copy", read=read, written=call.output.bytes, read_back=call.output.bytes * back,
        written_back=sum(operand.bytes for operand in wanted), kernels=1.0, kernels_back=back,
    )  # fmt: skip


def _grid_sample(call: Call) -> Facts:
    """A mix of four neighbours at each point of a grid, with at most one read of the map.

    Neighbours of nearby points come from caches if they fit. Backward, the gradient is cleared first, then added to as
    often as it is read.
    """
    source, grid = call.tensors[:2]
    out = call.output
    touched = min(source.bytes, 4 * out.bytes)
    back = 1.0 if source.trained else 0.0
    return Facts(
        kind="pool", read=touched + grid.bytes, written=out.bytes,
        read_back=(out.bytes + grid.bytes + touched) * back, written_back=(source.bytes + touched) * back, kernels=1.0,
        kernels_back=2 * back,
    )  # fmt: skip


def _products(call: Call) -> Facts:
    if call.target == "einsum":
        return einsum_facts(call.arguments[0], call.tensors, call.output)
    if call.target in ("addmm", "baddbmm"):
        return gemm_facts(call.tensors[1], call.tensors[2], call.output, bias=call.tensors[0])
    left, right = call.tensors[:2]
    bias = call.tensors[2] if call.target == "linear" and len(call.tensors) > 2 else None
    return gemm_facts(left, right, call.output, bias=bias, transposed=call.target == "linear")


def _convolution(call: Call) -> Facts:
    source, weight = call.tensors[:2]
    transposed = "transpose" in call.target or (
        call.target == "convolution" and bool(call.get(6, "transposed", False))
    )
    groups = call.get(8 if call.target == "convolution" else 6, "groups", 1)
    if call.target.startswith("conv_transpose"):
        groups = call.get(6, "groups", 1)
    bias = call.tensors[2] if len(call.tensors) > 2 else None
    return conv_facts(source, weight, call.output, groups=int(groups), transposed=transposed, bias=bias)


def _attention(call: Call) -> Facts:
    query, key, value = call.tensors[:3]
    mask = call.tensors[3] if len(call.tensors) > 3 else None
    causal = bool(call.get(5, "is_causal", False))
    return attention_facts(query, key, value, call.output, causal=causal, mask=mask)


RULES: dict[str, Callable[[Call], Facts]] = {
    **dict.fromkeys(("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"), _products),
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        _convolution,
    ),
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("batch_norm", "_native_batch_norm_legit_functional", "native_batch_norm"), _batch_norm),
    **dict.fromkeys(MADE, _creation),
    "cosine_similarity": _cosine,
    "_weight_norm": lambda call: _norm(call, 2, 4),
    "instance_norm": lambda call: _norm(call, 2, 4),
    "group_norm": lambda call: _norm(call, 2, 4),
    "native_group_norm": lambda call: _norm(call, 2, 4),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "rms_norm"), _layer_norm),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(
        ("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
         "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "max_pool2d_with_indices",
         "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "upsample_nearest1d",
         "upsample_nearest2d", "upsample_nearest3d"),
        _pool,
    ),
    **dict.fromkeys(
        ("sum", "mean", "max", "min", "amax", "amin", "argmax", "var", "std", "var_mean", "norm", "linalg_vector_norm",
         "prod", "any", "all", "logsumexp", "topk", "sort"),
        _reduction,
    ),
    "embedding": _embedding,
    "grid_sampler": _grid_sample,
    **dict.fromkeys(("cross_entropy_loss", "nll_loss", "nll_loss_nd", "mse_loss", "l1_loss", "smooth_l1_loss",
                     "binary_cross_entropy_with_logits", "kl_div", "huber_loss"), _loss),
    **dict.fromkeys(
        (*_COPIES, "cat", "concat", "stack", "index_select", "gather", "index", "repeat", "repeat_interleave", "tile",
         "roll", "flip", "pad", "constant_pad_nd", "pixel_shuffle", "masked_select", "index_put", "scatter", "im2col"),
        _copy,
    ),
}  # fmt: skip
"""The cost rule of each op, by name."""
