"""Options of the ways in which requests reach a network: MLPerf's scenarios, streams of audio, streams of video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podsim.options.question import option

SCENARIOS = ("", "offline", "server", "single-stream", "multi-stream")


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """What networks read."""

    SECTION = "Networks"

    input: Sequence[str] | None = option(
        None,
        "Shape of an input of a module FILE.py:FUNCTION, with B for the samples: Bx3x224x224. Repeatable.",
    )
    tables: str = option("", "Embedding tables of a recommender, e.g. 100GB; default those of the network.")


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions(NetworkOptions):
    """How requests arrive."""

    SECTION = "Networks: scenarios and streams"

    scenario: str = option(
        "", "As MLPerf Inference asks: offline, server, single-stream, multi-stream.", choices=SCENARIOS
    )
    percentile: float | None = option(None, "Percentile that --latency, --ttft and --tpot limit; default 99.")
    queue_delay: str = option("", "Longest wait of a request for a fuller batch, e.g. 2ms; default none.")
    streams: int | None = option(None, "Streams at once; default: as many as one GPU or all of them carry.")
    chunk: str = option("", "Speech in streams: audio of one chunk, e.g. 160ms.")
    context: str = option("", "Speech in streams: audio around a chunk that is computed again, e.g. 1.2s.")
    video: str = option("", "Video in streams: size and frames a second, e.g. 1080p30.")
    codec: str = option("h264", "Video: h264, hevc, vp9, av1, or jpeg for single images.")
    every: int = option(1, "Video: every how many frames the network looks; a tracker fills the others.")
    tracker: str = option("", "Video: the tracker: none, iou, nvsort, nvdcf.")
