"""The loss of a trained network as a law of its parameters and its tokens, with a band.

    loss = irreducible + (size / parameters^size_exponent + data / tokens^data_exponent)^coupling

With coupling 1 this is the law of Hoffmann et al. (2022); with irreducible 0 it is that of Kaplan et al. (2020), whose
two terms are one power. In between, shortage of parameters and of tokens add less than fully. Tokens that repeat count
less and less (Muennighoff et al. 2023): `effective`. A loss is comparable within one tokenizer and one validation set
only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.answers.losses import LossConstants
from podsim.axes import Shaped

Array: TypeAlias = NDArray[np.float64]

NAMES = ("irreducible", "size", "data", "size_exponent", "data_exponent", "coupling")
"""The constants, in the order of coordinates: the first three and the last as logarithms, exponents as they are."""
FLOPS_PER_PARAMETER = 6.0
"""FLOPs of training for a parameter and a token: two forward, four backward"""
REPEAT, EXCESS = 15.387756, 5.309743
"""factor. Passes over unique tokens, and sizes beyond the best, after which most is gained: Muennighoff et al. 2023,
section 5; fits to 182 runs of up to 1,500 passes"""
_LOGS = np.array([True, True, True, False, False, True])
_DEVIATIONS = 1.2816  # of a band of 80 %
_DRAWN = 1.6
"""factor. The spread of bootstraps that makes bands hold what they say; fitted with those of
`podsim.learning.loss_fit`
"""
_NONE = -60.0
"""the logarithm of a constant that is zero"""


class Band(NamedTuple):
    """A loss with the ends of its band."""

    low: Array
    loss: Array
    high: Array


@dataclass(frozen=True, kw_only=True)
class LossLaw(LossConstants):
    """A law of the loss: what its constants say of runs."""

    def loss(self, parameters: ArrayLike, tokens: ArrayLike, unique: ArrayLike | None = None) -> Array:
        """nat. The loss; `unique` is the number of tokens that differ, where others repeat them."""
        network, data = self.effective(parameters, tokens, unique)
        return np.asarray(np.exp(log_loss(self.coordinates, np.log(network), np.log(data))))

    def band(self, parameters: ArrayLike, tokens: ArrayLike, unique: ArrayLike | None = None) -> Band:
        """nat. The loss between the ends of its band, 80 % wide: bootstraps, scatter, and drift outside."""
        network, data = self.effective(parameters, tokens, unique)
        middle = log_loss(self.coordinates, np.log(network), np.log(data))
        variance = np.full(middle.shape, self.scatter**2)
        if self.draws:
            drawn = np.stack([log_loss(draw, np.log(network), np.log(data)) for draw in np.array(self.draws)])
            variance = variance + np.minimum(_DRAWN * _spread(drawn), 1.0) ** 2
        if self.fitted is not None:
            variance = variance + _excess(self, network, data) ** 2
        half = _DEVIATIONS * np.sqrt(variance)
        return Band(np.exp(middle - half), np.exp(middle), np.exp(middle + half))

    def effective(
        self, parameters: ArrayLike, tokens: ArrayLike, unique: ArrayLike | None
    ) -> tuple[Array, Array]:
        """(parameters, tokens) that count, where tokens repeat: Muennighoff et al. 2023, equations 5 and 6.

        Beyond the first pass, each further one adds less: unique x (1 + R (1 - exp(-passes / R))). Parameters above
        what the unique tokens can use lose value in the same way. A law that does not know how fast takes the paper's
        constants.
        """
        network, data = np.asarray(parameters, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
        if unique is None or bool(np.all(np.asarray(unique) >= data)):
            return network, data
        different = np.minimum(np.asarray(unique, dtype=np.float64), data)
        useful = repeated(data, different, self.constants.get("repeat", REPEAT))
        best = np.minimum(self.size_for(different), network)
        return repeated(network, best, self.constants.get("excess", EXCESS)), useful

    def size_for(self, tokens: Array) -> Array:
        """count. The parameters of the compute-optimal runs that train on these tokens."""
        value, first = self.constants, self.constants["size_exponent"]
        second = value["data_exponent"]
        ratio = math.log(first * value["size"] / (second * value["data"]))
        return np.asarray(np.exp((ratio + second * np.log(tokens)) / first))

    def optimum(self, flops: ArrayLike) -> tuple[Array, Array]:
        """(parameters, tokens) with the least loss for some FLOPs of training, 6 for a parameter and a token.

        The closed form of Hoffmann et al. (2022), equation 4; a coupling, being monotone, does not move it.
        """
        value = self.constants
        first, second = value["size_exponent"], value["data_exponent"]
        product = np.log(np.asarray(flops, dtype=np.float64) / FLOPS_PER_PARAMETER)
        ratio = math.log(first * value["size"] / (second * value["data"]))
        parameters = np.exp((ratio + second * product) / (first + second))
        return parameters, np.exp(product) / parameters

    def tokens_for(self, loss: float, parameters: float) -> float:
        """count. The tokens with which so many parameters reach a loss; infinite if none do."""
        value = self.constants
        rest = (
            (loss - value["irreducible"]) ** (1 / value["coupling"]) if loss > value["irreducible"] else 0.0
        )
        rest -= value["size"] / parameters ** value["size_exponent"]
        return float((value["data"] / rest) ** (1 / value["data_exponent"])) if rest > 0 else math.inf

    @cached_property
    def coordinates(self) -> Array:
        """The constants as coordinates, NAMES."""
        return coordinates_of(self.constants)


def log_loss(
    coordinates: Array, parameters: Shaped[Array, "trained"], tokens: Shaped[Array, "trained"]
) -> Shaped[Array, "trained"]:
    """The logarithm of the loss, from the logarithms of parameters and tokens."""
    irreducible, size, data, size_exponent, data_exponent, coupling = coordinates
    both = np.logaddexp(size - size_exponent * parameters, data - data_exponent * tokens)
    return np.asarray(np.logaddexp(irreducible, np.exp(coupling) * both))


def repeated(tokens: Array, unique: Array, scale: float) -> Array:
    """What tokens are worth of which only some are unique; after `scale` further passes, most is gained."""
    passes = np.maximum(tokens / unique - 1.0, 0.0)
    return np.asarray(unique * (1.0 + scale * -np.expm1(-passes / scale)))


def coordinates_of(constants: Mapping[str, float]) -> Array:
    """Coordinates of constants; zero becomes a logarithm that no loss feels."""
    values = np.array([constants[name] for name in NAMES])
    return np.where(_LOGS, np.log(np.maximum(values, np.where(values == 0, math.exp(_NONE), 1e-300))), values)


def constants_of(coordinates: Array) -> dict[str, float]:
    """Constants by name."""
    values = np.where(_LOGS, np.exp(coordinates), coordinates)
    return {
        name: 0.0 if log and at <= _NONE / 2 else float(value)
        for name, log, at, value in zip(NAMES, _LOGS, coordinates, values, strict=True)
    }


def _spread(drawn: Shaped[Array, "draw trained"]) -> Array:
    """Half the distance between the 16th and the 84th percentile: outliers among bootstraps count little."""
    low, high = np.quantile(drawn, (0.1587, 0.8413), axis=0)
    return np.asarray((high - low) / 2)


def _excess(law: LossLaw, parameters: Array, tokens: Array) -> Array:
    """share. The error for being outside the fitted range of parameters, of tokens, and above that of compute."""
    assert law.fitted is not None
    outside = np.zeros(np.broadcast(parameters, tokens).shape)
    for value, (low, high) in ((parameters, law.fitted.parameters), (tokens, law.fitted.tokens)):
        outside = outside + np.log(np.maximum(value / high, 1.0)) + np.log(np.maximum(low / value, 1.0))
    above = np.log(np.maximum(FLOPS_PER_PARAMETER * parameters * tokens / law.fitted.compute, 1.0))
    return np.asarray(law.drift * outside + law.climb * above)
