"""The kernels of a language model's layers in an inference engine, as one GPU of a plan runs them for each token.

Engines join the query, key and value projections and those to latents. They fuse biases, rotary embeddings and sums of
residuals into the adjacent product, norm or attention. They do not join an activation with its gate, a norm, or the
router of experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from podsim.errors import ModelError
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.model import Block, Model, TensorOp


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product of all layers of one kind, on one GPU."""

    count: float
    """count. The layers that have it."""
    n: float
    k: float
    token_share: float = 1.0
    """share. The tokens of a step that pass it on this GPU."""
    is_quantised: bool = True
    """Whether its weights have the plan's format; else they have 16 bits."""
    is_shared: bool = False
    """Whether it is of an expert that all tokens share: engines decode it beside the others, in a stream of its own."""


@dataclass(frozen=True, kw_only=True)
class Core:
    """The attention of all layers of one kind, on one GPU."""

    count: float
    heads: float
    kv_heads: float
    head_dim: float
    value_dim: float
    window: float
    """count. The most keys that a query sees; 0 for no limit."""
    key_share: float = 1.0
    """share. The keys over the tokens of a sequence; below 1 where they are compressed along it."""
    kept: float = 0.0
    """count. The tokens of a sequence that stay in the cache; 0 for all."""
    rank: float = 0.0
    """count. The width of the compressed keys and values of latent attention; 0 for plain attention."""
    rope_dim: float = 0.0
    """count. The width of the keys' part that is not compressed."""

    @property
    def width(self) -> float:
        """count. The elements of one token's keys and values in one layer of this GPU."""
        width = self.rank + self.rope_dim if self.rank else self.kv_heads * (self.head_dim + self.value_dim)
        return width * self.key_share


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The experts of all layers of one kind."""

    count: float
    hidden: float
    inner: float
    top: float
    experts: float
    is_gated: bool


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The recurrent state of all layers of one kind that have no attention, on one GPU."""

    count: float
    width: float
    state_dim: float
    chunk: float
    """count. The tokens of a chunk of a prompt; 0 for a scan that runs token by token."""
    channels: float
    """count. The elements of the state of the short convolution before the scan."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """All layers of a language model, on one GPU of a plan with a single stage."""

    products: tuple[Product, ...]
    cores: tuple[Core, ...]
    experts: tuple[Experts, ...]
    scans: tuple[Scan, ...]
    moved: tuple[tuple[float, float], ...]
    """The kernels that only move bytes: (how many, the elements of a token)."""
    syncs: float
    """count. The sums of a token's hidden state over the GPUs of a stage."""
    attention_syncs: float
    """count. The sums after attention alone, over the GPUs that divide its heads."""
    logits: Product | None
    """The product that gives the logits of one token."""

    @property
    def core_count(self) -> float:
        """count. The layers with attention."""
        return sum(core.count for core in self.cores)


def plan_layers(model: Model, plan: ServingPlan) -> Layers:
    """The kernels of one GPU of a plan. Raises ModelError for a model that produces no tokens."""
    return language_layers(model, (plan.tensor, plan.expert, plan.context, plan.data_attention), plan.kept)


def check_language_model(model: Model) -> None:
    """Raise ModelError for a network that does not produce token after token."""
    if any(block.encoder for block in model.layers):
        raise ModelError(
            f"{model.name} has an encoder and a decoder; served are decoders, encoders and networks by name"
        )
    if not is_language_model(model):
        raise ModelError(f"{model.name} produces no tokens: it reads a whole sequence at once")


def is_language_model(model: Model) -> bool:
    """Whether each token sees those before it only, so that tokens follow one after another."""
    ops = [op for block in text_layers(model) for op in block.ops]
    cores = [op for op in ops if op.kind == "attention"]
    return all(op.causal for op in cores) and (bool(cores) or any(op.name == "state.scan" for op in ops))


