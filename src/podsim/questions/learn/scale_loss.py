"""`podsim scale loss` and `podsim scale laws`: the loss of a network by its tokens, and what named laws advise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.answers.losses import LossPoint
from podsim.answers.scaling_answers import LawAdvice, ScaleLaws, ScaleLoss
from podsim.errors import PodsimError
from podsim.learning.loss_advice import advised, loss_points, range_notes, repetition_notes, untold_notes
from podsim.learning.loss_catalog import OWN, find_law, named_laws
from podsim.learning.loss_law import LossLaw
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question
from podsim.options.scale_options import ScaleLossOptions
from podsim.units import parse_count
from podsim.workload.catalog import network_size


@dataclass(frozen=True, kw_only=True)
class ScaleLawsOptions:
    """Compute for which named laws are compared."""

    flops: str = option("1e20,1e22,1e24,1e26", "FLOPs of training, with commas.", also=("compute",))


@question(
    ScaleLossOptions,
    output=PlotOutput,
)
def scale_loss(options: ScaleLossOptions) -> ScaleLoss:
    """The loss of a model after some tokens, its band, and the size that would have been best for the same compute.

    Outside the range that the law was fitted to, the band widens, and a note says how far. Raises PodsimError for an
    unknown law, model or number, and ModelError for a model that cannot be read.
    """
    law = find_law(options.law)
    name, parameters, remarks = network_size(options.model, law.counts)
    tokens = _tokens(options, law, parameters)
    unique = None if options.unique_tokens is None else parse_count(options.unique_tokens, "unique_tokens")
    if unique is not None:
        remarks += repetition_notes(law, tokens, unique)
    band = law.band(parameters, tokens, unique)
    flops = 6.0 * parameters * tokens
    laws = named_laws()
    sizes = {
        counts: network_size(options.model, counts)[1] for counts in {law.counts for law in laws.values()}
    }
    others = {
        key: float(own.loss.loss(sizes[own.counts], tokens))
        for key, own in laws.items()
        if own.loss and key != law.name
    }
    return ScaleLoss(
        model=name, law=law, parameters=parameters, tokens=tokens, loss=float(band.loss), low=float(band.low),
        high=float(band.high), flops=flops, curves=_curves(law, parameters, tokens, unique), best=advised(law, flops),
        unique=unique, others=others,
        rate={key: own.rate.value(sizes[own.counts], tokens) for key, own in laws.items() if own.rate},
        batch={key: own.batch.value(sizes[own.counts], tokens) for key, own in laws.items() if own.batch},
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
        raise PodsimError("give --tokens, e.g. 15T, or --target LOSS, one of them").offer(tokens="15T")
    if options.target is None:
        return parse_count(options.tokens or "", "tokens")
    least = float(law.loss(parameters, 1e30))
    tokens = law.tokens_for(options.target, parameters)
    if not 1 <= tokens < 1e30:
        floor = f"with {parameters:.3g} parameters the law {law.name} falls to {least:.3f} nats"
        raise PodsimError(
            f"target={options.target:g}: {floor} however many tokens, and to {law.constants['irreducible']:.3f} with any "
            "number of parameters; take a larger network or a higher target"
        )
    return tokens


@question(
    ScaleLawsOptions,
    output=PlotOutput,
)
def scale_laws(options: ScaleLawsOptions) -> ScaleLaws:
    """Compare the advice of every named law for some compute, and its cost by podsim's own law.

    Raises PodsimError for compute that is no number.
    """
    laws, own = named_laws(), find_law(OWN)
    rows = []
    for text in options.flops.split(","):
        flops = parse_count(text.strip().removesuffix("FLOPs").removesuffix("FLOP"), "flops")
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
