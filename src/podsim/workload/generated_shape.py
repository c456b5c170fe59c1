"""Shapes of decoder-only transformers: one of the catalog of about a number of parameters, or a generated one.

A generated network is a llama-3.1-8b of another size: grouped queries with eight key/value heads, a gated MLP 3.5 times
as wide as the network, heads of 128 (of 64 in small networks), widths and layers that divide over GPUs. Its width is
100 to 130 times its layers, as in Llama 3 and GPT-3, less in small networks; Kaplan et al. (2020), figure 5: between a
third and three times of that the loss hardly changes. Below 3 G parameters the head shares the embedding's table, as in
Llama 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podsim.errors import ModelError
from podsim.workload.catalog import entries
from podsim.workload.specification import Transformer

BASE = "llama-3.1-8b"
"""The model of the catalog that a generated one changes."""
_VOCABULARY, _SMALL_VOCABULARY = 128256, 32000
_SMALL, _TIED = 5e8, 3e9
"""count. The parameters below which a network has the small vocabulary, and shares its table with the head."""
_NEAR = 1.08
"""factor. How far a model of the catalog may be from the wanted parameters."""
_MLP = 3.5
_LEAST, _MOST = 5e6, 2e13


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A network by name and changes, as podsim's commands take it."""

    model: str
    """The name in the catalog; a generated one changes it."""
    overrides: Mapping[str, str]
    """The changes of a generated one."""
    parameters: float
    """count. The parameters."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    """The inner width of the MLP."""
    is_gated: bool = True
    """Whether the MLP has a gate, as in networks of today."""


def shape_near(parameters: float) -> Shape:
    """The shape of the catalog nearest to so many parameters, or a generated one. Raises ModelError out of reach."""
    if not _LEAST <= parameters <= _MOST:
        raise ModelError(f"{parameters:.3g} parameters: shapes have {_LEAST:.0e} to {_MOST:.0e}")
    newest_first = [shape for shape in reversed(list(catalog_shapes())) if shape.is_gated]
    known = min(newest_first, key=lambda shape: abs(math.log(shape.parameters / parameters)), default=None)
    if known is not None and abs(math.log(known.parameters / parameters)) <= math.log(_NEAR):
        return known
    return min(_shapes_near(parameters), key=lambda shape: _strangeness(shape, parameters))


def catalog_shapes() -> Iterator[Shape]:
    """The dense decoder-only language models of the catalog that laws of the loss are about."""
    for name, entry in entries().items():
        spec = entry.specification
        if _is_plain(spec):
            yield Shape(
                model=name, overrides={}, parameters=float(entry.published), layers=spec.layers, hidden=spec.hidden,
                heads=spec.heads, kv_heads=spec.kv_heads or spec.heads, ffn=spec.ffn or 4 * spec.hidden,
                is_gated=spec.gated,
            )  # fmt: skip


def _is_plain(spec: Transformer) -> bool:
    """Whether a network is a dense decoder of text whose layers are alike."""
    return not (
        spec.experts
        or spec.encoder_layers
        or spec.bidirectional
        or spec.vision
        or spec.captured
        or spec.variations
    )


def _shapes_near(parameters: float) -> Iterator[Shape]:
    """Shapes of about so many parameters."""
    middle = (parameters / 12 * _aspect(parameters)) ** (1 / 3)
    for hidden in sorted({_round_width(middle * 2 ** (step / 8)) for step in range(-10, 11)}):
        width = 64 if hidden < 2048 else 128
        heads = hidden // width
        kv_heads = math.gcd(heads, 8)
        ffn = math.ceil(_MLP * hidden / 256) * 256
        layer = 2 * hidden * hidden + 2 * hidden * kv_heads * width + 3 * hidden * ffn + 2 * hidden
        is_tied = parameters < _TIED
        vocabulary = _VOCABULARY if parameters >= _SMALL else _SMALL_VOCABULARY
        outside = vocabulary * hidden * (1 if is_tied else 2) + hidden
        grain = 4 if parameters > _TIED else 2 if parameters > 1e8 else 1
        layers = max(1, round((parameters - outside) / layer / grain)) * grain
        changes = {
            "layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads, "head_dim": width, "ffn": ffn,
            **({"tied": "true"} if is_tied else {}),
            **({"vocab": vocabulary} if vocabulary != _VOCABULARY else {}),
        }  # fmt: skip
        yield Shape(
            model=BASE, overrides={f"model.{name}": str(value) for name, value in changes.items()},
            parameters=float(layers * layer + outside), layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads,
            ffn=ffn,
        )  # fmt: skip


def _round_width(width: float) -> int:
    """A width that heads and tensor-parallel GPUs divide."""
    grain = 128 if width < 2048 else 256 if width < 4096 else 1024
    return max(128, round(width / grain) * grain)


def _aspect(parameters: float) -> float:
    """Width over layers that is usual: 64 at 100 M parameters, 128 from 8 G on."""
    return float(min(128.0, max(40.0, 64.0 * (parameters / 1e8) ** 0.158)))


def _strangeness(shape: Shape, parameters: float) -> float:
    """How far a shape is from the wanted size, and from a usual aspect."""
    size = abs(math.log(shape.parameters / parameters))
    aspect = abs(math.log(shape.hidden / shape.layers / _aspect(parameters)))
    return 4 * size + 0.5 * aspect
