"""Requests as columns: when they arrive, their tokens, the prefixes that they share, when their clients give up."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError

LONGEST = 1 << 24
"""tokens of the longest prompt or answer"""
MOST = 50_000_000
"""requests of the largest table"""
_NO_INTS = np.zeros(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class RequestTable:
    """Requests in the order of their arrival: one entry a request in each column.

    Columns that are left out say: no shared prefix, one model, no adapter.

    The prompt of request k begins with the blocks `prefix_ids[prefix_first[k] : prefix_first[k + 1]]`, of `prefix_tokens`
    tokens each. Equal leading ids mean an equal beginning, as in the traces of Mooncake.
    """

    arrival: Floats
    """s. The arrivals since the start, ascending."""
    input_tokens: Ints
    """The tokens of the prompts."""
    output_tokens: Ints
    """The tokens of the answers, at least 1."""
    prefix_ids: Ints = field(default_factory=lambda: _NO_INTS)
    """The ids of the prompts' blocks, request after request."""
    prefix_first: Ints = field(default_factory=lambda: _NO_INTS)
    """The position of each request's first id, and the number of ids; empty without shared prefixes."""
    prefix_tokens: int = 512
    """The tokens of a block of a prefix."""
    model: Ints = field(default_factory=lambda: _NO_INTS)
    """The number of the model that is asked; empty: the first."""
    adapter: Ints = field(default_factory=lambda: _NO_INTS)
    """The number of the LoRA adapter, -1 for none; empty: none."""
    patience: Floats = field(default_factory=lambda: np.zeros(0))
    """s. The time after which a client gives up, infinity for never; empty: never."""
    source: str = ""
    """The trace or the distribution, in words."""

    def __post_init__(self) -> None:
        """Raise PodsimError with all that makes no sense, and the first request that shows it."""
        if problems := [problem for problem in self._problems() if problem]:
            name = f"{self.source[-80:]}: " if self.source else ""
            raise PodsimError(f"{name}{'; '.join(problems)}")

    def __len__(self) -> int:
        """The number of requests."""
        return len(self.arrival)

    def first(self, count: int) -> RequestTable:
        """The first requests."""
        count = min(count, len(self))
        ids = self.prefix_ids[: self.prefix_first[count]] if len(self.prefix_first) else self.prefix_ids
        columns = ("arrival", "input_tokens", "output_tokens", "model", "adapter", "patience")
        cut = {name: getattr(self, name)[:count] for name in columns}
        return replace(self, **cut, prefix_ids=ids, prefix_first=self.prefix_first[: count + 1])

    def _problems(self) -> list[str]:
        count, ends = len(self.arrival), self.prefix_first
        if not 1 <= count <= MOST:
            return [f"{count:,} requests; 1 to {MOST:,} can be served"]
        columns: dict[str, NDArray[Any]] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        optional = {"model": self.model, "adapter": self.adapter, "patience": self.patience}
        columns |= {name: column for name, column in optional.items() if len(column)}
        short = [
            f"{name} has {len(each):,} of {count:,}" for name, each in columns.items() if len(each) != count
        ]
        if len(ends) and (len(ends) != count + 1 or ends[0] != 0 or ends[-1] != len(self.prefix_ids)):
            short.append(
                "prefix_first must go from 0 to the number of ids, with one more entry than requests"
            )
        if short:
            return short
        times = self.arrival
        steps = np.diff(times, prepend=times[:1])
        problems = [
            _first_bad(~np.isfinite(times) | (times < 0), times, "arrival", "it must be 0 s or later"),
            _first_bad(steps < 0, times, "arrival", "before the one above it; sort the requests by time"),
            *(
                _first_bad((each < 1) | (each > LONGEST), each, name, f"1 to {LONGEST:,} can be served")
                for name, each in (("input_tokens", self.input_tokens), ("output_tokens", self.output_tokens))
            ),
            _first_bad(~(self.patience > 0), self.patience, "patience", "it must be above 0 s"),
            _first_bad(self.model < 0, self.model, "model", "models count from 0"),
            _first_bad(np.diff(ends) < 0, ends[1:], "prefix_first", "it must ascend"),
        ]
        return problems if self.prefix_tokens >= 1 else [*problems, f"prefix_tokens={self.prefix_tokens}"]


def _first_bad(bad: NDArray[np.bool_], column: NDArray[np.generic], name: str, rule: str) -> str:
    """A line for the first request that breaks a rule; empty if none does."""
    if not bad.any():
        return ""
    row = int(np.argmax(bad))
    return f"request {row + 1}: {name}={column[row]}; {rule}"
