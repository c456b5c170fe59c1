"""Figures 4, 5, 7 and 12 of the DGX A100 white paper, reproduced from the catalog and the laws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from podsim.answers.served import Figure, FigureRow
from podsim.errors import CatalogError
from podsim.hardware.catalog import load_gpu, load_system
from podsim.hardware.mig.measured_slices import interference
from podsim.packaged import packaged_toml
from podsim.serving.engines import load_engine
from podsim.serving.latencies import REVISIONS, latency_rows
from podsim.serving.latency import Task, rows_of
from podsim.serving.white_paper_training import training_figure
from podsim.units import format_quantity, parse_quantity
from podsim.workload.catalog import load_model

FIGURES = (4, 5, 7, 12)
_LENGTHS = (32, 64, 128, 256, 384)
"""The sequence lengths, in tokens, at which figure 7 is evaluated."""
Bar: TypeAlias = tuple[str, str, str, str, bool, int, str]
"""name, entry of white_paper.toml, GPU, precision, 2:4 sparse, count, engine"""


def _read_figures() -> dict[str, dict[str, Any]]:
    return packaged_toml("serving/white_paper.toml")


def figure(number: int) -> Figure:
    """One figure of the white paper. Raises CatalogError for a number that is not in FIGURES."""
    if number not in FIGURES:
        known = ", ".join(map(str, FIGURES))
        raise CatalogError(f"figure {number}: made again are {known} of the white paper").offer(
            figure=12, number=12
        )
    if number in (4, 5):
        return training_figure(_read_figures()[f"figure-{number}"])
    if number == 7:
        return _figure_7()
    return replace(_figure_12(), parts=(training_figure(_read_figures()["figure-12-training"]),))


def _rate(gpu: str, precision: str, sparse: bool, batch: int, tokens: int, engine: str) -> float:
    """1/s of BERT-Large sequences."""
    chip = load_gpu(gpu)
    task = Task(
        network=load_model("bert-large"), precision=precision, sparse=sparse, tokens=tokens, output=0,
        engine=load_engine(engine, chip.architecture),
    )  # fmt: skip
    return rows_of(task, chip, [batch], None)[0].throughput


def _figure_7() -> Figure:
    """BERT-Large inference: T4, V100, one slice of an A100 and seven."""
    printed = _read_figures()["figure-7"]
    tokens = int(printed["tokens"])
    busy = 1 - sum(interference().values()) / len(interference())
    bars: list[Bar] = [
        ("V100", "v100", "v100-sxm2-16gb", "fp16", False, 1, "tensorrt-2021"),
        ("T4", "t4", "t4", "int8", False, 1, "tensorrt-2021"),
        ("1 slice of an A100", "slice", "a100-sxm4-40gb/1g.5gb", "int8", True, 1, "tensorrt-2026"),
        ("7 slices of an A100", "slices", "a100-sxm4-40gb/1g.5gb", "int8", True, 7, "tensorrt-2026"),
        ("7 slices, software of 2021", "", "a100-sxm4-40gb/1g.5gb", "int8", True, 7, "tensorrt-2021"),
        ("7 slices, dense", "", "a100-sxm4-40gb/1g.5gb", "int8", False, 7, "tensorrt-2026"),
        ("A100 without MIG", "", "a100-sxm4-40gb", "int8", True, 1, "tensorrt-2026"),
    ]
    rates: dict[str, float] = {}
    rows = []
    for name, key, gpu, precision, sparse, count, engine in bars:
        batch = int(printed[key or "slices"]["batch"])
        rates[name] = (
            _rate(gpu, precision, sparse, batch, tokens, engine) * count * (busy if count > 1 else 1.0)
        )
        entry = printed.get(key, {}) if key else {}
        how = f"{gpu}, {precision}{', 2:4 sparse' if sparse else ''}, batch {batch}, {engine}"
        rows.append(
            FigureRow(
                name=name, how=how, predicted=rates[name], relative=rates[name] / rates["V100"],
                printed=entry.get("relative"), confirmed=entry.get("confirmed", ""),
            )
        )  # fmt: skip
    least, most = _by_length(bars[3], bars[0], printed, busy)
    slice_ratio, seven, old = rows[2].relative, rows[3].relative, rows[4].relative
    return Figure(
        title="White paper, figure 7: BERT-Large inference, sequences/s", unit="1/s", base="V100",
        source=printed["source"], rows=tuple(rows),
        reproduced=(
            f"seven slices do {seven / slice_ratio:.2f} times the work of one: a slice is not slowed by busy neighbours",
            "the order: T4, one slice and V100 of one size, seven slices several times as fast",
            f"of {seven:.1f} times a V100 a factor of {seven / rows[5].relative:.2f} is 2:4 sparsity",
        ),
        not_reproduced=(
            f"the seven: the laws give {seven:.1f} times a V100, and {old:.1f} with the software of 2021",
            f"published latencies at batch 128 give {_measured_ratio():.1f} for a whole A100 of 2026 over a V100 of "
            "2021; none of the paper's own date is known here",
            f"one slice gives {slice_ratio:.2f} of a V100 (printed: 1, unconfirmed)",
            f"the length of a sequence, which the paper does not say; {tokens} tokens are taken, and {least:.1f} to"
            f" {most:.1f} times a V100 come of {_LENGTHS[0]} to {_LENGTHS[-1]}: no length gives the seven, and no"
            " larger batch",
            "the T4 has no measured kernels: its shares of peak are the V100's",
        ),
    )  # fmt: skip


def _by_length(seven: Bar, base: Bar, printed: Mapping[str, Any], busy: float) -> tuple[float, float]:
    """(least, most) speed of seven slices relative to a V100, over sequence lengths and batches up to the V100's own."""

    def rate(bar: Bar, batch: int, tokens: int) -> float:
        _, _, gpu, precision, sparse, count, engine = bar
        return _rate(gpu, precision, sparse, batch, tokens, engine) * count

    batch, largest = int(printed["slices"]["batch"]), int(printed["v100"]["batch"])
    ratios = [
        busy * rate(seven, each, length) / rate(base, largest, length)
        for length in _LENGTHS
        for each in (batch, largest)
    ]
    return min(ratios), max(ratios)


