"""One pass of a network over a batch, kernel by kernel: a prompt (or a whole sequence), one more token, an image.

Engines fuse activations, biases and residual sums into the adjacent product or norm, so they do not count. A pass is
seconds of three kinds, and the number of its kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats, Shaped
from podsim.errors import ModelError
from podsim.hardware.parts import Gpu
from podsim.serving.engines import Engine
from podsim.serving.kernels import (
    Moved,
    core_seconds,
    is_single_block,
    moved_seconds,
    product_seconds,
    weight_bytes,
)
from podsim.workload.convolution import ConvNet
from podsim.workload.model import Block, Model, TensorOp

_FOLDED = ("activation", "dropout", "cross_entropy")


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Seconds of one pass at each batch."""

    products: Shaped[Floats, "batch"]
    """s. The time of matrix products and convolutions."""
    attention: Shaped[Floats, "batch"]
    """s. The time of attention cores."""
    memory: Shaped[Floats, "batch"]
    """s. The time of memory-bound kernels: norms, embeddings, pooling."""
    kernels: int
    """The number of launched kernels."""
    is_single_block: bool = False
    """Whether attention ran in the engine's kernel for whole sequences, which has a fitted speed."""

    def seconds(self, engine: Engine, precision: str, sparse: bool) -> dict[str, Floats]:
        """s of each part under an engine, [batch]: products, attention, memory, kernels."""
        return {
            "products": self.products / engine.product_speed(precision, sparse),
            "attention": self.attention / (engine.attention_speed if self.is_single_block else 1.0),
            "memory": self.memory,
            "kernels": np.full_like(self.products, self.kernels * engine.kernel),
        }


def check(model: Model) -> None:
    """Raise ModelError for a network that cannot be served this way."""
    if any(block.encoder for block in model.layers):
        raise ModelError(
            f"{model.name} has an encoder and a decoder; served are decoders, encoders and ResNet-50"
        )


def is_encoder(model: Model) -> bool:
    """Whether it reads a whole sequence at once and produces no tokens (BERT)."""
    cores = [op for block in model.layers for op in block.ops if op.kind == "attention"]
    return bool(cores) and not any(op.causal for op in cores)


def prompt_pass(
    model: Model, gpu: Gpu, batch: Shaped[Floats, "batch"], tokens: float, *, precision: str, sparse: bool
) -> Pass:
    """A whole sequence of `tokens` through the network: a pass of BERT, or the prompt of a language model.

    Logits are computed for the last token alone; an encoder has no head (its task's is too small to matter).
    """
    check(model)
    products, attention, memory, kernels = _embedding(model, gpu, batch * tokens)
    for block in model.layers:
        for op in block.ops:
            if op.kind == "gemm":
                products = products + block.count * _op_seconds(
                    gpu, op, block, batch * tokens, precision, sparse
                )
            elif op.kind == "attention":
                core = core_seconds(gpu, op, batch, tokens, _core_precision(precision))
                attention = attention + block.count * core
            elif _is_kernel(op):
                memory = memory + block.count * moved_seconds(gpu, _traffic(op, precision) * batch * tokens)
            kernels += block.count * _is_kernel(op)
    head, launched = _head(model, gpu, batch, precision)
    return Pass(
        products=products + head, attention=attention, memory=memory, kernels=kernels + launched,
        is_single_block=is_encoder(model) and is_single_block(gpu, tokens),
    )  # fmt: skip


def token_pass(
    model: Model, gpu: Gpu, batch: Shaped[Floats, "batch"], context: float, *, precision: str, sparse: bool
) -> Pass:
    """One more token for each sequence of the batch, whose caches hold `context` tokens.

    Attention reads the cache of keys and values, in 16 bits: a memory-bound kernel.
    """
    check(model)
    products, attention, memory, kernels = _embedding(model, gpu, batch)
    for block in model.layers:
        for op in block.ops:
            if op.kind == "gemm":
                products = products + block.count * _op_seconds(gpu, op, block, batch, precision, sparse)
            elif op.kind == "attention":
                seen = min(context, op.window) if op.window else context
                attention = attention + block.count * moved_seconds(
                    gpu, token_cache(model, op) * seen * batch
                )
            elif _is_kernel(op):
                memory = memory + block.count * moved_seconds(gpu, _traffic(op, precision) * batch)
            kernels += block.count * _is_kernel(op)
    head, launched = _head(model, gpu, batch, precision)
    return Pass(products=products + head, attention=attention, memory=memory, kernels=kernels + launched)


