"""Seconds of attention in inference engines: prefill, decode, and compressed attention (MLA).

Symbols: b sequences, q new tokens and n keys of each, w the window, h heads, u heads of keys, g = h / u, d and v the
widths of queries and values, e bytes of a cached number; S multiprocessors, P peak FLOP/s, B memory B/s. Fitted
constants have their names; share and key depend on the mean width of d and v (`_at_width`).

Prefill, t seconds. A thread block has R = 128 rows, of p heads (g in a packed kernel, else 1), and walks over the keys
that its queries see: m in the mean, half of them under the causal mask, and M at most.

    m = min((n + max(min(R / p, q), rounding)) / 2, n)                        M = n; less under a window: `_seen_keys`
    k = 2 R (d + v) S / (P share) + R exponent / (E clock)                    a key, of one block
    x(m) = (m + fill) k + block                                               a block
    W = b h / p ceil(q p / R) / S                                             waves of blocks
    A = max(W x(m) + tail min(1, W) x(M), x(M))                               arithmetic
    Y = b q (d + v) (2 h + u e) / (0.85 B)                                    bytes
    t = launch + (A^3 + Y^3)^(1/3) + b q (2 (h + 2 u) d moved / B + u token_head + token)

An SM computes E exponentials in a clock, `exponent` of them in its special units, and the rest in plain arithmetic. It is
fitted where GPUs of an architecture differ in E, and is 0 elsewhere, where the share holds it.

The last term is the work around the core: the write of keys and values to the cache, and quantisation.

Decode, t seconds. A block for each sequence and head of keys walks over n keys (w at most); few blocks share the keys of
a sequence, s of them. A key takes z numbers of the cache: d + v, and d where the values are a part of it.

    s = max(floor(min(cap S / (b u), n / split)), 1)                          1 for a kernel that never splits,
                                                                              `forced` for one that always does
    W = max(b u s / (occupancy S), 1)                                         waves of blocks
    l = max(n / s, 64)                                                        keys of a block
    X = l key (e / 2)^(1/2) + (W - 1) l z e again S / B + W block             waiting
    y = b (u n z e + 4 moved h d)                                             bytes, at near B if all are in the L2 cache
    Y = y / (B share (1 + (near - 1) / (1 + (y / L2)^4)))
    A = 2 b u max(g, 16) n (d + v) / (P arithmetic)
    t = launch + (X^3 + Y^3 + A^3)^(1/3) + splitting log2(s) + b h token

TensorRT-LLM on A100 and H100 runs another kernel for a single head a group, and for groups too large for the tensor
cores' kernel: there every head walks over the keys by itself, in b h blocks with A = 2 b h n (d + v) / (P arithmetic)
(family "alone").

MLA: prefill has heads of 192 and 128; decode has one latent head of 576, of which 512 are also the values.
Source: T. Dao, FlashAttention-2, arXiv 2307.08691 (blocks of rows, the causal half); T. Dao et al., Flash-Decoding (2023;
the split of keys); constants are fitted to measured kernels of TensorRT-LLM and vLLM. Known error: the evidence of each
entry of hardware/catalog/engines/*.toml, and `podsim validate --table kernels-prefill`. Limits: sequences of a call have
equal lengths, blocks of one kernel alone run on the GPU, and head widths beyond the measured ones take their constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.fitting import Values
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_constants import engine_constants, engine_file
from podsim.kernels.engine_run import EngineRun, attention_peak, format_bytes, format_peak

_ROWS = 128.0
"""rows of a thread block of prefill"""
_DOT = 16.0
"""the fewest rows of a product on tensor cores"""
MLA_DIMS = (192.0, 128.0, 576.0, 512.0)
"""Widths of DeepSeek's compressed attention: queries and keys, values, latent keys, latent values."""


@dataclass(frozen=True, kw_only=True)
class EngineAttention:
    """Sizes of attention calls, arrays of one shape."""

    batch: Floats
    queries: Floats
    keys: Floats
    heads: Floats
    kv_heads: Floats
    head_dim: Floats
    value_dim: Floats
    window: Floats
    """count. The most keys that a query sees; 0 for no limit."""

    @property
    def group(self) -> Floats:
        """count. The query heads that share keys."""
        return np.asarray(self.heads / self.kv_heads)


def prefill_seconds(gpu: Gpu, run: EngineRun, shape: EngineAttention, *, law: str = "prefill") -> Floats:
    """Seconds of causal attention over new tokens; PodsimError for an architecture that was not measured."""
    return prefill_law(engine_constants(law, gpu, run).values, gpu, run, shape)


def prefill_law(c: Values, gpu: Gpu, run: EngineRun, shape: EngineAttention) -> Floats:
    """Seconds t of prefill by the law alone."""
    packed = np.where(c["packed"] > 0, shape.group, 1.0)
    span = np.minimum(_ROWS / packed, shape.queries)
    products = shape.head_dim + shape.value_dim
    peak = attention_peak(gpu, run) * _at_width(c, "share", products / 2)
    exponents = _ROWS * c.get("exponent", 0.0) / (gpu.exponentials * gpu.clock)
    key = 2 * _ROWS * products * gpu.sms / peak + exponents
    usual, last = ((keys + c["fill"]) * key + c["block"] for keys in _seen_keys(c, shape, span))
    blocks = shape.batch * shape.heads / packed * np.ceil(shape.queries * packed / _ROWS)
    waves = blocks / gpu.sms
    arithmetic = np.maximum(waves * usual + c["tail"] * last * np.minimum(1.0, waves), last)
    tokens = shape.batch * shape.queries
    moved = 2 * shape.heads * products + shape.kv_heads * products * format_bytes(run.cache)
    core = (arithmetic**3 + (tokens * moved / (0.85 * gpu.memory_bandwidth)) ** 3) ** (1 / 3)
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim * 2
    around = heads * c["moved"] / gpu.memory_bandwidth + shape.kv_heads * c["token_head"] + c["token"]
    return np.asarray(c["launch"] + core + tokens * around)


