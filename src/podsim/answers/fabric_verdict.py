"""What measured collectives say of a fabric: whether it reaches what its class does, and what would explain it."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.records import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A setting or fault with which the law comes near the measurements."""

    fault: str
    words: str
    """The fault, in words."""
    misfit: float
    """share. The typical distance of the law under this fault from the measurements: 0.1 is 10 %, either way."""
    bias: float
    """share. The median of predicted over measured seconds, less 1."""
    is_stated: bool = False
    """Whether the log itself states it."""


@dataclass(frozen=True, kw_only=True)
class FabricVerdict:
    """A fabric, judged by collectives between nodes."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of NCCL that the judgement rests on, by name, in words."""
    assumed: tuple[str, ...] = ()
    """The names of the settings that the log did not state."""
    is_broken: bool = False
    """Whether collectives take longer by far than on other fabrics of the class."""
    slowdown: float = 1.0
    """factor. The measured over the expected seconds, in the decade of size where it is largest."""
    size: float = 0.0
    """B. The least size of that decade; 0 if no row is large enough for a judgement."""
    misfit: float = 0.0
    """share. The typical distance of the law as it is from the measurements."""
    explanations: tuple[Explanation, ...] = ()
    """The faults that explain the measurements better than none, the best first; of a broken fabric only."""
