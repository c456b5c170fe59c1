"""A transformer as a Model: embedding, layers, head, exact to the parameter."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from podsim.workload.attention_layers import norm
from podsim.workload.model import Block, Captured, Model, Saved, TensorOp
from podsim.workload.plain_ops import linear, memory_op, saved_tensor
from podsim.workload.specification import Changes, Transformer, resolve
from podsim.workload.transformer_layers import layer_ops, syncs


def build(spec: Transformer) -> Model:
    """The Model of a specification; raises ModelError with every rule that the specification breaks.

    Layers keep their order: a run of equal layers is one Block, and equal layers far apart (sliding windows
    that alternate) share one tuple of ops.
    """
    spec = resolve(spec)
    if spec.captured is not None:
        return _model_of_blocks(spec, spec.captured)
    decoder = "decoder layer" if spec.encoder_layers else "layer"
    layers = tuple(replace(block, ops=_shortened_ops(spec, block.ops)) for block in _runs(spec, decoder))
    if spec.encoder_layers:
        ops = layer_ops(spec, causal=False)
        encoder = Block(
            name="encoder layer", ops=ops, count=spec.encoder_layers, syncs=syncs(spec, ops), encoder=True
        )
        layers = (encoder, *layers)
    seen = _vision_layers(spec)
    later = (_later_layer(spec, layers[-1]),) * spec.mtp
    layers = (*seen[0], *layers)
    lookups = 2 if spec.encoder_layers else 1
    return Model(
        name=spec.name,
        family=spec.family,
        hidden=spec.hidden,
        vocab=spec.vocab,
        sequence=spec.sequence,
        embedding=Block(
            name="embedding",
            ops=(*_shortened_ops(spec, _embedding(spec), ("embedding.decoder_lookup",)), *seen[1]),
            syncs=lookups,
        ),
        layers=layers,
        later=later,
        head=Block(name="head", ops=_shortened_ops(spec, _head(spec))),
        tied_embeddings=spec.tied,
        source=spec.source,
        attributes=dict(vars(spec)),
        assumptions=spec.assumptions,
        doubts=spec.doubts,
    )


def _model_of_blocks(spec: Transformer, captured: Captured) -> Model:
    """The Model of blocks that a class gave."""
    return Model(
        name=spec.name, family=spec.family, hidden=spec.hidden, vocab=spec.vocab, sequence=spec.sequence,
        embedding=captured.embedding, layers=captured.layers, head=captured.head,
        tied_embeddings=not any(op.split == "vocab" and op.weight for op in captured.head.ops), source=spec.source,
        attributes=dict(vars(spec)), assumptions=spec.assumptions, doubts=spec.doubts,
    )  # fmt: skip


_OF_ENCODER = ("cross.kv", "head.encoder_norm")
"""The ops beyond the encoder that see the encoder's tokens."""


def _shortened_ops(
    spec: Transformer, ops: tuple[TensorOp, ...], names: tuple[str, ...] = ()
) -> tuple[TensorOp, ...]:
    """The ops of a decoder (those of some names) with its share of the tokens; its own attention has as few keys."""
    share = (spec.decoder_sequence or spec.sequence) / spec.sequence
    if share == 1:
        return ops
    return tuple(
        op
        if op.name in _OF_ENCODER or (names and op.name not in names)
        else replace(op, share=share, key_share=share if op.name == "attention.core" else 1.0)
        for op in ops
    )


def _vision_layers(spec: Transformer) -> tuple[tuple[Block, ...], tuple[TensorOp, ...]]:
    """The layers of the encoder of images, and the products that lead into it and out of it.

    Each token from an image is `area` patches, which the products named "merge" join; an image attends to itself.
    """
    eye = spec.vision
    if eye is None:
        return (), ()
    area = (
        max((inner for name, inner, _ in eye.extras if name.startswith("merge")), default=eye.hidden)
        // eye.hidden
    )
    tokens = spec.image_percent / 100
    share, near = tokens * max(area, 1), min(1.0, eye.sequence / spec.sequence)
    bare = replace(eye, extras=(), plain=0)
    ops = tuple(replace(op, share=share, key_share=near) for op in layer_ops(bare, causal=False))
    ends = [linear(f"vision.{name}", "none", inner, outer) for name, inner, outer in eye.extras]
    shares = [tokens if name.startswith("merge") else share for name, _, _ in eye.extras]
    outside = TensorOp(name="vision.plain", kind="elementwise", split="none", bias=eye.head_plain)
    made = tuple(replace(op, share=part) for op, part in zip(ends, shares, strict=True))
    return (Block(name="vision layer", ops=ops, count=eye.layers, syncs=syncs(bare, ops)),), (*made, outside)


