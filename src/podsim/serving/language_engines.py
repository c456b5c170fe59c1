"""Inference engines of language models: what one adds to its kernels, and its defaults (`language_engines.toml`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podsim.errors import CatalogError, unknown_name
from podsim.hardware.parts import Gpu
from podsim.packaged import packaged_toml

_GIB = 2.0**30
_YEAR = re.compile(r"-(20\d\d|\d+\.\d+)$")
"""what an entry of older releases adds to the name of its engine"""
_RELEASED = re.compile(r"([a-z-]+?)[-=:@]*v?(\d+(?:\.\d+)+)[a-z0-9.]*")


@dataclass(frozen=True, kw_only=True)
class LanguageEngine:
    """One inference engine of language models."""

    name: str
    title: str
    source: str
    """The source of its defaults."""
    evidence: str
    """The evidence for its kernels and its host time."""
    kernels: str
    """The engine whose measured kernels it runs: trtllm or vllm."""
    latent: str = ""
    """The engine whose kernels of latent attention it runs; "" is `kernels`."""
    experts: Mapping[str, str] = field(default_factory=dict)
    """The architecture and format, as hopper/fp8_block -> engine/kernel[/format] of its experts, as in moe.toml."""
    sums: str
    """The name of its all-reduce among the measured ones; "" for NCCL's."""
    step: float
    """s. The time of a step in which the GPU waits for the host."""
    request: float
    """s. The same of each sequence of a step."""
    front: float = 0.0
    """s. The time of a request outside the scheduler: HTTP, tokenizer, the way back of its first token."""
    plans_ahead: bool = False
    """Whether it plans a step while the one before it runs."""
    block_tokens: int
    """count. The tokens of a block of its paged cache."""
    max_batch: int
    """count. The most sequences of a step."""
    max_batched_tokens: int
    """count. The most tokens of a step."""
    memory_share: float
    """share. The GPU memory that it uses by default."""
    memory: float
    """B. The memory of CUDA's context, libraries and graphs."""
    launch: float
    """s. The host's time for one kernel that is launched by itself."""
    attention_launches: float
    """count. The kernels of a layer's attention that are launched by themselves in a prompt's step."""
    graph_tokens: int = 512
    """count. The most tokens of a step that is one graph, if all of them are of decoding sequences."""
    graphs_prompts: bool = False
    """Whether the other kernels of a prompt's step are in graphs."""
    quantises_prompts: bool = False
    """Whether a kernel of its own quantises the input of each product of prompts."""
    limits_groups: bool = False
    """Whether limits of a step are those of each group of data-parallel attention, not of all."""
    spares_activations: bool = False
    """Whether activations lie beside the share of memory that weights and cache use."""
    is_share_of_free: bool = False
    """Whether that share is of the memory that weights leave, and only the cache's."""
    cache_follows: tuple[str, ...] = ()
    """The formats of weights with which keys and values are in fp8 by default."""
    also: tuple[str, ...] = ()
    """The other names that users give it."""
    grouped_caches: tuple[str, ...] = ()
    """The formats of keys and values in which the heads of a group share one walk over the keys; () for all."""
    grouped_width: int = 0
    """count. The head width with which they do; 0 for all."""

    def shares_keys(self, cache: str, head_dim: float) -> bool:
        """Whether the heads of a group share one walk over the keys in a decoding step."""
        is_format = not self.grouped_caches or cache in self.grouped_caches
        return is_format and self.grouped_width in (0, head_dim)


def _tables() -> dict[str, dict[str, Any]]:
    return packaged_toml("serving/language_engines.toml")


def language_engine_names() -> tuple[str, ...]:
    """Names of the engines, the default first."""
    return tuple(_tables())


def _engine_key(name: str) -> str:
    """The entry of a name, with or without a release: "vLLM 0.33.0", "tensorrt-llm==0.5.0"; CatalogError for another."""
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    release = ""
    if match := _RELEASED.fullmatch(wanted):
        wanted, release = match.groups()
    key = next((key for key, table in _tables().items() if wanted in (key, *table["also"])), None)
    if key is None:
        raise CatalogError(unknown_name("engine", name[:40], _tables()))
    older = {
        _numbers(table["before"]): other
        for other, table in _tables().items()
        if release and table.get("of") == key and _numbers(release) < _numbers(table["before"])
    }
    return older[min(older)] if older else key


def _inherited(key: str) -> dict[str, Any]:
    """The table of an engine; one of older releases has what it does not say from the present one."""
    table = _tables()[key]
    return {**(_tables()[table["of"]] if "of" in table else {}), **table}


def _numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, to compare them."""
    return tuple(int(part) for part in release.split(".") if len(part) < 6)


def engine_family(name: str) -> str:
    """The engine of a release: tensorrt-llm of tensorrt-llm-2023."""
    return _YEAR.sub("", name)


def older_releases(name: str, gpu: Gpu) -> tuple[tuple[str, LanguageEngine], ...]:
    """(the release before which it ran, an older entry) of the engine of that name."""
    return tuple(
        (table["before"], load_language_engine(other, gpu))
        for other, table in _tables().items()
        if table.get("of") == name
    )


def load_language_engine(name: str, gpu: Gpu) -> LanguageEngine:
    """The engine of that name with its limits on a GPU. Raises CatalogError for an unknown name."""
    key = _engine_key(name)
    table = {name: value for name, value in _inherited(key).items() if name not in ("of", "before")}
    small, large = (table.pop(size, {}) for size in ("small", "large"))
    of_architectures = {name: table.pop(name) for name in tuple(table) if name in ("cdna3", "cdna4")}
    table |= of_architectures.get(gpu.architecture, {})
    table["launch"] = (
        table["launch"].get(gpu.name) or table["launch"].get(gpu.architecture) or table["launch"]["other"]
    )
    if gpu.memory < 70 * _GIB or gpu.architecture in ("volta", "turing", "ampere"):
        table |= small
    elif gpu.memory >= 140e9:
        table |= large
    table |= {name: tuple(table.get(name, ())) for name in ("also", "cache_follows", "grouped_caches")}
    return LanguageEngine(name=key, **table)