def image_pass(
    net: ConvNet, gpu: Gpu, batch: Shaped[Floats, "batch"], *, precision: str, sparse: bool
) -> Pass:
    """A batch of images through a convolutional network; a layer writes in the width that the next one reads."""
    width = weight_bytes(precision, False)
    products = memory = np.zeros_like(batch)
    for layer in net.convolutions:
        outputs = batch * layer.size**2
        moved = Moved(batch * layer.read, width, width * outputs * layer.outputs * layer.residual)
        products = products + product_seconds(
            gpu, outputs, layer.outputs, layer.depth, precision=precision, sparse=sparse and layer.inputs % 4 == 0,
            moved=moved,
        )  # fmt: skip
    for read, written in net.pooled:
        memory = memory + moved_seconds(gpu, width * (read + written) * batch)
    last = product_seconds(gpu, batch, net.classes, net.features, precision=precision, sparse=sparse)
    kernels = len(net.convolutions) + len(net.pooled) + 1
    return Pass(products=products + last, attention=np.zeros_like(batch), memory=memory, kernels=kernels)


def _embedding(model: Model, gpu: Gpu, tokens: Shaped[Floats, "batch"]) -> tuple[Floats, Floats, Floats, int]:
    """Parts of a pass that starts: the sum of the tables' rows and its norm, one kernel."""
    tables = sum(op.kind == "embedding" for op in model.embedding.ops)
    moved = moved_seconds(gpu, 2.0 * model.hidden * (tables + 1) * tokens)
    return np.zeros_like(tokens), np.zeros_like(tokens), moved, 1


def _head(model: Model, gpu: Gpu, batch: Shaped[Floats, "batch"], precision: str) -> tuple[Floats, int]:
    """Seconds and kernels of the logits of one token a sequence; none of an encoder."""
    logits = [op for op in model.head.ops if op.name == "head.logits"]
    if is_encoder(model) or not logits:
        return np.zeros_like(batch), 0
    half = precision if precision in ("fp32", "tf32", "bf16", "fp16") else "fp16"
    return product_seconds(gpu, batch, logits[0].n, logits[0].k, precision=half), 1


def _op_seconds(
    gpu: Gpu, op: TensorOp, block: Block, tokens: Shaped[Floats, "batch"], precision: str, sparse: bool
) -> Floats:
    """Seconds of one product; an expert's covers the tokens of the mean number of active experts."""
    if not op.expert:
        return product_seconds(gpu, tokens, op.n, op.k, precision=precision, sparse=sparse)
    met = block.experts * (1 - (1 - block.top_k / block.experts) ** tokens)
    per_expert = np.maximum(tokens * block.top_k / met, 1.0)
    return product_seconds(gpu, per_expert, op.n, op.k, batch=met, precision=precision, sparse=sparse)


def _is_kernel(op: TensorOp) -> bool:
    """Whether an engine launches a kernel for it; fused ops have none."""
    return not (op.kind in _FOLDED or (op.kind == "elementwise" and op.fused))


def _traffic(op: TensorOp, precision: str) -> float:
    """B per token of a kernel that only moves bytes: a norm reads the residual stream, too."""
    width = min(max(weight_bytes(precision, False), 2.0), 4.0)
    return width * (2 * op.read + op.write if op.kind == "norm" else op.read + op.write)


def _core_precision(precision: str) -> str:
    """The precision of attention, which has no 4-bit kernel."""
    return "int8" if precision == "int4" else precision


def token_cache(model: Model, op: TensorOp) -> float:
    """B of one token's keys and values in one layer; of latent attention the compressed ones."""
    rank, rope = (int(str(model.attributes.get(key, 0) or 0)) for key in ("kv_rank", "rope_dim"))
    if rank:
        return 2.0 * (rank + rope)
    return 2.0 * (op.kv_heads or op.heads) * (op.head_dim + (op.value_dim or op.head_dim))


def cache_bytes(model: Model, tokens: float) -> float:
    """B of keys and values of one sequence of `tokens`, in all layers, 16 bits each."""
    if is_encoder(model):
        return 0.0
    return sum(
        block.count * token_cache(model, op) * (min(tokens, op.window) if op.window else tokens)
        for block in model.layers
        for op in block.ops
        if op.kind == "attention"
    )


def model_weight_bytes(model: Model, precision: str, sparse: bool) -> float:
    """B of weights: the layers' products in the precision, all others in 16 bits (32 in fp32 and tf32)."""
    plain = max(min(weight_bytes(precision, False), 4.0), 2.0)
    total = 0.0
    for block in model.blocks:
        inner = block is not model.embedding and block is not model.head
        for op in block.ops:
            width = weight_bytes(precision, sparse) if inner and op.kind == "gemm" else plain
            total += block.count * (op.weight * width + op.bias * plain)
    return total
