"""The measured servers that are most like a predicted one, as points of user speed against tokens of a GPU.

Likeness counts octaves: the ratios of prompts, answers and user speeds as they are, another engine or number format as
one octave, another model or GPU as eight. A point of another model and another GPU says nothing, and is left out.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from math import log2
from typing import NamedTuple

from podsim.answers.best_serving import MeasuredPoint
from podsim.errors import TableError
from podsim.foreign_files import csv_table
from podsim.serving.language_engines import engine_family
from podsim.serving.load_bands import band_of

_FILE = "measured_loads.csv.gz"
_OTHER, _FAR = 1.0, 8.0
"""octaves that another engine or format counts, and another model or GPU"""
_ALIKE = 0.6
"""octaves by which lengths of the same load may differ, each"""
_FORMATS = {"fp16": "bf16", "fp8_block": "fp8", "fp8-block": "fp8", "mxfp8": "fp8", "fp4": "nvfp4"}
"""Formats of weights that count as another's."""


class PredictedServer(NamedTuple):
    """What a server is compared by."""

    model: str
    gpu: str
    plan: Mapping[str, object]
    """The fields of its serving plan."""
    input_tokens: float
    """count. The mean tokens of a prompt."""
    output_tokens: float
    """count. The mean tokens of an answer."""
    user: float
    """1/s. The tokens of one user."""


@cache
def packaged_rows() -> tuple[Mapping[str, str], ...]:
    """The packaged rows of servers under a load, in canonical columns."""
    data = files("podsim.serving").joinpath(_FILE)
    if not data.is_file():
        return ()
    text = gzip.decompress(data.read_bytes()).decode("utf-8")
    return tuple(dict(row) for row in csv_table(text, name=_FILE, error=TableError)[1])


def measured_points(
    server: PredictedServer, rows: Iterable[Mapping[str, str]] | None = None
) -> tuple[MeasuredPoint, ...]:
    """The nearest measured server, then those of the same model, GPU and lengths; () where none is like it.

    Of the packaged rows, or of others in canonical columns.
    """
    rows = packaged_rows() if rows is None else rows
    points = sorted(
        (point for row in rows if (point := _point(server, row)) is not None),
        key=lambda point: point.distance,
    )
    return (*points[:1], *(point for point in points[1:] if point.is_alike))


def bands_of(plan: Mapping[str, object], *, is_split: bool) -> dict[str, tuple[float, float]]:
    """The ends of the 80 % bands of median times over the predicted ones, by kind of time, where they are known."""
    row = {"mode": "disaggregated" if is_split else "aggregated", "draft": "mtp" * bool(plan["draft_tokens"])}
    ends = {name: band_of(row, name.replace(" ", "_")) for name in ("first token", "each token")}
    return {name: (low, high) for name, (low, high) in ends.items() if low is not None and high is not None}


def _point(server: PredictedServer, row: Mapping[str, str]) -> MeasuredPoint | None:
    """A row as a point; None for one of another model and GPU, or without a time per token."""
    is_model, is_gpu = row["model"] == server.model, row["gpu"] == server.gpu
    gap = float(row.get("each_token_s_median") or row.get("each_token_s_mean") or 0)
    if not (is_model or is_gpu) or not gap:
        return None
    lengths = [
        abs(log2(float(row[name]) * (1 + float(row.get("shortest") or 1)) / 2 / getattr(server, name)))
        for name in ("input_tokens", "output_tokens")
    ]
    engine, precision = (str(server.plan[name]) for name in ("engine", "precision"))
    differs = [_format(row["precision"]) != _format(precision), row["engine"] != engine_family(engine)]
    far = _FAR * ((not is_model) + (not is_gpu)) + _OTHER * sum(differs)
    first = row.get("first_token_s_median") or row.get("first_token_s_mean")
    return MeasuredPoint(
        id=row["id"], words=_words(row), user=1 / gap, gpu=_gpu_rate(row, gap), first=float(first) if first else None,
        each=gap, measured=row.get("measured", ""), is_alike=is_model and is_gpu and max(lengths) < _ALIKE,
        distance=far + sum(lengths) + abs(log2(server.user * gap)),
    )  # fmt: skip


def _format(name: str) -> str:
    return _FORMATS.get(name, name) or "bf16"


def _gpu_rate(row: Mapping[str, str], gap: float) -> float:
    """1/s. The tokens of answers over all GPUs; without a measured rate, that of clients that always wait for one."""
    gpus, prompts, answers = (float(row.get(name) or 1) for name in ("gpus", "input_tokens", "output_tokens"))
    if rate := row.get("output_tokens_per_s_per_gpu"):
        return float(rate)
    if rate := row.get("output_tokens_per_s_per_decode_gpu"):
        return float(rate) * float(row.get("decode_gpus") or gpus) / gpus
    if rate := row.get("total_tokens_per_s_per_gpu"):
        return float(rate) * answers / (answers + prompts)
    first = float(row.get("first_token_s_median") or row.get("first_token_s_mean") or 0)
    return float(row["concurrency"]) * answers / (first + answers * gap) / gpus


def _words(row: Mapping[str, str]) -> str:
    """A measured server in words."""
    release = f" {row['engine_version']}" if row.get("engine_version") else ""
    kind = (
        ""
        if row.get("mode") != "disaggregated"
        else f" in pools of {row['prefill_gpus']} and {row['decode_gpus']}"
    )
    draft = f", {row['draft']}" if row.get("draft") else ""
    return (
        f"{row['model']} on {row['gpus']} {row['gpu']}{kind}, {row['engine']}{release} {row['precision']}{draft}: "
        f"{float(row['input_tokens']):,.0f} tokens in, {float(row['output_tokens']):,.0f} out, "
        f"{row['concurrency']} clients"
    )
