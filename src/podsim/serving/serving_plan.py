"""How a language model is served: the engine, the division over GPUs, the number formats, the limits of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from operator import mul

WEIGHT_FORMATS = (
    "fp16", "bf16", "fp8", "fp8_block", "int8", "int8_wo", "int4_wo", "mxfp8", "nvfp4", "w4a16_mxfp4",
    "w4a8_mxfp4_mxfp8",
)  # fmt: skip
"""Number formats of weights: _wo ones are of weights alone, multiplied in 16 bits; int8 is that of SmoothQuant, and
mxfp4 weights are multiplied in 16 bits or with inputs in mxfp8."""
CACHE_FORMATS = ("fp16", "bf16", "fp8", "int8")
"""Number formats of keys and values."""

OWN_DRAFTS = ("", "eagle", "mtp", "ngram")
"""Drafts without a model of their own: a layer of the served model, or a look-up in the text."""


@dataclass(frozen=True, kw_only=True)
class ServingPlan:
    """One replica of a served language model, and how many there are.

    A replica has tensor x pipeline x context GPUs. Attention has its heads divided over tensor / data_attention GPUs
    and its keys over `context`; all other layers are divided over tensor x context, but experts, of which each GPU holds
    its share of whole ones if `expert` is above 1.
    """

    engine: str
    """The name of the engine in engines.toml."""
    precision: str = "fp16"
    """The number format of the weights, one of WEIGHT_FORMATS."""
    kept: tuple[str, ...] = ()
    """The beginnings of the names of ops outside experts whose weights keep 16 bits; "" is the beginning of all."""
    cache: str = "fp16"
    """The number format of keys and values, one of CACHE_FORMATS."""
    tensor: int = 1
    """count. The GPUs over which each layer is divided."""
    pipeline: int = 1
    """count. The stages of layers."""
    expert: int = 1
    """count. The GPUs of a stage over which whole experts are dealt; the rest of the stage's degree divides each."""
    context: int = 1
    """count. The GPUs over which the keys of a sequence are divided."""
    data_attention: int = 1
    """count. The groups of a stage that each do the attention of their own sequences."""
    replicas: int = 1
    """count. The copies of all that."""
    block_tokens: int = 0
    """count. The tokens of a block of the paged cache; 0 is the engine's."""
    max_batch: int = 0
    """count. The most sequences of a replica in one step; 0 is the engine's."""
    max_batched_tokens: int = 0
    """count. The most tokens of one step; 0 is the engine's."""
    graph_tokens: int = 0
    """count. The most tokens of a decoding step that is one graph; 0 is the engine's."""
    chunked_prefill: bool = True
    """Whether a prompt may be split over steps, and share them with decoding sequences."""
    prefix_share: float = 0.0
    """share. The tokens of a prompt whose keys and values are in the prefix cache."""
    draft_tokens: int = 0
    """count. The tokens that a draft proposes for one step of speculative decoding; 0 is none."""
    acceptance: float = 0.7
    """share. The probability that a drafted token is accepted, if all before it are."""
    acceptances: tuple[float, ...] = ()
    """share. The same by depth, where it falls with it; the last goes on."""
    draft: str = ""
    """The name of the draft model; "" is a layer of the model itself (EAGLE, MTP), "ngram" a look-up."""
    memory_share: float = 0.0
    """share. The GPU memory that the engine may use; 0 is the engine's own."""

    def is_quantised(self, op: str, *, is_expert: bool = False) -> bool:
        """Whether the weights of a product have the plan's format, not 16 bits."""
        return op != "moe.router" and (is_expert or not op.startswith(self.kept or "\n"))

    @property
    def layer_degree(self) -> int:
        """count. The GPUs over which a layer outside attention is divided."""
        return self.tensor * self.context

    @property
    def attention_degree(self) -> int:
        """count. The GPUs over which the heads of a sequence are divided."""
        return self.tensor // self.data_attention

    @property
    def gpus(self) -> int:
        """count. The GPUs of a replica."""
        return self.tensor * self.pipeline * self.context

    @property
    def accepted_tokens(self) -> float:
        """count. The mean number of tokens of a sequence that one step gives.

        With acceptances a1, a2, … by depth, 1 + a1 + a1 a2 + …; with one for all depths that is
        (1 - a^(d + 1)) / (1 - a): Leviathan et al. 2023, arXiv 2211.17192.
        """
        given: list[float] = list(accumulate(self.draft_acceptances[: self.draft_tokens], mul))
        return 1.0 + sum(given)

    @property
    def draft_acceptances(self) -> tuple[float, ...]:
        """share. The acceptance of each drafted token, by depth."""
        given = self.acceptances or (self.acceptance,)
        return given + given[-1:] * max(self.draft_tokens - len(given), 0)
