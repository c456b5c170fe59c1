"""Options of a study, and of its output."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.options.output_options import PICTURES, Output
from podsim.options.plan_options import SearchOptions
from podsim.options.question import like, option

CHARTS = ("overview", "days", "money", "energy", "scaling", "pareto")
FIGURES = ("GPUs", "days", "money", "energy", "carbon", "power", "step", "tokens/s", "MFU", "memory", "loss")
"""the figures of a design"""


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """A study and where it runs."""

    study: Any = option(
        MISSING, "A TOML file with designs, or a grid of them.", kind=Path, argument=True, metavar="FILE"
    )
    days: float | None = option(
        None, "Find the fewest GPUs of each design that train it in that many days.", kind=float
    )
    executor: Any = option(
        "processes", "Where it runs: processes, processes:N, serial, dask:tcp://HOST:PORT or mpi.", kind=str
    )
    store: str | Path | None = option(
        None, "SQLite file of the answers; default FILE.sqlite, `none` keeps none.", kind=Path
    )


@dataclass(frozen=True, kw_only=True)
class FewestOptions(SearchOptions):
    """A search for the fewest GPUs."""

    days: float = option(MISSING, "Days that training may take, with failures.", kind=float)
    gpus: int | None = like(SearchOptions, "gpus", "The most GPUs to try; default the whole cluster.")


@dataclass(frozen=True, kw_only=True)
class StudyOutput(Output):
    """A table, files of it, and charts."""

    plot: Path | None = option(None, "Draw charts: FILE.svg or .png.", suffixes=PICTURES)
    chart: str = option("overview", f"What --plot draws: {', '.join(CHARTS)}.", choices=CHARTS)
    axes: str = option("money,days", f"Axes of the Pareto chart, two of {', '.join(FIGURES)}.")
    xlsx: Path | None = option(None, "Write a workbook.", suffixes=(".xlsx",))
    parquet: Path | None = option(None, "Write a Parquet file.", suffixes=(".parquet",))
