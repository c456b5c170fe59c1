"""What frameworks of an era may lack, each as values that a field of a plan cannot take there.

A search leaves them out unless they are asked for by name; a plan that uses one is predicted with a warning, as the
question "what would it have brought?" is a fair one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from podsim.training.plan import Array, Plan, Recompute
from podsim.training.software import Software


@dataclass(frozen=True, kw_only=True)
class Ability:
    """Something that a framework has or lacks."""

    field: str
    """of a plan"""
    uses: Callable[[Any], Any]
    """where values of the field need it"""
    title: str


def _more(number: Any) -> Any:
    return np.asarray(number) > 1


def _is(value: int) -> Callable[[Any], Any]:
    return lambda values: np.asarray(values) == value


ABILITIES = {
    "tensor": Ability(field="tp", uses=_more, title="tensor parallelism"),
    "pipeline": Ability(field="pp", uses=_more, title="pipeline parallelism"),
    "interleaving": Ability(field="virtual_stages", uses=_more, title="interleaved stages"),
    "context": Ability(field="cp", uses=_more, title="context parallelism"),
    "experts": Ability(field="ep", uses=_more, title="expert parallelism"),
    "sequence": Ability(field="sequence_parallel", uses=_is(True), title="sequence parallelism"),
    "selective": Ability(field="recompute", uses=_is(Recompute.SELECTIVE), title="selective recomputation"),
    "partial": Ability(
        field="recompute_layers", uses=lambda v: np.asarray(v) > 0, title="recomputation of some layers"
    ),
    "flash": Ability(field="flash", uses=_is(True), title="flash attention"),
    "zero-1": Ability(field="zero", uses=_is(1), title="ZeRO 1"),
    "zero-2": Ability(field="zero", uses=_is(2), title="ZeRO 2"),
    "zero-3": Ability(field="zero", uses=_is(3), title="ZeRO 3"),
}
"""name, as an entry of software.toml lists it under `lacks`, to what it is"""


def available(field: str, values: Array, software: Software) -> Array:
    """(…,) bool: which values of a plan's field the framework has."""
    has = np.ones(values.shape, dtype=bool)
    for name in software.lacks:
        if ABILITIES[name].field == field:
            has &= ~ABILITIES[name].uses(values)
    return has


def beyond(plan: Plan, software: Software) -> tuple[str, ...]:
    """Titles of what one plan uses and its framework lacks."""
    found = (ABILITIES[name] for name in software.lacks)
    return tuple(one.title for one in found if bool(one.uses(getattr(plan, one.field))))
