"""Encoder-decoder models (T5, BART, Whisper) as two models: an encoder that reads once, a decoder that writes tokens.

The encoder's pass also makes the keys and values of the input that the decoder attends to, which stay in memory. A step
of the decoder reads them, and the keys and values of what it wrote. Source: counting. Known error: none published here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from podsim.axes import Floats, Shaped
from podsim.hardware.parts import Gpu
from podsim.serving.inference_passes import Pass, cache_bytes, prompt_pass, token_cache, token_pass
from podsim.serving.kernels import moved_seconds
from podsim.workload.model import Block, Model

_INPUT, _CORE = "cross.kv", "cross.core"
"""names of the ops that make, and that read, keys and values of the input"""


def has_encoder(model: Model) -> bool:
    """Whether a model has an encoder and a decoder."""
    return any(block.encoder for block in model.layers)


@lru_cache(maxsize=64)
def encoder_part(model: Model) -> Model:
    """The encoder, with the products that make the decoder's keys and values of its input."""
    layers = [replace(block, encoder=False) for block in model.layers if block.encoder]
    made = [
        Block(name="cross", ops=tuple(op for op in block.ops if op.name == _INPUT), count=block.count)
        for block in model.layers
        if not block.encoder
    ]
    return replace(model, layers=(*layers, *made))


@lru_cache(maxsize=64)
def decoder_part(model: Model) -> Model:
    """The decoder, without what concerns its input's keys and values."""
    layers = [
        replace(block, ops=tuple(op for op in block.ops if op.name not in (_INPUT, _CORE)))
        for block in model.layers
        if not block.encoder
    ]
    return replace(model, layers=tuple(layers))


def input_cache_bytes(model: Model, tokens: float) -> float:
    """B of the input's keys and values of one sequence, in all layers of the decoder."""
    return tokens * sum(
        block.count * token_cache(model, op) for block in model.layers for op in block.ops if op.name == _CORE
    )


def sequence_cache_bytes(model: Model, tokens: int, output: int) -> float:
    """B of all keys and values of one sequence when its last token is there."""
    return input_cache_bytes(model, tokens) + cache_bytes(decoder_part(model), output)


def encoder_pass(
    model: Model, gpu: Gpu, batch: Shaped[Floats, "batch"], tokens: float, *, precision: str, sparse: bool
) -> Pass:
    """The pass over the input, and the decoder's first token."""
    read = prompt_pass(encoder_part(model), gpu, batch, tokens, precision=precision, sparse=sparse)
    step = decoder_step(model, gpu, batch, (tokens, 1.0), precision=precision, sparse=sparse)
    return replace(
        read, products=read.products + step.products, attention=read.attention + step.attention,
        memory=read.memory + step.memory, kernels=read.kernels + step.kernels,
    )  # fmt: skip


def decoder_step(
    model: Model,
    gpu: Gpu,
    batch: Shaped[Floats, "batch"],
    lengths: tuple[float, float],
    *,
    precision: str,
    sparse: bool,
) -> Pass:
    """One token more for each sequence; lengths are the tokens of its input, and those that it wrote."""
    tokens, written = lengths
    step = token_pass(decoder_part(model), gpu, batch, written, precision=precision, sparse=sparse)
    layers = sum(block.count for block in model.layers if not block.encoder)
    crossed = layers * moved_seconds(gpu, input_cache_bytes(model, tokens) / layers * batch)
    return replace(step, attention=step.attention + crossed, kernels=step.kernels + layers)
