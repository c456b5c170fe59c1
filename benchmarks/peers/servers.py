"""Measured servers of language models: against aiconfigurator, in time and error."""

from __future__ import annotations

import csv
import gzip
import time
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import numpy as np
from peer import about, ask, installed

from podsim.serving.served_loads import serve_row

MODELS = {
    "qwen3-32b": "Qwen/Qwen3-32B", "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
}  # fmt: skip
SYSTEMS = {"h100-sxm5-80gb": "h100_sxm", "h200-sxm5-141gb": "h200_sxm", "b200": "b200_sxm"}
BACKENDS = {"tensorrt-llm": "trtllm", "sglang": "sglang", "vllm": "vllm"}
FORMATS = {"bf16": None, "fp8": "fp8", "fp8_block": "fp8_block", "fp8-block": "fp8_block", "nvfp4": "nvfp4"}
FIGURES = {"each_token": "each further token", "first_token": "first token"}


def _rows() -> list[dict[str, str]]:
    packed = files("podsim").joinpath("serving/measured_loads.csv.gz").read_bytes()
    rows = csv.DictReader(gzip.decompress(packed).decode().splitlines())
    return [
        row
        for row in rows
        if row["role"] == "test" and row["mode"] == "aggregated" and not row["draft"] and not row["reason"]
        and row["model"] in MODELS and row["gpu"] in SYSTEMS and row["precision"] in FORMATS
    ]  # fmt: skip


def _given(row: dict[str, str]) -> dict[str, object]:
    """The arguments of aiconfigurator for a row."""
    mean = (1 + float(row["shortest"] or 1)) / 2
    return {
        "model_path": MODELS[row["model"]], "system_name": SYSTEMS[row["gpu"]], "backend_name": BACKENDS[row["engine"]],
        "isl": round(mean * int(row["input_tokens"])), "osl": round(mean * int(row["output_tokens"])),
        "batch_size": max(int(row["concurrency"]) // int(row["workers"] or 1), 1),
        "tp_size": int(row["attention_tp"] or 1), "pp_size": int(row["pp"] or 1),
        "gemm_quant_mode": FORMATS[row["precision"]], "kvcache_quant_mode": row["kv_cache"] or None,
    }  # fmt: skip


def against_aiconfigurator(work: Path) -> str:
    """The part of the report on aiconfigurator."""
    python, version = installed(work, "aiconfigurator")
    rows = _rows()
    answers = ask(python, "aiconfigurator_rows.py", [_given(row) for row in rows])
    both = [(row, answer) for row, answer in zip(rows, answers, strict=True) if "reason" not in answer]
    serve_row(rows[0])
    errors, clocks = defaultdict(list), []
    for row, answer in both:
        started = time.process_time()
        served = serve_row(row)
        clocks.append((answer["seconds"], time.process_time() - started))
        for figure, words in FIGURES.items():
            if measured := row[f"{figure}_s_median"] or row[f"{figure}_s_mean"]:
                pair = np.array([answer[figure], np.median(getattr(served, figure))]) / float(measured) - 1
                errors["all", words].append(pair)
                errors[row["engine"], words].append(pair)
    theirs, own = np.median(clocks, axis=0)
    text = about(
        "aiconfigurator", version=version, refused=len(rows) - len(both), count=len(rows), theirs=1e3 * theirs,
        own=1e3 * own, ratio=theirs / own,
    )  # fmt: skip
    for (engine, words), pairs in sorted(errors.items()):
        sizes = np.abs(pairs)
        cells = [f"{error:.1%}" for error in (*sizes.mean(axis=0), *np.median(sizes, axis=0))]
        text += f"| {engine} | {len(pairs)} | {words} | {' | '.join(cells)} |\n"
    return text
