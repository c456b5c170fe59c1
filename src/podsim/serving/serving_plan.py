"""How a language model is served: the engine, the division over GPUs, the number formats, the limits of a batch."""

from __future__ import annotations

from dataclasses import dataclass

WEIGHT_FORMATS = ("fp16", "bf16", "fp8", "fp8_block", "int8", "int8_wo", "int4_wo", "mxfp8", "nvfp4")
"""Number formats of weights: _wo ones are of weights alone, multiplied in 16 bits; int8 is that of SmoothQuant."""
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
    chunked_prefill: bool = True
    """Whether a prompt may be split over steps, and share them with decoding sequences."""
    prefix_share: float = 0.0
    """share. The tokens of a prompt whose keys and values are in the prefix cache."""
    draft_tokens: int = 0
    """count. The tokens that a draft proposes for one step of speculative decoding; 0 is none."""
    acceptance: float = 0.7
    """share. The probability that a drafted token is accepted, if all before it are."""
    draft: str = ""
    """The name of the draft model; "" is a layer of the model itself (EAGLE, MTP), "ngram" a look-up."""
    memory_share: float = 0.0
    """share. The GPU memory that the engine may use; 0 is the engine's own."""

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

        With acceptance a and d drafted tokens, (1 - a^(d + 1)) / (1 - a): Leviathan et al. 2023, arXiv 2211.17192.
        """
        if self.acceptance >= 1:
            return self.draft_tokens + 1.0
        return (1 - self.acceptance ** (self.draft_tokens + 1)) / (1 - self.acceptance)
