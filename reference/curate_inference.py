"""Rows of inference in their sources' words -> network, GPU and plan, for podsim.accuracy.price_inference.

inference_names.toml says which words name which network, engine and GPU.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_count, write_settings
from podsim.accuracy.price_inference import NAME
from podsim.accuracy.reading import read_number
from reference.cell_words import read_batch, read_precision, read_rate_unit

_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
_APART = 30.0
"""factor. The contradiction between a throughput and a latency beyond which one of them has another unit."""


@cache
def _names() -> Mapping[str, list[dict[str, Any]]]:
    return tomllib.loads(Path(__file__).with_name("inference_names.toml").read_text("utf-8"))


def inference_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The columns network, cluster and plan of a row, and its rate in samples/s where a unit counts parts of them.

    Raises NotExpressible with the reason why nothing can be predicted.
    """
    network = _named("network", row)
    if network is None:
        model = cell_text(row, "model")
        raise NotExpressible(f"inference: no packaged graph is named by model={model.split('/')[-1][:60]!r}")
    if "skip" in network:
        raise NotExpressible(network["skip"])
    engine = _named("engine", row)
    if engine is None:
        raise NotExpressible(
            f"inference: no engine is known as framework={cell_text(row, 'framework')[:40]!r}"
        )
    precision, concurrency = _precision(row), _concurrency(row)
    batch, gpus = _batch(row, precision, concurrency), read_count(row, "n_gpus", 1)
    rate = _check_unit(row, network.get("counts", "samples"), network.get("items", 1))
    row = {**row, **rate}
    _check_latency(row, batch, concurrency)
    plan = {
        "gpus": gpus, "batch": batch, "concurrency": concurrency, "precision": precision,
        "engine": engine["engine"],
    }  # fmt: skip
    return {**rate, "network": network["network"], "cluster": _gpu(row), "plan": write_settings(NAME, plan)}


def _named(kind: str, row: Mapping[str, str]) -> dict[str, Any] | None:
    """The first entry of a kind whose patterns a row holds."""
    words = {
        "model": cell_text(row, "model").lower(),
        "framework": cell_text(row, "framework").lower(),
        "text": " ".join(cell_text(row, name) for name in ("framework", "model", "precision", "notes")),
        "length": cell_text(row, "seq_len"),
        "unit": cell_text(row, "unit").lower(),
    }
    return next(
        (
            entry
            for entry in _names()[kind]
            if all(re.search(entry[key], text) for key, text in words.items() if key in entry)
        ),
        None,
    )


def _precision(row: Mapping[str, str]) -> str:
    text = cell_text(row, "precision")
    name = "int8" if text.lower().startswith("int8") else read_precision(text) if text else None
    if name not in _PRECISIONS:
        raise NotExpressible(f"precision={text[:40]!r} is not one of {', '.join(_PRECISIONS)}, amp")
    return name


def _concurrency(row: Mapping[str, str]) -> int:
    """Requests under way at once; 1 where the row states none."""
    match = re.search(r"concurren(?:cy|t requests)\D{0,3}(\d+)", cell_text(row, "notes"), re.IGNORECASE)
    return max(int(match[1]), 1) if match else 1


def _batch(row: Mapping[str, str], precision: str, concurrency: int) -> int:
    """Samples of a request; a blank cell of a row with concurrent requests is one sample."""
    cell = cell_text(row, "batch_per_gpu")
    if not cell and (concurrency > 1 or "concurrency=" in cell_text(row, "notes")):
        return 1
    stated = read_batch(cell, precision) if cell else None
    if stated is None or stated[0] < 1:
        raise NotExpressible(
            f"batch_per_gpu={cell[:40]!r} is not a number" if cell else "batch_per_gpu is not given"
        )
    return round(stated[0])


def _check_unit(row: Mapping[str, str], counts: str, items: float) -> dict[str, str]:
    """The rate of a row in samples/s, {} where its unit counts them; NotExpressible for a unit of other things."""
    text = cell_text(row, "unit")
    unit = read_rate_unit(text) if text else None
    if unit is not None and unit.counts != counts:
        raise NotExpressible(
            f"unit={text[:40]!r} counts {unit.counts}, of which a sample has no known number"
        )
    rate = read_number(cell_text(row, "throughput"))
    if unit is None or rate is None or items == 1:
        return {}
    return {"throughput": repr(rate / items), "unit": "samples/s"}


def _check_latency(row: Mapping[str, str], batch: int, concurrency: int) -> None:
    """Refuse a throughput that contradicts its latency many times over, in ms or in s."""
    rate, latency = read_number(cell_text(row, "throughput")), read_number(cell_text(row, "latency_ms"))
    if not rate or not latency:
        return
    ratios = [rate * latency * unit / (batch * concurrency) for unit in (1e-3, 1.0, 1e-6)]
    if not any(1 / _APART < ratio < _APART for ratio in ratios):
        raise NotExpressible(
            f"throughput={cell_text(row, 'throughput')} and latency_ms={cell_text(row, 'latency_ms')} contradict each "
            f"other for {batch} samples"
        )


def _gpu(row: Mapping[str, str]) -> str:
    """The catalog's name of a row's GPU, or of its MIG instance: a100-sxm4-40gb/1g.5gb."""
    text = f"{cell_text(row, 'gpu')} {cell_text(row, 'node_type')}".lower()
    notes = cell_text(row, "notes")
    name = next(
        (
            entry["gpu"]
            for entry in _names()["gpu"]
            if re.search(entry.get("words", ""), text) and re.search(entry.get("notes", ""), notes)
        ),
        None,
    )
    if name is None:
        gpu = cell_text(row, "gpu")
        raise NotExpressible(
            f"inference was not measured on a GPU of the catalog like {gpu[:40]!r}"
            if gpu
            else "the GPU is not given"
        )
    profile = re.search(r"\b([1-7]g\.\d+gb)\b", f"{text} {cell_text(row, 'notes').lower()}")
    return f"{name}/{profile[1]}" if profile else str(name)
