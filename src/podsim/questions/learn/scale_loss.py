"""`podsim scale loss` and `podsim scale laws`: the loss of a network by its tokens, and what named laws advise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from podsim.answers.scaling_answers import LawAdvice, LossPoint, ScaleLaws, ScaleLoss
from podsim.errors import PodsimError, UnitError
from podsim.learning.loss_catalog import OWN, find_law, named_laws
from podsim.learning.loss_law import LossLaw
from podsim.options.question import question
from podsim.options.scale_options import ScaleLawsOptions, ScaleLossOptions
from podsim.questions.learn.scale_fit import advised, loss_points
from podsim.units import format_quantity
from podsim.workload.catalog import load_model, load_specification

_UNTRAINED = 10.4
"""nat. The loss of a network that knows nothing of 32,000 tokens, ln(32,000)"""
_COUNT = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


@question(ScaleLossOptions)
def scale_loss(options: ScaleLossOptions) -> ScaleLoss:
    """The loss of a model after some tokens, its band, and the size that would have been best for the same compute.

    Outside the range that the law was fitted to, the band widens, and a note says how far. Raises PodsimError for an
    unknown law, model or number, and ModelError for a model that cannot be read.
    """
    law = find_law(options.law)
    name, parameters, remarks = network_size(options.model, law)
    tokens = _tokens(options, law, parameters)
    unique = None if options.unique_tokens is None else read_count(options.unique_tokens, "unique_tokens")
    if unique is not None:
        remarks += repetition_notes(law, tokens, unique)
    band = law.band(parameters, tokens, unique)
    flops = 6.0 * parameters * tokens
    laws = named_laws()
    others = {
        key: float(each.loss.loss(parameters, tokens))
        for key, each in laws.items()
        if each.loss and key != law.name
    }
    return ScaleLoss(
        model=name, law=law, parameters=parameters, tokens=tokens, loss=float(band.loss), low=float(band.low),
        high=float(band.high), flops=flops, curves=_curves(law, parameters, tokens, unique), best=advised(law, flops),
        unique=unique, others=others, rate={key: each.rate.value(parameters, tokens) for key, each in laws.items() if
        each.rate}, batch={key: each.batch.value(parameters, tokens) for key, each in laws.items() if each.batch},
        notes=(*remarks, *untold_notes(float(band.loss)), *range_notes(law, parameters, tokens)),
    )  # fmt: skip


def _curves(law: LossLaw, parameters: float, tokens: float, unique: float | None) -> tuple[LossPoint, ...]:
    """The losses around a run: by tokens, then by parameters."""
    factors, same = np.geomspace(1 / 30, 30, 31), np.ones(31)
    every = np.concatenate([tokens * factors, tokens * same])
    sizes = np.concatenate([parameters * same, parameters * factors])
    return loss_points(law, sizes, every, None if unique is None else np.minimum(unique, every))


def _tokens(options: ScaleLossOptions, law: LossLaw, parameters: float) -> float:
    """The tokens that were given, or those that reach the target. PodsimError for a target that no tokens reach."""
    if (options.tokens is None) == (options.target is None):
        raise PodsimError("give --tokens, as 15T, or --target LOSS, one of them").offer(tokens="15T")
    if options.target is None:
        return read_count(options.tokens or "", "tokens")
    least = float(law.loss(parameters, 1e30))
    tokens = law.tokens_for(options.target, parameters)
    if not 1 <= tokens < 1e30:
        floor = f"with {parameters:.3g} parameters the law {law.name} falls to {least:.3f} nats"
        raise PodsimError(
            f"target={options.target:g}: {floor} however many tokens, and to {law.constants['irreducible']:.3f} with any "
            "number of parameters; take a larger network or a higher target"
        )
    return tokens


@question(ScaleLawsOptions)
def scale_laws(options: ScaleLawsOptions) -> ScaleLaws:
    """What every named law advises for some compute, and what its advice costs by podsim's own law.

    Raises PodsimError for compute that is no number.
    """
    laws, own = named_laws(), find_law(OWN)
    rows = []
    for text in options.flops.split(","):
        flops = read_count(text.strip().removesuffix("FLOPs").removesuffix("FLOP"), "flops")
        base = advised(own, flops)
        for name, law in laws.items():
            size = law.best_parameters(flops)
            parameters = base.parameters if size is None else size
            tokens = flops / 6.0 / parameters
            rows.append(LawAdvice(
                law=name, flops=flops, parameters=parameters, tokens=tokens,
                against=None if size is None else size / base.parameters,
                lost=None if size is None else float(own.loss(parameters, tokens)) / base.loss - 1,
                rate=law.rate.value(parameters, tokens) if law.rate else None,
                batch=law.batch.value(parameters, tokens) if law.batch else None,
            ))  # fmt: skip
    return ScaleLaws(
        rows=tuple(rows),
        titles={name: f"{law.title}; {law.source}" for name, law in laws.items()},
        notes={name: law.note for name, law in laws.items() if law.note},
    )


def read_count(value: str | float, what: str) -> float:
    """A number of tokens, parameters or FLOPs: 15T, 8B, 1e22. Raises PodsimError for anything else."""
    text = str(value).strip().replace(",", "").replace("_", "")
    try:
        number = float(text[:-1]) * _COUNT[text[-1].upper()] if text[-1:].upper() in _COUNT else float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e40:
        raise PodsimError(f"{what}={str(value)[:40]!r}: expected a number above 0, such as 15T, 8B or 1e22")
    return number


def network_size(
    model: str | Path, law: LossLaw, overrides: Mapping[str, str] | None = None
) -> tuple[str, float, list[str]]:
    """(name, parameters that the law counts, remarks) of a model, or of a number of parameters."""
    if isinstance(model, str) and model[:1].isdecimal() and not Path(model).exists():
        try:
            return f"{model} parameters", read_count(model, "parameters"), []
        except (PodsimError, UnitError):
            pass
    network = load_model(model, overrides)
    total, active = float(network.parameters), float(network.active_parameters)
    remarks = []
    if active < total:
        working = f"{format_quantity(active, '')} of {format_quantity(total, '')} parameters work on a token"
        remarks.append(f"{working}: the loss of a dense network of these; the other experts lower it further")
    spec = load_specification(model, overrides)
    if spec.bidirectional or spec.encoder_layers:
        remarks.append(
            f"{network.name} is no decoder: the law is of the next token, so take sizes from it, not losses"
        )
    embedding = float(network.vocab * network.hidden)
    counted = active - embedding if law.counts == "non-embedding" else active
    return network.name, counted, remarks


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
