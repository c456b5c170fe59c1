"""Results of one model in two number formats, from the collected table of accuracy by format.

    curated(rows)                                  canonical rows of formats.csv and its like
    python -m reference.format_pairs DIRECTORY     # write src/podsim/learning/format_pairs.csv

A pair has one source, model, task and metric, and for NVIDIA's tables also the same batch and number of GPUs. FP32
results of V100 stand against TF32 results of A100 of the same model. Spreads, extremes and times are no results.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from reference.csv_rows import csv_text, each_row, read_csv

TARGET = Path(__file__).parents[1] / "src/podsim/learning/format_pairs.csv"
COLUMNS = (
    "id",
    "role",
    "phase",
    "format",
    "baseline_format",
    "model",
    "metric",
    "value",
    "baseline",
    "is_lower_better",
    "source",
    "licence",
)
_LICENCES = {
    "NVIDIA/DeepLearningExamples": "Apache-2.0, BSD-3-Clause and MIT by folder", "intel/neural-compressor": "Apache-2.0",
    "openvinotoolkit/nncf": "Apache-2.0", "pytorch/ao": "BSD-3-Clause",
}  # fmt: skip
"""source -> licence; figures of a paper are cited"""
_NO_RESULT = re.compile(
    r"\b(batch size|std|standard deviation|min|max|minimum|maximum|time|throughput|speed)\b", re.I
)
_FORMAT_WORDS = re.compile(r"\b(mixed precision|mixed|tf32|fp32|fp16|bf16|amp|for|with)\b|[-(),]", re.I)
_LOWER = re.compile(r"wikitext|loss|error|perplexity|ppl|wer|lpips|mae|rmse", re.I)
_KINDS = {
    "training accuracy": "training", "FP8 training": "training", "PTQ": "inference", "PTQ LLM": "inference",
    "INT8": "inference", "quantised inference accuracy": "inference", "QAT LLM": "retrained",
}  # fmt: skip
_FORMATS = (
    ("int8", "int8"), ("int4", "int4"), ("nvfp4", "nvfp4"), ("mxfp8", "mxfp8"), ("e4m3", "e4m3"), ("fp8", "e4m3"),
    ("float8", "e4m3"), ("tf32", "tf32"), ("mixed", "fp16"), ("bf16", "bf16"), ("bfloat16", "bf16"),
    ("fp16/bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32"),
)  # fmt: skip
"""(what a source's words hold, podsim's name), the first that fits"""


def _format(words: str) -> str:
    lowered = words.lower()
    return next((name for part, name in _FORMATS if part in lowered), "")


def curated(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of a table of results by format, as many and in order, each with the result it is against."""
    first: dict[str, dict[str, str]] = {}
    for pair in (*_printed_pairs(rows), *_matched_pairs(rows)):
        first.setdefault(pair["id"], pair)
    return each_row(
        rows, (*COLUMNS, "reason"), lambda row: first.get(row["id"]) or _without_pair(row)
    )  # fmt: skip


def _without_pair(row: Mapping[str, str]) -> dict[str, str]:
    """The cells of a row that stands against no other, with the reason."""
    phase, name = _phase(row), _format(row["format"])
    if not phase:
        why = f"a row of {row['kind']}: podsim states what number formats cost, no more"
    elif not _is_number(row["value"]) or _NO_RESULT.search(row["metric"]):
        why = "a spread, an extreme or a time, no result"
    elif not name:
        why = f"podsim has no number format for {row['format'][:40]!r}"
    else:
        why = "no result in a wider format stands beside it: it is a baseline itself, or alone"
    return {"phase": phase, "format": name, "reason": why}


def pairs_of(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of learning/format_pairs.csv."""
    pairs = [{**pair, "id": ""} for pair in (*_printed_pairs(rows), *_matched_pairs(rows))]
    unique = {tuple(pair.values()): pair for pair in pairs}
    ordered = sorted(unique.values(), key=lambda pair: [pair[name] for name in COLUMNS])
    return [{**pair, "id": f"FORMAT-{number:03}"} for number, pair in enumerate(ordered, 1)]


def _phase(row: Mapping[str, str]) -> str:
    """When the format came in: training, retrained, inference; "" for rows of other things."""
    if row["kind"] == "compressed accuracy":
        return "retrained" if row["format"].startswith("QAT") else "inference"
    return _KINDS.get(row["kind"], "")


def _printed_pairs(rows: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """Pairs whose source prints both results in a line."""
    for row in rows:
        phase, name = _phase(row), "int8" if row["format"] == "PTQ" else _format(row["format"])
        if phase and name and row["baseline"] and _is_number(row["baseline"]):
            yield _pair(row, phase, name, row["value"], _format(row["baseline_format"]), row["baseline"])


def _matched_pairs(rows: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """Pairs of lines: mixed precision against the other format of a table, and TF32 against FP32 of another table."""
    cells: dict[tuple[str, ...], dict[str, list[Mapping[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if (
            row["kind"] != "training accuracy"
            or _NO_RESULT.search(row["metric"])
            or not _is_number(row["value"])
        ):
            continue
        plain = " ".join(_FORMAT_WORDS.sub(" ", row["metric"]).split()).lower()
        for wide, hardware in ((False, row["hardware"]), (True, "")):
            notes = row["notes"].partition(" | ")[0]
            cells[row["source"], row["model"], plain, notes, hardware, str(wide)][
                _format(row["format"])
            ].append(row)
    for key, by_format in cells.items():
        wanted = (
            (("tf32", "fp32"),)
            if key[-1] == "True"
            else (("fp16", "fp32"), ("fp16", "tf32"), ("bf16", "fp32"), ("bf16", "tf32"))
        )
        for name, base in wanted:
            for mine, theirs in zip(by_format.get(name, ()), by_format.get(base, ()), strict=False):
                yield _pair(
                    {**mine, "metric": key[2]}, "training", name, mine["value"], base, theirs["value"]
                )


def _pair(
    row: Mapping[str, str], phase: str, name: str, value: str, base: str, baseline: str
) -> dict[str, str]:
    metric = " ".join(part for part in (row["task"] if phase != "training" else "", row["metric"]) if part)
    source = (
        row["source"].partition(":")[0].strip()
        if "second hand" not in row["source"]
        else "arXiv:2209.05433 (second hand)"
    )
    model = row["model"].rsplit("/", 1)[-1]
    return {
        "id": row["id"], "role": row["role"], "phase": phase, "format": name, "baseline_format": base,
        "model": model, "metric": metric, "value": value, "baseline": baseline,
        "is_lower_better": str(int(bool(_LOWER.search(metric)))), "source": source,
        "licence": _LICENCES.get(source.partition("@")[0], "figures cited"),
    }  # fmt: skip


def _is_number(text: str) -> bool:
    try:
        return float(text) != 0.0
    except ValueError:
        return False


def main() -> None:
    """Write the table."""
    pairs = pairs_of(read_csv(Path(sys.argv[1]) / "learning" / "formats.csv"))
    TARGET.write_text(csv_text(pairs, COLUMNS), "utf-8")


if __name__ == "__main__":
    main()
