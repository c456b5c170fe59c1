"""The comparable rows of a run, and the errors of their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

OWN_MOST = 0.5
"""share of the processors above which ranks wait for cores, not for links"""
OTHERS_MOST = 0.1
"""share of the processors above which other programs make a run not comparable"""
COMPARABLE = "comparable"


class Compared(Protocol):
    """A row of a comparison."""

    @property
    def difference(self) -> float: ...  # noqa: D102
    @property
    def verdict(self) -> str: ...  # noqa: D102


def verdict_of(reasons: Mapping[str, bool]) -> str:
    """Whether a row says anything of what is compared, by the first reason against it that holds."""
    first = next((reason for reason, holds in reasons.items() if holds), "")
    return f"{first}, not comparable" if first else COMPARABLE


def is_busy(backend: str, own: float, others: float) -> bool:
    """Whether ranks waited for processors: on GPUs they do not, though a core that waits for one looks busy."""
    return backend == "gloo" and (own > OWN_MOST or others > OTHERS_MOST)


def errors_of(rows: Sequence[Compared]) -> tuple[float | None, float | None]:
    """(mean, largest) share that predictions of comparable rows are off; None where no row is comparable."""
    errors = [abs(row.difference) for row in rows if row.verdict == COMPARABLE]
    return (sum(errors) / len(errors), max(errors)) if errors else (None, None)
