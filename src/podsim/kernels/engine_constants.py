"""Constants of the laws of engines' kernels: by law, architecture of the GPU, engine, kernel and number formats.

They stand in hardware/catalog/engines, one file a law; reference/fit_engines.py writes them. A kernel that was not
measured takes the constants of the nearest one of its engine on the same architecture, else of the other engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from podsim.errors import PodsimError
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_run import EngineRun
from podsim.packaged import packaged_toml

LAWS = ("prefill", "decode", "mla-prefill", "mla-decode", "moe", "all-reduce")
"""The laws with constants of their own."""


@dataclass(frozen=True, kw_only=True)
class EngineConstants:
    """Constants of one law for one kernel on one architecture."""

    values: Mapping[str, float]
    key: str
    """The kernel and number formats that they were fitted to, such as "trtllm/torch_flow/bf16/fp8"."""
    architecture: str
    sources: tuple[str, ...]
    """The raw tables that they were fitted to."""


def engine_key(run: EngineRun, family: str = "") -> str:
    """The text that names a kernel among the constants of a law."""
    return "/".join(part for part in (run.engine, run.kernel, run.precision, run.cache, family) if part)


def engine_file(law: str) -> Mapping[str, Any]:
    """The constants of a law as its file holds them."""
    return packaged_toml(f"hardware/catalog/engines/{law}.toml")


def engine_constants(law: str, gpu: Gpu, run: EngineRun, family: str = "") -> EngineConstants:
    """The constants of a law for a kernel on a GPU: its own, or those of the most similar kernel.

    Raises PodsimError for an architecture on which no kernel of this law was measured.
    """
    known = engine_file(law)["architecture"]
    if gpu.architecture not in known:
        raise PodsimError(
            f"{law} was measured on {', '.join(known)} GPUs only; {gpu.name} is {gpu.architecture}"
        )
    return _nearest_constants(law, gpu.architecture, engine_key(run, family))


@lru_cache(maxsize=1024)
def _nearest_constants(law: str, architecture: str, wanted: str) -> EngineConstants:
    """The constants of the kernel that is most like the wanted one."""
    entries = engine_file(law)["architecture"][architecture]
    key = max(entries, key=lambda key: _likeness(key, wanted))
    entry = entries[key]
    values = {name: float(value) for name, value in entry.items() if name != "evidence"}
    sources = tuple(entry["evidence"]["sources"])
    return EngineConstants(values=values, key=key, architecture=architecture, sources=sources)


def _likeness(key: str, wanted: str) -> tuple[float, ...]:
    """How alike two kernels are: the engine counts first, then the family, the formats, and the kernel's name."""
    ours, theirs = key.split("/"), wanted.split("/")
    formats = len(set(ours[2:]) & set(theirs[2:])) - 0.1 * len(set(ours[2:]) ^ set(theirs[2:]))
    name = SequenceMatcher(None, ours[1], theirs[1]).ratio() / 2 if len(theirs) > 1 else 0.0
    same = float(len(theirs) > 1 and ours[1] == theirs[1])
    return (float(ours[0] == theirs[0]), float(ours[-1] == theirs[-1]), formats, same + name)
