"""LSTM, GRU and plain recurrent layers as a library computes them: a product over all steps, then step after step.

A layer multiplies all its inputs at once: steps x samples rows by the gates of both directions. Then each step
multiplies the hidden state by the recurrent weights and combines the gates, after the previous step. The directions
run side by side. In the backward pass the steps run in reverse, and the gradient of the recurrent weights is one
product over all steps.
Source: cuDNN (Appleyard, Kočiský and Blunsom 2016, arxiv.org/abs/1604.01946), without its overlap of layers and the
kernels that keep weights on the chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podsim.errors import ModelError
from podsim.graphs.op_products import Facts, Operand, gemm_facts

LAYERS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""The number of gates of each layer over many steps."""
CELLS = {"lstm_cell": 4, "gru_cell": 3, "rnn_tanh_cell": 1, "rnn_relu_cell": 1}
"""The number of gates of each single step."""


@dataclass(frozen=True, kw_only=True)
class RecurrentPart:
    """One op of a recurrent layer: the product of its inputs, the loop over its steps, or dropout."""

    target: str
    facts: Facts
    output: Operand
    weights: tuple[int, ...] = ()
    """The positions of its weights among those of the call."""


def recurrent_parts(target: str, arguments: Sequence[Any], out: Operand) -> list[RecurrentPart]:
    """The ops of a recurrent layer or cell of PyTorch, in order.

    Raises ModelError for packed sequences, whose lengths a capture does not know, and for projections.
    """
    if target in CELLS:
        source, _, first, second = arguments[:4]
        biased = len(arguments) > 4 and arguments[4] is not None
        steps = Operand(shape=(1, *source.shape), width=source.width, trained=source.trained)
        weights = (first, second, *(arguments[4:6] if biased else ()))
        return _layer(target, CELLS[target], steps, [weights], 1, source.shape[0], out, 0)[0]
    if not isinstance(arguments[1], tuple) and target == "lstm":
        raise ModelError(
            "lstm of packed sequences cannot be costed: their lengths are values, which a capture does not know; "
            "pad the sequences, as --input says"
        )
    source, _, weights, biased, layers, dropout, train, both, batch_first = arguments[:9]
    length, batch = (source.shape[1], source.shape[0]) if batch_first else source.shape[:2]
    each, directions = 4 if biased else 2, 2 if both else 1
    if len(weights) != each * layers * directions:
        raise ModelError(
            f"{target} with proj_size cannot be costed; leave it out or write the projection as a linear layer"
        )
    parts: list[RecurrentPart] = []
    for layer in range(layers):
        first_weight = layer * directions * each
        groups = [
            tuple(weights[first_weight + d * each : first_weight + (d + 1) * each]) for d in range(directions)
        ]
        hidden = replace(out, shape=(*source.shape[:2], groups[0][1].shape[1] * directions))
        made, source = _layer(target, LAYERS[target], source, groups, length, batch, hidden, first_weight)
        parts += made
        if dropout and train and layer + 1 < layers:
            parts.append(_dropout(source))
    return parts


def _layer(
    target: str, gates: int, source: Operand, groups: Sequence[tuple[Operand, ...]], steps: int, batch: int,
    out: Operand, first_weight: int,
) -> tuple[list[RecurrentPart], Operand]:  # fmt: skip
    """(the two ops of one layer, its result)."""
    directions, (first, second) = len(groups), groups[0][:2]
    wide, hidden = first.shape[0], second.shape[1]
    each = len(groups[0])
    before = replace(out, shape=(*source.shape[:-1], directions * wide))
    bias = None
    if each > 2:
        bias = replace(groups[0][2], shape=(directions * wide,))
    stacked = replace(first, shape=(directions * wide, first.shape[1]))
    inputs = gemm_facts(source, stacked, before, bias=bias, transposed=True)
    trained = source.trained or second.trained
    flops = 2.0 * steps * directions * batch * wide * hidden
    states = out.bytes * (gates + (gates == LAYERS["lstm"]))
    loop = Facts(
        kind="recurrent", dims=(steps, directions, batch, wide, hidden), gradient=(trained, second.trained), flops=flops,
        flops_back=flops * (trained + second.trained), read=before.bytes + directions * second.bytes,
        written=out.bytes + states, kernels=1.0, kernels_back=float(trained + second.trained), saves_output=trained,
        extra=states if trained else 0.0,
    )  # fmt: skip
    ways = range(directions)
    of_inputs = tuple(first_weight + d * each + i for d in ways for i in range(each) if i != 1)
    of_loop = tuple(first_weight + d * each + 1 for d in ways)
    return [
        RecurrentPart(target=f"{target}_inputs", facts=inputs, output=before, weights=of_inputs),
        RecurrentPart(target=target, facts=loop, output=out, weights=of_loop),
    ], out


def _dropout(source: Operand) -> RecurrentPart:
    """The dropout between two layers, with a mask of one byte per element."""
    mask = source.bytes / source.width
    back = float(source.trained)
    facts = Facts(
        kind="elementwise", read=source.bytes, written=source.bytes + mask, read_back=(source.bytes + mask) * back,
        written_back=source.bytes * back, kernels=1.0, kernels_back=back, extra=mask * back,
    )  # fmt: skip
    return RecurrentPart(target="dropout", facts=facts, output=source)
