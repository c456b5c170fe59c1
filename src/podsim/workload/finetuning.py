"""Fine-tuning: which parameters of a model are trained, and what its ops then compute and keep.

    full         every parameter
    lora:R       frozen weights; each product of a layer gets two of rank R beside it, which are trained
    qlora:R      the same, with the frozen weights in 4-bit NormalFloat
    frozen:N     the first N layers and the embedding are frozen, and no gradient reaches them
    dpo          preference training: all parameters, and the forward pass of a frozen reference model
    dpo+lora:R   the same with adapters; the reference is the model without them, so it takes no memory of its own

LoRA (Hu et al. 2021, arXiv 2106.09685, section 4): y = W x + B A x, A of R rows and B of R columns; the optimizer
holds A and B alone. QLoRA (Dettmers et al. 2023, arXiv 2305.14314, sections 2 and 3): adapters on all products of the
layers; weights of 4 bits, with 0.127 bits a weight for constants that are themselves quantised, expanded to 16 bits
for each product. A frozen weight has no gradient of its own; the gradient of its input still passes through it.
Direct preference optimisation (Rafailov et al. 2023, arXiv 2305.18290, equation 7) compares the policy's likelihoods
of a chosen and a rejected answer with the reference's: a pair is two sequences, each through both models.
Limits: adapters are not divided over tensor-parallel ranks where their base is not divided by columns; no dropout
inside adapters; the pages to host memory of QLoRA's optimizer are not modelled.
"""

from __future__ import annotations

import re
from dataclasses import replace

from podsim.errors import ModelError
from podsim.workload.model import Block, Model, Saved, TensorOp

_QUANTISED = (4 + 0.127) / 8
"""B. A weight in NormalFloat 4 with double quantisation (QLoRA, section 3)."""
_FORM = re.compile(r"\s*(full|lora|qlora|frozen)\s*(?:[:=]\s*(\d{1,6}))?\s*", re.IGNORECASE)
_RANK = 16


def read_training(text: str) -> tuple[str, int]:
    """(kind, number) of a text such as full, lora:16, qlora or frozen:20; a rank not given is 16.

    Raises ModelError for any other text.
    """
    read = _FORM.fullmatch(str(text)[:80])
    kind, number = (read[1].lower(), read[2]) if read else ("", None)
    wrong = not kind or (number is not None and int(number) < 1) or (kind == "full") == bool(number)
    if wrong and not (kind and number is None and kind != "frozen"):
        raise ModelError(
            f"train={str(text)[:40]!r}: give full, lora:RANK, qlora:RANK, frozen:LAYERS or dpo, such as lora:16"
        )
    return kind, int(number or (_RANK if kind in ("lora", "qlora") else 0))


def fine_tuned(model: Model, training: str) -> Model:
    """The model as it is fine-tuned; the same one if all of it is trained.

    Raises ModelError for a text that says nothing, a rank above the model's width, or as many frozen layers as it has.
    """
    text = str(training).strip().lower()
    if not text.startswith("dpo"):
        return _tuned_model(model, training)
    rest = text.removeprefix("dpo").lstrip("+ ") or "full"
    policy = _tuned_model(model, rest)
    return _with_reference(policy, model, shares_weights="lora" in rest)


def _tuned_model(model: Model, training: str) -> Model:
    kind, number = read_training(training)
    if kind == "full":
        return model
    if kind == "frozen":
        return _with_frozen_layers(model, number)
    if number > model.hidden:
        raise ModelError(f"train={training}: a rank of {number} is above the model's width, {model.hidden}")
    stored, gated = _QUANTISED if kind == "qlora" else 0.0, bool(model.attributes.get("gated"))
    return replace(
        model,
        training=f"{kind}:{number}",
        embedding=replace(model.embedding, ops=tuple(_unreached_op(op) for op in model.embedding.ops)),
        layers=tuple(_adapted_block(block, number, stored, gated) for block in model.layers),
        later=tuple(_adapted_block(block, number, stored, gated) for block in model.later),
        head=replace(model.head, ops=tuple(_frozen_op(op) for op in model.head.ops)),
    )


