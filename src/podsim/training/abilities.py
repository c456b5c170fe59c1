"""What frameworks lack: parts of plans that an entry of `software.toml` names under `lacks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools
from podsim.records import dataclass
from podsim.training.plan_values import PlanValues, Recompute
from podsim.training.software import Software


@dataclass(frozen=True, kw_only=True)
class Ability:
    """Something that a framework has or lacks."""

    field: str
    """The field of a plan that uses it."""
    uses: Callable[[Any], Any]
    """Whether values of the field need it."""
    title: str


def _is_several(number: Any) -> Any:
    return np.asarray(number) > 1


def _is_value(value: int) -> Callable[[Any], Any]:
    return lambda values: np.asarray(values) == value


ABILITIES = {
    "tensor": Ability(field="tp", uses=_is_several, title="tensor parallelism"),
    "pipeline": Ability(field="pp", uses=_is_several, title="pipeline parallelism"),
    "interleaving": Ability(field="virtual_stages", uses=_is_several, title="interleaved stages"),
    "context": Ability(field="cp", uses=_is_several, title="context parallelism"),
    "experts": Ability(field="ep", uses=_is_several, title="expert parallelism"),
    "sequence": Ability(field="sequence_parallel", uses=_is_value(True), title="sequence parallelism"),
    "selective": Ability(
        field="recompute", uses=_is_value(Recompute.SELECTIVE), title="selective recomputation"
    ),
    "partial": Ability(
        field="recompute_layers", uses=lambda v: np.asarray(v) > 0, title="recomputation of some layers"
    ),
    "flash": Ability(field="flash", uses=_is_value(True), title="flash attention"),
    "zero-1": Ability(field="zero", uses=_is_value(1), title="ZeRO 1"),
    "zero-2": Ability(field="zero", uses=_is_value(2), title="ZeRO 2"),
    "zero-3": Ability(field="zero", uses=_is_value(3), title="ZeRO 3"),
}
"""The abilities by name, as an entry of software.toml lists them under `lacks`."""


def is_available(field: str, values: NDArray[Any], software: Software) -> Bools:
    """Whether the framework has each value of a plan's field."""
    has = np.ones(values.shape, dtype=bool)
    for name in software.lacks:
        if ABILITIES[name].field == field:
            has &= ~ABILITIES[name].uses(values)
    return has


def lacking_titles(plan: PlanValues, software: Software) -> tuple[str, ...]:
    """Titles of what one plan uses and its framework lacks."""
    lacking = (ABILITIES[name] for name in software.lacks)
    return tuple(ability.title for ability in lacking if bool(ability.uses(getattr(plan, ability.field))))
