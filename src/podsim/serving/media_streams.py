"""A network that answers streams of speech or video.

podsim serve rnnt --on t4 --chunk 160ms
podsim serve resnet50 --on t4 --video 1080p30
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from podsim.answers.scenario_run import StreamRun
from podsim.answers.served import Served
from podsim.errors import PodsimError
from podsim.graphs.networks import is_graph, networks
from podsim.hardware.parts import Gpu
from podsim.options.serving_options import ServeOptions
from podsim.serving.batch_queue import BatchServer
from podsim.serving.captured_batches import graph_of_options
from podsim.serving.media_units import Video, decoded_streams, media_units, read_video, tracker_seconds
from podsim.serving.network_batches import read_limit
from podsim.serving.network_scenario import batches_of, read_delay, read_percentile
from podsim.serving.scenarios import Ask, queue_server
from podsim.serving.serving_gpus import read_serving_gpu
from podsim.serving.streams import Streams, carried_streams, run_streams, stream_points
from podsim.units import format_quantity, parse_quantity

_LIMIT = {"speech": 0.3, "video": 0.1}
"""s. The limit where none is given: Riva's 300 ms, three frames of video."""
_CHUNK = "160ms"
_MOST_STREAMS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Streams of one kind, before a server answers them."""

    kind: str
    title: str
    period: float
    """s. The time between two requests of a stream."""
    length: float
    """s. The part of a stream that a request covers."""
    served: Served
    each: float = 0.0
    """s. The GPU's time of a request apart from the network."""
    fixed: float = 0.0
    """s. The time of a request that no GPU spends."""
    others: Mapping[str, float]
    notes: tuple[str, ...]


def serve_streams(options: ServeOptions) -> StreamRun:
    """The answer of `podsim serve` with --chunk, --video or --streams. Raises PodsimError for what contradicts itself."""
    if options.chunk and options.video:
        raise PodsimError("chunk and video: a stream is of speech or of video; give one of them")
    if options.streams is not None and not 1 <= options.streams <= _MOST_STREAMS:
        raise PodsimError(f"streams={options.streams}: 1 to {_MOST_STREAMS:,}")
    source = _video(options) if options.video else _speech(options)
    asked = Streams(
        period=source.period, limit=read_limit(options.latency) or _LIMIT[source.kind],
        percentile=read_percentile(options.percentile) or 0.99, others=source.others,
    )  # fmt: skip
    server = _server(source, options)
    units = carried_streams(server, asked)
    bottleneck = min(units, key=lambda unit: units[unit])
    most = int(units[bottleneck])
    if most < 1:
        raise PodsimError(f"{bottleneck} carries {units[bottleneck]:.2f} of one stream; give a smaller one")
    count = options.streams or most
    run, served = run_streams(server, count, source.period), source.served
    return StreamRun(
        model=served.model, kind=source.kind, gpu=served.gpu, instances=served.instances, precision=served.precision,
        engine=served.engine, period=source.period, limit=asked.limit, percentile=asked.percentile, streams=count,
        most=most, units=units, bottleneck=bottleneck, rate=count / source.period,
        speed=count * source.length / source.period, p50=run.percentile(0.5), p99=run.percentile(asked.percentile),
        batch=run.batch, is_carried=count <= most, title=source.title, points=stream_points(server, asked, most),
        assumptions=(*source.notes, *served.assumptions), warnings=served.warnings,
    )  # fmt: skip


def _server(source: _Source, options: ServeOptions) -> BatchServer:
    """The batches of the network, with what else the GPU does for each request."""
    server = queue_server(source.served, Ask(scenario="streams", delay=read_delay(options.queue_delay)))
    return replace(server, seconds=server.seconds + server.batches * source.each, fixed=source.fixed)


def _speech(options: ServeOptions) -> _Source:
    network = graph_of_options(options) if is_graph(options.model) else None
    if network is None or not network.audio:
        speech = ", ".join(name for name, entry in networks().items() if entry.audio)
        raise PodsimError(
            f"{options.model[-60:]} is no network of speech, such as {speech}; for streams of video give --video 1080p30"
        )
    chunk, context = (
        parse_quantity(text, "s", what=name)
        for name, text in (("chunk", options.chunk or _CHUNK), ("context", options.context or "0 s"))
    )
    if not (1e-3 <= chunk <= 60 and 0 <= context <= 60):
        raise PodsimError(
            f"chunk={chunk:g} s and context={context:g} s: chunks of 1 ms to 60 s, context up to 60 s"
        )
    served = batches_of(options, portion=(chunk + context) / network.audio)
    title = f"speech in chunks of {format_quantity(chunk, 's')}"
    notes = [
        f"latency counts from the end of a chunk; with its {format_quantity(chunk, 's')} it is what a speaker sees"
    ]
    if context:
        title += f", {format_quantity(context, 's')} of context"
        notes.append("the context around a chunk is computed again with each chunk")
    else:
        notes.append(
            "the network keeps its state between chunks: nothing is computed twice; --context says otherwise"
        )
    return _Source(
        kind="speech", title=title, period=chunk, length=chunk, served=served, others={}, notes=tuple(notes)
    )


def _video(options: ServeOptions) -> _Source:
    if not 1 <= options.every <= 1000:
        raise PodsimError(f"every={options.every}: 1 to 1,000 frames")
    video, codec = read_video(options.video), options.codec.lower()
    served = batches_of(options)
    chip, _, _ = read_serving_gpu(options.on, options.overrides)
    decoded = served.instances * decoded_streams(chip, video, codec)
    units = media_units(chip)
    tracker = options.tracker or ("iou" if options.every > 1 else "none")
    scaling = _scaling_seconds(chip, video)
    title = f"{video.width} x {video.height} {codec} at {video.rate:g} frames/s"
    if options.every > 1:
        title += f", one of {options.every} inferred"
    return _Source(
        kind="video", title=title, period=options.every / video.rate, length=options.every / video.rate, served=served,
        each=scaling + options.every * tracker_seconds(tracker, chip),
        fixed=served.instances / (decoded * video.rate),
        others={"decoding": decoded},
        notes=(
            f"{units.decoders} decoders and {units.jpegs} JPEG engines on each: {units.source}",
            f"frames are scaled on the GPU, tracker {tracker}; post-processing and display are not counted",
        ),
    )  # fmt: skip


def _scaling_seconds(gpu: Gpu, video: Video) -> float:
    """s of one frame to be read as NV12 and written at the network's size, bound by memory."""
    return 1.5 * 2 * video.width * video.height / gpu.memory_bandwidth
