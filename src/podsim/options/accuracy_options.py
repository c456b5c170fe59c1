"""Options about accuracy: validate and calibrate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class ValidateOptions:
    """Which measurements predictions are compared with."""

    tables: Sequence[str] = option(
        (),
        "A packaged table, serving (language models), failures, or kernels-all (every raw row of kernels); repeatable."
        " Default: all packaged but these.",
        flag="--table",
        argument=True,
    )
    raw: Path | None = option(
        None, "With --table kernels-all: the folder of the raw tables; default that of the checkout."
    )
    rows: str | Path | None = option(
        None,
        "CSV with the columns of a reference table, log of nccl-tests, run of the lab, or result of a benchmark of "
        "servers (vllm bench, SGLang, genai-perf, aiperf, trtllm-bench, MLPerf inference).",
        kind=Path,
    )
    on: str = option("", "With the result of a benchmark of servers: the GPUs, e.g. dgx-h100:1.")
    role: str = option("", "test or calibrate: only the rows of that role.")


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """Which constants are fitted, and to what."""

    files: Sequence[Path] = option(
        (),
        "CSV files with the columns of a reference table, logs of nccl-tests, runs of the lab.",
        argument=True,
    )
    gpus: Sequence[str] = option((), "Only the kernels of this GPU; repeatable.", flag="--gpu")
    software: str = option("", "Fit this software instead: NAME or NAME.GPU.")
    constants: str = option("", "With --software: which constants, comma-separated.")
    to: Path | None = option(None, "Directory to write to; default a new one, calibrated.")
    check: bool = option(False, "Fit again and compare with the packaged constants.", flag="--check")
