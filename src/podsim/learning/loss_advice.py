"""What a law of the loss says of some runs: losses with bands, the best size for some compute, and remarks in words."""

from __future__ import annotations

from podsim.answers.losses import AdvisedSize, LossPoint
from podsim.learning.loss_law import Array, LossLaw
from podsim.units import format_quantity

_UNTRAINED = 10.4
"""nat. The loss of a network that knows nothing of 32,000 tokens, ln(32,000)"""


def loss_points(
    law: LossLaw, parameters: Array, tokens: Array, unique: Array | None = None
) -> tuple[LossPoint, ...]:
    """What a law says of some runs."""
    band = law.band(parameters, tokens, unique)
    columns = (parameters, tokens, band.loss, band.low, band.high)
    return tuple(
        LossPoint(parameters=size, tokens=count, loss=loss, low=low, high=high)
        for size, count, loss, low, high in zip(*(column.tolist() for column in columns), strict=True)
    )


def advised(law: LossLaw, flops: float) -> AdvisedSize:
    """The best size for some compute, with its loss."""
    parameters, tokens = law.optimum(flops)
    band = law.band(parameters, tokens)
    return AdvisedSize(
        flops=flops, parameters=float(parameters), tokens=float(tokens), loss=float(band.loss), low=float(band.low),
        high=float(band.high),
    )  # fmt: skip


def repetition_notes(law: LossLaw, tokens: float, unique: float) -> list[str]:
    """What is said of tokens that repeat."""
    if unique >= tokens:
        return []
    source = "" if "repeat" in law.constants else "; how fast they lose it is of Muennighoff et al. 2023"
    _, useful = law.effective(1.0, tokens, unique)
    return [
        f"{tokens / unique:.3g} passes over the unique tokens are worth {format_quantity(float(useful), '', digits=3)} "
        f"tokens: repeated ones lose value{source}"
    ]


def untold_notes(loss: float) -> list[str]:
    """What is said of a loss that no network has."""
    text = f"{loss:.3g} nats are more than an untrained network loses, about {_UNTRAINED:g}: too few tokens for the law"
    return [text] if loss > _UNTRAINED else []


def range_notes(law: LossLaw, parameters: float, tokens: float) -> list[str]:
    """What is said of a run outside the range that a law was fitted to."""
    if law.fitted is None:
        return ["the source states no fitted range and no covariance, so there is no band"]
    outside = []
    for what, value, (low, high) in (
        ("parameters", parameters, law.fitted.parameters), ("tokens", tokens, law.fitted.tokens),
    ):  # fmt: skip
        if not low <= value <= high:
            far, end, side = (value / high, high, "above") if value > high else (low / value, low, "below")
            outside.append(f"{far:.3g} times {side} {format_quantity(end, '', digits=3)} {what}")
    return (
        [f"extrapolated: {' and '.join(outside)}, the end of the fitted range; the band widens"]
        if outside
        else []
    )
