"""Options of the search of the best way to serve: limits of latency, and what is written for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class OfferOptions:
    """What a server costs, and the files that start it."""

    SECTION: ClassVar[str] = "Files and prices"

    price: str = option("", "USD per GPU-hour, e.g. 2.10, or a price that `podsim cost` lists.")
    launch: str = option(
        "", "Write what starts it: vllm, sglang, trtllm, triton, kubernetes (or several, with commas)."
    )
    plan: str = option(
        "",
        "FILE that --launch wrote, or another that starts a server: takes its engine, layout and limits.",
        also=("plan-file",),
    )


@dataclass(frozen=True, kw_only=True)
class BestOptions(OfferOptions):
    """Limits within which requests are answered."""

    SECTION: ClassVar[str] = "Best way to serve"

    ttft: str = option(
        "", "Longest time to the first token, e.g. 500ms; with --rate or --trace: finds the best way to serve.",
        also=("first-token", "time-to-first-token"),
    )  # fmt: skip
    tpot: str = option(
        "",
        "Longest time per output token, e.g. 30ms.",
        also=("itl", "inter-token-latency", "time-per-output-token"),
    )
    save: Path | None = option(None, "Directory for these files; default the model's name.")
    measured: Path | None = option(
        None,
        "Result of a benchmark (vllm bench, genai-perf, …) to set beside the prediction.",
        also=("against",),
    )