def _runs(spec: Transformer, name: str) -> tuple[Block, ...]:
    """Runs of equal layers, by (window, mixture, what else varies)."""
    pattern = spec.windows or (0,)
    dense = set(spec.dense_layers) if spec.experts else set(range(spec.layers))
    varied = spec.variations or ((),) * spec.layers
    kinds = [(pattern[i % len(pattern)], i not in dense, varied[i]) for i in range(spec.layers)]
    made: dict[tuple[int, bool, Changes], Block] = {}
    for window, mixture, changes in dict.fromkeys(kinds):
        layer = replace(spec, **dict(changes)) if changes else spec
        routed = mixture and layer.feed
        ops = layer_ops(
            layer, window=window, mixture=routed, causal=not spec.bidirectional, cross=spec.encoder_layers > 0
        )
        experts, top_k, shared = (layer.experts, layer.top_k, layer.shared_experts) if routed else (0, 0, 0)
        title = {"state": "state ", "none": "" if layer.feed else "empty "}.get(layer.mixer, "")
        has_window = window and layer.mixer == "attention"
        made[window, mixture, changes] = Block(
            name=f"{title}{'moe ' if routed else ''}{name}" + (f", window {window}" if has_window else ""),
            ops=ops,
            syncs=syncs(layer, ops),
            experts=experts,
            top_k=top_k,
            shared_experts=shared,
            top_groups=layer.router_top_groups if routed else 0,
        )
    return tuple(Block(**{**vars(made[kind]), "count": len(list(run))}) for kind, run in groupby(kinds))


def _embedding(spec: Transformer) -> tuple[TensorOp, ...]:
    """Lookup and sum of the tables, norm, dropout; the backward of a lookup adds to a row of the gradient."""
    width, h = spec.embedding_width, spec.hidden
    ops = [_lookup("embedding.lookup", width, spec.vocab * width)]
    if spec.encoder_layers:
        ops.append(_lookup("embedding.decoder_lookup", width, 0))
    if width != h:
        ops.append(linear("embedding.project", "none", width, h, keep=saved_tensor(width, "none")))
    if spec.position == "learned":
        ops.append(_table("embedding.position", h, spec.positions * h))
    if spec.token_types:
        ops.append(_table("embedding.token_type", h, spec.token_types * h))
    if spec.relative_buckets:
        tables = spec.relative_buckets * spec.heads * (2 if spec.encoder_layers else 1)
        ops.append(TensorOp(name="embedding.relative", kind="embedding", split="none", weight=tables))
    if spec.embedding_norm:
        ops.append(norm(spec, "embedding.norm", h))
    if spec.dropout:
        mask = (Saved(elements=h, split="sequence", bytes=1),)
        ahead, back = (h, 1.5 * h), (1.5 * h, h)
        ops.append(memory_op("embedding.dropout", "dropout", "sequence", ahead=ahead, back=back, saved=mask))
    return tuple(ops)


def _lookup(name: str, width: int, weight: int) -> TensorOp:
    return memory_op(
        name, "embedding", "vocab", ahead=(width, width), back=(2 * width, width), weight=weight,
        saved=(Saved(elements=1, split="none", bytes=8),), fused=False,
    )  # fmt: skip


def _table(name: str, width: int, weight: int) -> TensorOp:
    """A small table added to the embedding: reads both, writes the sum."""
    ahead, back = (2 * width, width), (width, width)
    return memory_op(name, "embedding", "none", ahead=ahead, back=back, weight=weight, fused=False)


