"""A neural network as blocks of tensor ops: shapes per token, before any plan divides them.

Every count is for one token of one sequence; the plan supplies the tokens (micro-batch x sequence / cp) and
divides widths by its degrees, as each op's `split` says:

    split        what tensor parallelism (degree tp) does to the op
    "none"       nothing: every rank of the group repeats it
    "sequence"   divided over tokens when sequence parallelism is on, else repeated
    "column"     GEMM: output width n / tp.  Other ops: their width / tp
    "row"        GEMM: inner width k / tp; its result is summed over the group (a tensor-parallel sync)
    "head"       attention: heads / tp (kv_heads / tp, at least one)
    "vocab"      embedding, logits, cross-entropy: vocabulary / tp
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple

from podsim.memo import hashed_once
from podsim.records import dataclass, field, replace

Split = Literal["none", "sequence", "column", "row", "head", "vocab"]
Gradient = Literal["both", "input", "none"]
Kind = Literal[
    "gemm",
    "attention",
    "norm",
    "elementwise",
    "activation",
    "dropout",
    "embedding",
    "cross_entropy",
    "router",
]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A tensor kept from the forward pass for the backward pass."""

    elements: float
    """count. The number of elements per token (of an expert op, per routed copy of it), before division."""
    split: Split
    """The division: "sequence" (only under sequence parallelism), "column" (by tp), "none"."""
    bytes: float = 0.0
    """B. The bytes per element; 0 means the precision of the activations."""


@dataclass(frozen=True, kw_only=True)
class TensorOp:
    """One op of a block: its shape per token, what it stores, and how parallelism divides it."""

    name: str
    kind: Kind
    split: Split = "none"
    n: int = 0
    """The output width of a GEMM."""
    k: int = 0
    """The inner width of a GEMM."""
    weight: int = 0
    """The number of parameters divided as `split` says (for an expert op: of all experts together)."""
    bias: int = 0
    """The number of parameters of a bias or norm, divided only for "column" and "vocab" (for an expert op: of all
    experts)."""
    heads: int = 0
    kv_heads: int = 0
    """The number of key and value heads, of attention and of the product that makes them: a rank has at least one of
    each."""
    head_dim: int = 0
    """The width of a query or key head."""
    value_dim: int = 0
    """The width of a value head."""
    share: float = 1.0
    """share. The tokens that it sees, over those of a sequence: below 1 in a decoder of shorter sequences."""
    key_share: float = 1.0
    """share. The keys of attention, over the tokens of a sequence."""
    causal: bool = True
    window: int = 0
    """The sliding-window length in tokens; 0 is none."""
    dropout: bool = False
    """Whether attention has dropout on the scores, which unfused attention writes out and stores."""
    read: float = 0.0
    """count. The number of elements that a memory-bound op reads per token, forward."""
    write: float = 0.0
    """count. The number of elements that a memory-bound op writes per token, forward."""
    read_back: float = 0.0
    """count. The number of elements that a memory-bound op reads per token, backward."""
    write_back: float = 0.0
    """count. The number of elements that a memory-bound op writes per token, backward."""
    saved: tuple[Saved, ...] = ()
    core: bool = False
    """Whether it is part of the attention core, which selective recomputation computes twice."""
    expert: bool = False
    """Whether it is an expert op of a mixture, which runs over routed copies of tokens, in groups of `Block.experts`.
    """
    fused: bool = True
    """Whether a fusing framework merges this memory-bound op into its neighbour (bias, activation, dropout, residual).
    """
    gradient: Gradient = "both"
    """The gradients of its backward pass: of input and weight, of the input alone (a frozen weight), or none (a frozen
    layer below all that is trained)."""
    stored_bytes: float = 0.0
    """B. The bytes of a frozen weight that is kept quantised; 0 is the plan's precision."""


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Block:
    """A layer, an embedding or a head: ops in order, repeated `count` times."""

    name: str
    ops: tuple[TensorOp, ...]
    count: int = 1
    syncs: int = 0
    """The number of tensor-parallel all-reduces in the forward pass (as many in the backward pass)."""
    experts: int = 0
    top_k: int = 0
    shared_experts: int = 0
    top_groups: int = 0
    """The number of groups of experts among which a token's are; 0: all."""
    encoder: bool = False
    """Whether it is an encoder layer: bidirectional, run before the decoder's layers."""

    @property
    def is_reached(self) -> bool:
        """Whether a gradient reaches it: whether it has a backward pass."""
        return any(op.gradient != "none" for op in self.ops)

    @property
    def parameters(self) -> int:
        """Parameters of all `count` copies."""
        return self.count * sum(op.weight + op.bias for op in self.ops)

    @property
    def largest_share(self) -> float:
        """share. The weights of the largest op over the parameters of a copy."""
        return self.count * max((op.weight for op in self.ops), default=0) / max(self.parameters, 1)


