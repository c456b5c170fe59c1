"""Results of one model in two number formats, from the collected table of accuracy by format.

    python -m reference.format_pairs DIRECTORY     # write src/podsim/learning/format_pairs.csv

A pair has one source, model, task and metric, and for NVIDIA's tables also the same batch and number of GPUs. FP32
results of V100 stand against TF32 results of A100 of the same model. Spreads, extremes and times are no results.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/podsim/learning/format_pairs.csv"
COLUMNS = (
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
)
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


def pairs_of(rows: list[Mapping[str, str]]) -> list[dict[str, str]]:
    """The rows of learning/format_pairs.csv."""
    pairs = [*_printed_pairs(rows), *_matched_pairs(rows)]
    unique = {tuple(pair.values()): pair for pair in pairs}
    return sorted(unique.values(), key=lambda pair: [pair[name] for name in COLUMNS])


def _printed_pairs(rows: list[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """Pairs whose source prints both results in a line."""
    for row in rows:
        phase = _KINDS.get(row["kind"], "")
        if row["kind"] == "compressed accuracy":
            phase = "retrained" if row["format"].startswith("QAT") else "inference"
        name = "int8" if row["format"] == "PTQ" else _format(row["format"])
        if phase and name and row["baseline"] and _is_number(row["baseline"]):
            yield _pair(row, phase, name, row["value"], _format(row["baseline_format"]), row["baseline"])


def _matched_pairs(rows: list[Mapping[str, str]]) -> Iterator[dict[str, str]]:
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
        "role": row["role"], "phase": phase, "format": name, "baseline_format": base, "model": model, "metric": metric,
        "value": value, "baseline": baseline, "is_lower_better": str(int(bool(_LOWER.search(metric)))), "source": source,
    }  # fmt: skip


def _is_number(text: str) -> bool:
    try:
        return float(text) != 0.0
    except ValueError:
        return False


def main() -> None:
    """Write the table."""
    with (Path(sys.argv[1]) / "learning" / "formats.csv").open(encoding="utf-8", newline="") as file:
        pairs = pairs_of(list(csv.DictReader(file)))
    with TARGET.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(pairs)


if __name__ == "__main__":
    main()
