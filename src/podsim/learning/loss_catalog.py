"""Laws of the loss by name: published ones (loss_laws.toml), podsim's own (own_laws.json), and files that a fit saved."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.losses import FittedRange
from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import finite, read_text
from podsim.learning.loss_law import NAMES, LossLaw
from podsim.packaged import packaged_toml
from podsim.version import check_format
from podsim.whole_files import write_whole

OWN = "podsim"
"""The law that is taken where none is named."""
_FORMAT = "podsim-loss-law"
_LIMIT = 4_000_000


@dataclass(frozen=True, kw_only=True)
class Power:
    """A product of powers: factor x parameters^a x tokens^b x FLOPs^c."""

    factor: float
    """SI. The value where everything is 1."""
    parameters: float = 0.0
    """factor. The exponent of the parameters."""
    tokens: float = 0.0
    """factor. The exponent of the tokens."""
    compute: float = 0.0
    """factor. The exponent of the FLOPs of training."""

    def value(self, parameters: float, tokens: float) -> float:
        """SI. The value for a run."""
        compute = 6.0 * parameters * tokens
        powers = parameters**self.parameters * tokens**self.tokens * compute**self.compute
        return float(self.factor * powers)


@dataclass(frozen=True, kw_only=True)
class NamedLaw:
    """What a publication says of the loss, of the best size, of the learning rate and the batch; None: nothing."""

    name: str
    title: str
    source: str
    counts: str
    loss: LossLaw | None = None
    allocation: tuple[float, float] | None = None
    """SI. The parameters that are best for 1 FLOP, and the exponent of the FLOPs."""
    rate: Power | None = None
    """The best learning rate."""
    batch: Power | None = None
    """The best batch in tokens."""
    note: str = ""

    def best_parameters(self, flops: float) -> float | None:
        """count. The parameters that this law advises for some FLOPs of training; None if it advises none."""
        if self.allocation is not None:
            return float(self.allocation[0] * flops ** self.allocation[1])
        return None if self.loss is None else float(self.loss.optimum(flops)[0])


@cache
def named_laws() -> Mapping[str, NamedLaw]:
    """All named laws, podsim's own first."""
    own = read_law_text(files(__package__).joinpath("own_laws.json").read_text("utf-8"), OWN)
    first = NamedLaw(
        name=OWN, title=f"fitted to {own.source}", source="docs/scaling.md", counts=own.counts, loss=own
    )
    return {OWN: first} | {
        name: _named(name, entry) for name, entry in packaged_toml("learning/loss_laws.toml").items()
    }


def _named(name: str, entry: Mapping[str, Any]) -> NamedLaw:
    constants = entry.get("loss")
    allocation = entry.get("allocation")
    return NamedLaw(
        name=name, title=entry["title"], source=entry["source"], counts=entry["counts"],
        loss=None if constants is None else LossLaw(
            name=name, form="coupled" if "coupling" in constants else "additive",
            constants={"coupling": 1.0, **constants}, counts=entry["counts"], source=entry["source"],
        ),
        allocation=None if allocation is None else (allocation["factor"], allocation["exponent"]),
        rate=Power(**entry["rate"]) if "rate" in entry else None,
        batch=Power(**entry["batch"]) if "batch" in entry else None,
        note=entry.get("note", ""),
    )  # fmt: skip


def find_law(name: str) -> LossLaw:
    """The law of the loss with a name, or from a file of `podsim scale fit --save`. Raises PodsimError for another."""
    name = name or OWN
    laws = {key: law.loss for key, law in named_laws().items()}
    if name in laws:
        law = laws[name]
        if law is None:
            known = ", ".join(key for key, each in laws.items() if each is not None)
            raise PodsimError(f"{name} states no law of the loss; {known} do")
        return law
    path = Path(name)
    if path.suffix == ".json" or path.exists():
        return read_law(path)
    raise PodsimError(f"{unknown_name('law', name, laws)}; or a file that `podsim scale fit --save` wrote")


def write_law(path: Path, law: LossLaw) -> None:
    """Write a law as JSON. Raises OSError."""
    write_whole(path, law_text(law))


def law_text(law: LossLaw) -> str:
    """The JSON of a law."""
    content = {"format": _FORMAT, "version": 1, **asdict(law)}
    content["draws"] = [[float(f"{value:.7g}") for value in draw] for draw in law.draws]
    content["covariance"] = [[float(f"{value:.5g}") for value in row] for row in law.covariance]
    return json.dumps(content, allow_nan=False, indent=1) + "\n"


def read_law(path: Path) -> LossLaw:
    """The law of a file. Raises PodsimError for a file that holds none."""
    text = read_text(path, most=_LIMIT, error=PodsimError, hint="no law is", is_lenient=True)
    return read_law_text(text, path.name)


def read_law_text(text: str, name: str) -> LossLaw:
    """The law of a text. Raises PodsimError, which names it, for a text that holds none."""
    try:
        content = json.loads(text)
        if content.pop("format") != _FORMAT:
            raise ValueError
        check_format(content.pop("version"), 1, name=name[-80:], error=PodsimError)
        fitted = content.pop("fitted")
        ranged = None if fitted is None else FittedRange(
            runs=int(fitted["runs"]), parameters=_pair(fitted["parameters"]), tokens=_pair(fitted["tokens"]),
            compute=_finite(fitted["compute"]),
        )  # fmt: skip
        law = LossLaw(
            **{
                **content,
                "fitted": ranged,
                "constants": {str(key): _finite(value) for key, value in content["constants"].items()},
                "draws": _rows(content["draws"]),
                "covariance": _rows(content["covariance"]),
                "scatter": _finite(content["scatter"]),
                "drift": _finite(content["drift"]),
                "climb": _finite(content["climb"]),
                "notes": tuple(map(str, content["notes"])),
            }
        )
        assert all(name in law.constants for name in NAMES)
        assert np.isfinite(law.coordinates).all()
        with np.errstate(all="ignore"):
            assert math.isfinite(float(law.loss(1e9, 2e10)))
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError, RecursionError) as problem:
        if isinstance(problem, PodsimError):
            raise
        raise PodsimError(
            f"{name[-80:]}: holds no law; expected what `podsim scale fit --save` writes"
        ) from None
    return law


def _rows(rows: Any) -> tuple[tuple[float, ...], ...]:
    """Rows of as many numbers as there are coordinates."""
    table = tuple(tuple(_finite(value) for value in row) for row in rows)
    if any(len(row) != len(NAMES) for row in table):
        raise ValueError
    return table


def _pair(values: Any) -> tuple[float, float]:
    low, high = values
    return _finite(low), _finite(high)


def _finite(value: Any) -> float:
    """A finite number of a file."""
    number = None if isinstance(value, str) else finite(value)
    if number is None:
        raise ValueError
    return number
