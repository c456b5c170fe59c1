"""Options of exporters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podsim.options.fleet_options import QueueOptions
from podsim.options.question import like, option

FORMS = ("prometheus", "openmetrics")


@dataclass(frozen=True, kw_only=True)
class ExporterOptions:
    """What is exported, and how."""

    source: str = option(
        "host", "host (this machine), what podsim train --save wrote, or jobs for a day, as podsim queue takes them.",
        argument=True,
    )  # fmt: skip
    on: str = like(
        QueueOptions, "on", "The cluster of simulated jobs: dgx-h100:4, selene, a TOML file.", default=""
    )
    policy: str = option("easy", "The queue's policy.")
    where: Mapping[str, str] | None = like(QueueOptions, "where")
    drain: Sequence[str] = like(QueueOptions, "drain")
    maintenance: Sequence[str] = like(QueueOptions, "maintenance")
    seed: int = option(0, "Seed of arrivals, of differences between GPUs, and of random faults.")
    model: str = option("bert-large", "What simulated jobs train, with the best plan for their GPUs.")
    fault: Sequence[str] = option(
        (), "Break something, e.g. hot-gpu@3/5@6h+2h (KIND@NODE/PART@START+LENGTH) or random:7. Repeatable."
    )
    start: str = option("0s", "Start of the simulated day after the queue's first job, e.g. 12h.")
    length: str = option("24h", "Its length.")
    begin: str = option("", "Its first moment as a date, 2026-01-31 or 2026-01-31T08:00; default yesterday.")
    every: str = option("60s", "Time between samples that --write writes.")
    speed: float = option(60.0, "Simulated seconds per second of a live replay.")
    write: Path | None = option(None, "Write the whole day to FILE as OpenMetrics, for promtool, and end.")
    files: Path | None = option(
        None, "Write dashboards, alert rules and a configuration to a folder, and end."
    )
    once: bool = option(False, "Print one scrape and end.", flag="--once")
    form: str = option("prometheus", "Form of --once: prometheus or openmetrics.", choices=FORMS)
    host_label: str = option(
        "hostname", "Label of the host on GPU metrics: older dcgm-exporters say Hostname."
    )
    root: Path = option(Path("/"), "Root of the file systems of the machine that is read.")
    port: int = option(9400, "Port to listen on.")
    host: str = option(
        "127.0.0.1", "Address to listen on; another than this machine's own shows it to others."
    )