def _seen_keys(c: Values, shape: EngineAttention, span: Floats) -> tuple[Floats, Floats]:
    """(m, M): the keys that a block of `span` queries walks over in the mean, and at most."""
    mean = np.minimum((shape.keys + np.maximum(span, c["rounding"])) / 2, shape.keys)
    inside = np.minimum(shape.keys, shape.window + span + c.get("window", 0.0))
    windowed = inside - inside * inside / (2 * shape.keys)
    has_window = shape.window > 0
    return np.where(has_window, np.minimum(windowed, mean), mean), np.where(has_window, inside, shape.keys)


def decode_seconds(
    gpu: Gpu,
    run: EngineRun,
    shape: EngineAttention,
    *,
    law: str = "decode",
    shares_keys: bool | None = None,
) -> Floats:
    """Seconds of one new token a sequence against its keys; PodsimError for an architecture that was not measured.

    `shares_keys`: whether the heads of a group share one walk over the keys, as the queries of a draft do, or each
    walks by itself; None for the engine's own rule.
    """
    alone = shape.group < 0  # none of them
    if law == "decode" and not shares_keys:
        alone = is_alone(gpu, run, shape.group) if shares_keys is None else ~alone
    seconds = np.empty(shape.batch.shape)
    for family, where in (("grouped", ~alone), ("alone", alone)):
        if where.any():
            part = EngineAttention(**{name: column[where] for name, column in vars(shape).items()})
            constants = engine_constants(law, gpu, run, family)
            seconds[where] = decode_law(constants.values, gpu, run, part, is_alone=family == "alone")
    return seconds


def is_alone(gpu: Gpu, run: EngineRun, group: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether groups of heads run in the kernel in which each head walks over the keys by itself."""
    least, most = engine_file("decode")["grouped"].get(f"{gpu.architecture}-{run.engine}", (0.0, np.inf))
    return np.asarray((group < least) | (group > most))


def decode_law(
    c: Values, gpu: Gpu, run: EngineRun, shape: EngineAttention, *, is_alone: bool = False
) -> Floats:
    """Seconds t of decode by the law alone."""
    width = format_bytes(run.cache)
    keys = np.where(shape.window > 0, np.minimum(shape.keys, shape.window), shape.keys)
    is_latent = shape.head_dim != shape.value_dim
    stored = np.where(is_latent, shape.head_dim, shape.head_dim + shape.value_dim)
    mean = (shape.head_dim + shape.value_dim) / 2
    blocks = shape.batch * (shape.heads if is_alone else shape.kv_heads)
    splits = np.ones_like(keys)
    if c.get("cap", 0.0) > 0:
        splits = np.maximum(np.floor(np.minimum(c["cap"] * gpu.sms / blocks, keys / c["split"])), 1.0)
    if forced := c.get("forced", 0.0):
        splits = np.where(shape.batch <= c["forced_batch"], forced, splits)
    waves = np.maximum(blocks * splits / (c["occupancy"] * gpu.sms), 1.0)
    key = _at_width(c, "key", mean) * np.sqrt(width / 2)
    walked = np.maximum(keys / splits, 64.0)
    again = walked * stored * width * (c["again"] * gpu.sms / gpu.memory_bandwidth)
    waiting = walked * key + (waves - 1) * again + waves * c["block"]
    moved = shape.batch * (
        shape.kv_heads * keys * stored * width + c["moved"] * shape.heads * shape.head_dim * 4
    )
    near = 1 + (c["near"] - 1) / (1 + (moved / gpu.l2) ** 4)
    memory = moved / (gpu.memory_bandwidth * _at_width(c, "share", mean) * near)
    rows = shape.heads if is_alone else shape.kv_heads * np.maximum(shape.group, _DOT)
    work = 4 * shape.batch * rows * keys * mean
    arithmetic = work / (format_peak(gpu, run.precision) * c["arithmetic"])
    core = (memory**3 + waiting**3 + arithmetic**3) ** (1 / 3)
    joined = c.get("splitting", 0.0) * np.log2(splits)
    return np.asarray(c["launch"] + core + joined + shape.batch * shape.heads * c["token"])


def _at_width(c: Values, name: str, width: Floats) -> Floats:
    """A constant fitted at some head widths, as name_64 and name_128, interpolated in the logarithm and held outside."""
    widths = sorted(float(key.removeprefix(f"{name}_")) for key in c if key.startswith(f"{name}_"))
    if not widths:
        raise PodsimError(f"no constant {name} of any width")
    values = [np.log(c[f"{name}_{at:.0f}"]) for at in widths]
    return np.asarray(np.exp(np.interp(np.log2(width), np.log2(widths), values)))