@dataclass(frozen=True, kw_only=True)
class Captured:
    """The blocks of a model that was built by a class of another library."""

    embedding: Block
    layers: tuple[Block, ...]
    head: Block


def _cost_key(block: Block) -> tuple[object, ...]:
    """The key of a layer's cost: layers with equal keys cost the same."""
    return (block.ops, block.syncs, block.experts, block.top_k, block.top_groups)


class Share(NamedTuple):
    """Parameters of one copy of a block, by their treatment under tensor parallelism."""

    replicated: float
    """kept by every rank"""
    divided: float
    kv: tuple[tuple[int, float], ...]
    """of those divided: (heads of keys and values, parameters of their projection); ranks beyond the heads repeat them"""


Weighing = Callable[[TensorOp], float]
"""how much each parameter of an op counts"""


def _share(block: Block, weighing: Weighing, *, expert: bool) -> Share:
    ops = [(op, weighing(op)) for op in block.ops if op.expert == expert]
    divided = sum(op.weight * copies for op, copies in ops if op.split not in ("none", "sequence"))
    divided += sum(op.bias * copies for op, copies in ops if op.split in ("column", "vocab"))
    heads = [(op, copies) for op, copies in ops if op.kind == "gemm" and op.kv_heads]
    return Share(
        replicated=sum((op.weight + op.bias) * copies for op, copies in ops) - divided,
        divided=divided,
        kv=tuple(
            (op.kv_heads, copies * op.kv_heads * (op.head_dim + op.value_dim) * (op.k + (op.bias > 0)))
            for op, copies in heads
        ),
    )


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Model:
    """A neural network: embedding, layers in order, head."""

    name: str
    family: str
    hidden: int
    vocab: int
    """The number of rows of the embedding table, as trained (without padding for tp)."""
    sequence: int
    """The training sequence length in tokens."""
    embedding: Block
    layers: tuple[Block, ...]
    later: tuple[Block, ...] = ()
    """The layers of multi-token prediction, after all others; the head's stage runs them."""
    head: Block
    tied_embeddings: bool = False
    """Whether the head multiplies by the embedding's table and has no weight of its own."""
    source: str = ""
    attributes: dict[str, object] = field(default_factory=dict, compare=False)
    """The specification of the model, for display."""
    assumptions: tuple[str, ...] = ()
    """The assumptions where its source says nothing."""
    doubts: tuple[str, ...] = ()
    """The parts of its source that may have been read wrongly."""
    training: str = "full"
    """The trained part: full, lora:16, qlora:16, frozen:20 (podsim/workload/finetuning.py)."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Embedding, layers, those of multi-token prediction, head."""
        return (self.embedding, *self.layers, *self.later, self.head)

    @cached_property
    def kinds(self) -> tuple[Block, ...]:
        """Embedding, each distinct kind of layer once (its count that of all its copies), `later`, head."""
        return (
            self.embedding,
            *(replace(kind, count=count) for kind, count in self._distinct.values()),
            *self.later,
            self.head,
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """For each layer, in order, the position of its kind in `kinds`."""
        positions = {key: position for position, key in enumerate(self._distinct, start=1)}
        return tuple(positions[_cost_key(block)] for block in self.layers for _ in range(block.count))

    @cached_property
    def shares(self) -> tuple[tuple[Share, Share], ...]:
        """For each of `kinds`: how tensor parallelism divides the parameters of one copy, of dense and of expert ops."""
        return self._weighed_shares(lambda op: 1)

    @cached_property
    def trained_shares(self) -> tuple[tuple[Share, Share], ...]:
        """The same of the parameters that are trained."""
        return (
            self.shares if self.training == "full" else self._weighed_shares(lambda op: op.gradient == "both")
        )

    @cached_property
    def stored_shares(self) -> tuple[tuple[Share, Share], ...]:
        """The same, a quantised parameter counted by its bytes over those of one in 16 bits."""
        return (
            self.shares
            if self.training == "full"
            else self._weighed_shares(lambda op: op.stored_bytes / 2 or 1)
        )

    def _weighed_shares(self, weighing: Weighing) -> tuple[tuple[Share, Share], ...]:
        return tuple(
            (_share(block, weighing, expert=False), _share(block, weighing, expert=True))
            for block in self.kinds
        )

    @cached_property
    def _distinct(self) -> dict[tuple[object, ...], tuple[Block, int]]:
        kinds: dict[tuple[object, ...], tuple[Block, int]] = {}
        for block in self.layers:
            kind, count = kinds.get(_cost_key(block), (block, 0))
            kinds[_cost_key(block)] = (kind, count + block.count)
        return kinds

    @property
    def ends_share_table(self) -> bool:
        """Whether the last stage needs the embedding's table: as a tied head, or for tokens further ahead."""
        return self.tied_embeddings or bool(self.later)

    @property
    def layer_count(self) -> int:
        """Number of layers, all kinds together, without those of multi-token prediction."""
        return sum(block.count for block in self.layers)

    @property
    def parameters(self) -> int:
        """Parameters, to the parameter (a tied head counted once)."""
        return sum(block.parameters for block in self.blocks)

    @property
    def trained_parameters(self) -> int:
        """Parameters that are trained: all, or what fine-tuning leaves."""
        if self.training == "full":
            return self.parameters
        ops = [(op, block.count) for block in self.blocks for op in block.ops if op.gradient == "both"]
        return sum(count * (op.weight + op.bias) for op, count in ops)

    @property
    def passes(self) -> float:
        """Products of a step over those of its forward pass: 3, or what frozen weights leave of it."""
        forward = both = 0.0
        for block in self.blocks:
            for op in block.ops:
                size = 2.0 * op.n * op.k * op.share * block.count * (block.top_k if op.expert else 1)
                if op.kind == "attention":
                    size = (
                        2.0 * op.heads * (op.head_dim + op.value_dim) * self.sequence * block.count * op.share
                    )
                forward += size
                both += (
                    size * {"both": 3, "input": 3 if op.kind == "attention" else 2, "none": 1}[op.gradient]
                )
        return both / forward if forward else 3.0

    @cached_property
    def has_experts(self) -> bool:
        """Whether some layer is a mixture of experts."""
        return any(block.experts for block in self.layers)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token passes through: top-k of the experts instead of all."""
        total = 0
        for block in self.blocks:
            for op in block.ops:
                size = op.weight + op.bias
                total += block.count * (size * block.top_k // block.experts if op.expert else size)
        return total

    def forward_flops(self, sequence: int | None = None, *, causal_half: bool = False) -> dict[str, float]:
        """FLOPs of one token's forward pass in a sequence of that length: {"gemm", "attention", "logits"}.

        A multiply and an add count two. Attention counts the full square of the sequence, as in published
        formulas; `causal_half` counts what a causal kernel has to do.
        """
        flops = {"gemm": 0.0, "attention": 0.0, "logits": 0.0}
        for block in self.blocks:
            for kind, count in self.block_flops(block, sequence, causal_half=causal_half).items():
                flops[kind] += count
        return flops

    def block_flops(
        self, block: Block, sequence: int | None = None, *, causal_half: bool = False
    ) -> dict[str, float]:
        """FLOPs of one token's forward pass through all copies of a block, as `forward_flops` counts them."""
        length = sequence or self.sequence
        flops = {"gemm": 0.0, "attention": 0.0, "logits": 0.0}
        for op in block.ops:
            copies = block.count * (block.top_k if op.expert else 1) * op.share
            if op.kind == "gemm":
                flops["logits" if op.split == "vocab" else "gemm"] += 2.0 * op.n * op.k * copies
            elif op.kind == "attention":
                keys = (min(length, op.window) if op.window else length) * op.key_share
                share = 0.5 if causal_half and op.causal else 1.0
                flops["attention"] += 2.0 * op.heads * (op.head_dim + op.value_dim) * keys * share * copies
        return flops