def _measured_ratio() -> float:
    """Sequences/s of a whole A100 (int8, 2:4 sparse, 2026) over a V100's (fp16, 2021), for BERT-Large at batch 128."""
    rates = [
        float((rows.batch / rows.seconds)[rows.batch == 128][0])
        for name, gpu, sparse in (("tensorrt-2026", "a100", True), ("tensorrt-2021", "v100", False))
        for rows in latency_rows(REVISIONS[name])
        if rows.gpu.startswith(gpu)
        and rows.sparse == sparse
        and rows.tokens == 128
        and rows.model == "bert-large"
    ]
    assert len(rates) == 2, rates
    return rates[0] / rates[1]


def _figure_12() -> Figure:
    """INT8 peak of a DGX A100 against two Xeon Platinum 8280."""
    printed = _read_figures()["figure-12"]
    cpu = printed["cpu"]
    dgx = load_system("dgx-a100-40gb")
    lanes = cpu["sockets"] * cpu["cores"] * cpu["operations"]
    rates = {
        "two Xeon 8280 at turbo": lanes * parse_quantity(cpu["turbo"], "Hz"),
        "two Xeon 8280 at base clock": lanes * parse_quantity(cpu["base"], "Hz"),
        "DGX A100, dense": dgx.gpus * dgx.gpu.peaks["int8"],
        "DGX A100, 2:4 sparse": dgx.gpus * dgx.gpu.sparse_peaks["int8"],
    }
    base = rates["two Xeon 8280 at turbo"]
    per_core = f"{cpu['sockets']} x {cpu['cores']} cores x {cpu['operations']} operations a cycle"
    hows = (
        f"{per_core} x {cpu['turbo']}", f"{per_core} x {cpu['base']}",
        f"{dgx.gpus} x {format_quantity(dgx.gpu.peaks['int8'], 'OP/s')}",
        f"{dgx.gpus} x {format_quantity(dgx.gpu.sparse_peaks['int8'], 'OP/s')}",
    )  # fmt: skip
    sparse = rates["DGX A100, 2:4 sparse"] / base
    return Figure(
        title="White paper, figure 12: INT8 peak, operations/s", unit="OP/s", base="two Xeon 8280 at turbo",
        source=printed["source"],
        rows=tuple(
            FigureRow(
                name=name, how=how, predicted=rate, relative=rate / base,
                printed=printed["relative"] if name.endswith("sparse") else None, confirmed=printed["confirmed"],
            )
            for (name, rate), how in zip(rates.items(), hows, strict=True)
        ),
        reproduced=(f"peak against peak: {sparse:.0f} times (printed: {printed['relative']:.0f})",),
        not_reproduced=(
            "only the peaks: the CPUs' needs every core at its single-core turbo, which 512-bit code does not sustain, "
            "and the GPUs' needs pruned weights; at base clock and dense weights the ratio is "
            f"{rates['DGX A100, dense'] / rates['two Xeon 8280 at base clock']:.0f}",
        ),
    )  # fmt: skip