@lru_cache(maxsize=256)
def language_layers(model: Model, divided: tuple[int, int, int, int], kept: tuple[str, ...] = ()) -> Layers:
    """The kernels of one GPU by the degrees of tensor, expert, context and data-parallel attention.

    Raises ModelError for a model that produces no tokens."""
    check_language_model(model)
    tensor, expert, context, data_attention = divided
    degrees = ServingPlan(
        engine="", tensor=tensor, expert=expert, context=context, data_attention=data_attention, kept=kept
    )
    kinds = text_layers(model)
    return Layers(
        products=tuple(_products(kinds, degrees)),
        cores=tuple(_cores(model, kinds, degrees)),
        experts=tuple(_experts(model, kinds)),
        scans=tuple(_scans(model, kinds, degrees)),
        moved=tuple(_moved(kinds, degrees)),
        syncs=float(sum((block.syncs - _attention_syncs(block)) * block.count for block in kinds)),
        attention_syncs=float(sum(_attention_syncs(block) * block.count for block in kinds)),
        logits=next(
            (Product(count=1, n=max(op.n // degrees.layer_degree, 1), k=op.k, is_quantised=False)
             for op in model.head.ops if op.name == "head.logits"), None,
        ),
    )  # fmt: skip


def text_layers(model: Model) -> list[Block]:
    """The layers that every token passes: all but those of images, each kind once."""
    layers = [block for block in model.kinds[1:-1] if block not in model.later]
    return [block for block in layers if not block.name.startswith("vision")]


def is_attention(op: TensorOp) -> bool:
    """Whether an op belongs to attention, and so is divided as its heads are."""
    return op.name.startswith("attention.")


def op_degree(op: TensorOp, degrees: ServingPlan) -> int:
    """count. The GPUs over which an op's width is divided."""
    if op.split in ("none", "sequence"):
        return 1
    if not is_attention(op):
        return degrees.layer_degree
    return degrees.attention_degree * (degrees.context if op.split == "row" else 1)


def _attention_syncs(block: Block) -> int:
    """The sums of a layer after its attention; none where attention and MLP are added before one sum."""
    return int(block.syncs > 1 and any(op.kind == "attention" for op in block.ops))


def _products(kinds: list[Block], degrees: ServingPlan) -> Iterator[Product]:
    for block in kinds:
        named = {op.name: op for op in block.ops}
        latent = named.get("attention.kv_down") if "attention.q_down" in named else None
        for op in block.ops:
            if op.kind != "gemm" or op.expert or op.name == "state.scan" or op is latent:
                continue
            degree = op_degree(op, degrees)
            joined = latent.n if latent is not None and op.name == "attention.q_down" else 0
            yield Product(
                count=block.count,
                n=_width(op, degree) + joined,
                k=max(op.k / degree, 1.0) if op.split == "row" else op.k,
                token_share=1 / degrees.data_attention if is_attention(op) else 1.0,
                is_quantised=degrees.is_quantised(op.name),
                is_shared=op.name.startswith("moe.shared"),
            )


def _width(op: TensorOp, degree: int) -> float:
    """The output width on one GPU: each has at least one head of keys and values."""
    if op.split != "column":
        return float(op.n)
    if not op.kv_heads:
        return max(op.n / degree, 1.0)
    head = op.head_dim + op.value_dim
    rest = op.n - op.kv_heads * head
    return max(rest / degree, 0.0) + max(op.kv_heads / degree, 1.0) * head


def _cores(model: Model, kinds: list[Block], degrees: ServingPlan) -> Iterator[Core]:
    rank, rope_dim = (float(str(model.attributes.get(key, 0) or 0)) for key in ("kv_rank", "rope_dim"))
    degree, chosen = degrees.attention_degree, float(str(model.attributes.get("index_keys", 0) or 0))
    for block in kinds:
        for op in block.ops:
            if op.kind == "attention":
                yield Core(
                    count=block.count, heads=max(op.heads / degree, 1.0),
                    kv_heads=max((op.kv_heads or op.heads) / degree, 1.0), head_dim=op.head_dim,
                    value_dim=op.value_dim or op.head_dim, window=op.window, rank=rank * is_attention(op),
                    rope_dim=rope_dim * bool(rank) * is_attention(op),
                    key_share=op.key_share, kept=0.0 if op.key_share < 1 or op.window == chosen else op.window,
                )  # fmt: skip


def _experts(model: Model, kinds: list[Block]) -> Iterator[Experts]:
    for block in kinds:
        ops = {op.name: op for op in block.ops if op.expert and op.kind == "gemm"}
        if not ops:
            continue
        down = next(op for op in ops.values() if op.split == "row")
        up = next(op for op in ops.values() if op.split == "column")
        yield Experts(
            count=block.count, hidden=model.hidden, inner=down.k, top=block.top_k, experts=block.experts,
            is_gated=up.n >= 2 * down.k,
        )  # fmt: skip


def _scans(model: Model, kinds: list[Block], degrees: ServingPlan) -> Iterator[Scan]:
    chunk = float(str(model.attributes.get("state_chunk", 0) or 0))
    state_dim = float(str(model.attributes.get("state_dim", 0) or 0)) or 16.0
    for block in kinds:
        ops = {op.name: op for op in block.ops}
        if (scan := ops.get("state.scan")) is None:
            continue
        width = scan.n if scan.kind == "gemm" else scan.write
        channels = ops["state.convolution"].read if "state.convolution" in ops else 0.0
        if scan.kind == "gemm":
            state_dim = (scan.k - chunk) / 2 if scan.k > chunk else scan.k / 2
        yield Scan(
            count=block.count, width=max(width / degrees.layer_degree, 1.0), state_dim=state_dim,
            chunk=chunk if scan.kind == "gemm" else 0.0, channels=channels / degrees.layer_degree,
        )  # fmt: skip


def _moved(kinds: list[Block], degrees: ServingPlan) -> Iterator[tuple[float, float]]:
    """(count, elements of a token) of norms with the residual sum before them, and of activations."""
    for block in kinds:
        for op in block.ops:
            if op.expert:
                continue
            share = 1 / op_degree(op, degrees)
            if op.kind == "norm":
                yield block.count, (2 * op.read + 2 * op.write) * share
            elif op.kind == "activation":
                yield block.count, (op.read + op.write) * share