def _adapted_block(block: Block, rank: int, stored: float, gated: bool) -> Block:
    ops: list[TensorOp] = []
    for op in block.ops:
        if op.kind != "gemm" or not op.weight or op.name == "moe.router":
            ops.append(_frozen_op(op))
            continue
        ops += [replace(_frozen_op(op), stored_bytes=stored), *_adapters(op, rank, _matrices(op, gated))]
    return replace(block, ops=tuple(ops))


def _matrices(op: TensorOp, gated: bool) -> int:
    """The matrices that one op joins, each with adapters of its own: queries, keys and values, or gate and up."""
    if op.name.endswith(".qkv"):
        return 3
    return 2 if gated and op.name.endswith("up") and not op.name.startswith("attention") else 1


def _adapters(op: TensorOp, rank: int, matrices: int) -> list[TensorOp]:
    """The two products beside one, A and B; an expert's own for each expert, and an A for each matrix that it joins."""
    copies = op.weight // (op.n * op.k)
    divided = op.split if op.split in ("column", "vocab") else "none"
    inner = replace(
        op, name=f"{op.name}.lora_a", split="none", n=matrices * rank, weight=copies * op.k * matrices * rank, bias=0,
        heads=0, kv_heads=0,
        head_dim=0, value_dim=0, saved=(),
    )  # fmt: skip
    return [
        inner,
        replace(
            inner, name=f"{op.name}.lora_b", split=divided, n=op.n, k=rank, weight=copies * op.n * rank,
            saved=(Saved(elements=matrices * rank, split="none"),),
        ),
    ]  # fmt: skip


def _frozen_op(op: TensorOp) -> TensorOp:
    """The op without a gradient of its weight."""
    return replace(op, gradient="input")


def _unreached_op(op: TensorOp) -> TensorOp:
    """The op as no gradient reaches it: it keeps nothing, and has no backward pass."""
    return replace(op, gradient="none", read_back=0.0, write_back=0.0, saved=())


def _with_reference(policy: Model, model: Model, *, shares_weights: bool) -> Model:
    """The policy behind the layers of its reference, which no gradient reaches, and with its logits in the head."""

    def passive(op: TensorOp) -> TensorOp:
        bare = replace(_unreached_op(op), name=f"reference.{op.name}")
        return replace(bare, weight=0, bias=0) if shares_weights else bare

    layers = tuple(
        replace(block, name=f"reference {block.name}", ops=tuple(map(passive, block.ops)))
        for block in model.layers
    )
    head = tuple(passive(op) for op in model.head.ops)
    return replace(
        policy,
        training=f"dpo+{policy.training}".removesuffix("+full"),
        layers=(*layers, *policy.layers),
        head=replace(policy.head, ops=(*policy.head.ops, *head)),
    )


def _with_frozen_layers(model: Model, frozen: int) -> Model:
    if frozen >= model.layer_count:
        raise ModelError(
            f"train=frozen:{frozen}: {model.name} has {model.layer_count} layers; freeze fewer of them"
        )
    left, layers = frozen, []
    for block in model.layers:
        below = min(left, block.count)
        left -= below
        if below:
            passive = tuple(_unreached_op(op) for op in block.ops)
            layers.append(replace(block, name=f"frozen {block.name}", count=below, ops=passive))
        if block.count > below:
            layers.append(replace(block, count=block.count - below))
    # a tied head multiplies by the frozen table
    head = [_frozen_op(op) if model.tied_embeddings and op.split == "vocab" else op for op in model.head.ops]
    return replace(
        model,
        training=f"frozen:{frozen}",
        embedding=replace(model.embedding, ops=tuple(_unreached_op(op) for op in model.embedding.ops)),
        layers=tuple(layers),
        head=replace(model.head, ops=tuple(head)),
    )