def _head(spec: Transformer) -> tuple[TensorOp, ...]:
    """Final norms, what stands before the logits, logits and loss.

    The encoder's last norm is here too, and keeps the encoder's output for all cross-attentions.
    """
    h, width = spec.hidden, spec.embedding_width
    ops: list[TensorOp] = []
    if spec.encoder_layers:
        last = norm(spec, "head.encoder_norm", h)
        ops.append(replace(last, saved=saved_tensor(2 * h, "sequence")))
    if spec.final_norm:
        ops.append(norm(spec, "head.norm", h))
    if spec.pooler:
        # one token of a sequence: no cost per token
        ops.append(TensorOp(name="head.pooler", kind="elementwise", split="none", weight=h * h, bias=h))
    if spec.classes:
        ops.append(_classifier(spec))
    if spec.mlm_transform:
        keep = saved_tensor(h, "sequence")
        ops.append(linear("head.transform", "none", h, h, bias=True, keep=keep))
        ahead, back = (h, h), (2 * h, h)
        ops.append(memory_op("head.activation", "activation", "sequence", ahead=ahead, back=back, saved=keep))
        ops.append(norm(spec, "head.transform_norm", h))
    if spec.head_plain:
        ops.append(TensorOp(name="head.plain", kind="elementwise", split="none", bias=spec.head_plain))
    if spec.lm_head:
        if width != h:
            ops.append(linear("head.project", "none", h, width, keep=saved_tensor(h, "sequence")))
        ops += _logits(spec)
        further = [
            replace(op, name=op.name.replace("head", "later"), weight=0, bias=0) for op in _logits(spec)
        ]
        ops += further * spec.mtp
    return tuple(ops)


def _later_layer(spec: Transformer, last: Block) -> Block:
    """A module of multi-token prediction before its logits (DeepSeek-V3, arXiv 2412.19437, section 2.2).

    The embedding of the next token and the hidden state are normed, joined and projected to one width, and pass through
    a layer like the last one and a norm. Embedding and head are the model's own. Two more tensor-parallel syncs: of the
    lookup, and of the projection, whose input has twice the width and whose output is gathered.
    """
    h, width = spec.hidden, spec.embedding_width
    both = saved_tensor(2 * h, "sequence")
    ops = (
        _lookup("later.lookup", width, 0),
        norm(spec, "later.embedding_norm", h), norm(spec, "later.hidden_norm", h),
        linear("later.project", "column", 2 * h, h, keep=both), *last.ops, norm(spec, "later.norm", h),
    )  # fmt: skip
    return replace(last, name=f"multi-token {last.name}", ops=ops, count=1, syncs=last.syncs + 2)


def _classifier(spec: Transformer) -> TensorOp:
    h, classes = spec.hidden, spec.classes
    if spec.pooler:
        weight = h * classes
        return TensorOp(name="head.classifier", kind="elementwise", split="none", weight=weight, bias=classes)
    keep = saved_tensor(h, "sequence")
    return linear("head.classifier", "none", h, classes, bias=True, keep=keep)


def _logits(spec: Transformer) -> list[TensorOp]:
    """Logits and cross-entropy.

    The loss is Megatron-LM's vocabulary-parallel one, op by op in fp32 (two elements of traffic each): cast,
    maximum, subtract, exponential, sum, divide; it keeps the softmax in fp32, 4 vocab bytes per token.
    """
    width, vocab = spec.embedding_width, spec.vocab
    logits = TensorOp(
        name="head.logits", kind="gemm", split="vocab", n=vocab, k=width, weight=0 if spec.tied else vocab * width,
        bias=vocab * spec.head_bias, saved=saved_tensor(width, "sequence"),
    )  # fmt: skip
    loss = memory_op(
        "head.loss", "cross_entropy", "vocab", ahead=(11 * vocab, 8 * vocab), back=(4 * vocab, 3 * vocab), n=vocab,
        saved=(Saved(elements=vocab, split="column", bytes=4),), fused=False,
    )  # fmt: skip
    return [logits, loss]
