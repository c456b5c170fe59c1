"""Options of the ways in which requests reach a network: MLPerf's scenarios, streams of audio, streams of video."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.options.question import option

SCENARIOS = ("", "offline", "server", "single-stream", "multi-stream")


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """How requests arrive."""

    SECTION = "Networks: scenarios and streams"

    scenario: str = option(
        "", "As MLPerf Inference asks: offline, server, single-stream, multi-stream.", choices=SCENARIOS
    )
    percentile: float | None = option(None, "Percentile that --latency, --ttft and --tpot limit; default 99.")
    queue_delay: str = option("", "Longest wait of a request for a fuller batch, as 2ms; default none.")
