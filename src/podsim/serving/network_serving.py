"""What `podsim serve` answers for a network that writes no text: batches, a scenario, streams, an ensemble."""

from __future__ import annotations

from podsim.answers.scenario_run import EnsembleRun, ScenarioRun, StreamRun
from podsim.answers.served import Served
from podsim.errors import PodsimError, raise_all
from podsim.options.question import wrong_choices
from podsim.options.serving_options import ServeOptions
from podsim.serving.media_streams import serve_streams
from podsim.serving.network_batches import serve_batches
from podsim.serving.network_scenario import serve_scenario
from podsim.serving.served_ensemble import serve_ensemble

_STREAMS = ("context", "tracker")
"""options that only streams read"""
_OF_STEPS = ("batch", "precision", "tokens", "engine", "queue_delay")
"""what the table of a step states"""


def serve_network(options: ServeOptions) -> Served | ScenarioRun | StreamRun | EnsembleRun:
    """The answer of `podsim serve` for a network on each GPU or instance.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if options.model.endswith(".toml"):
        _check_ensemble(options)
        return serve_ensemble(options)
    raise_all(wrong_choices(options, "scenario"))
    is_stream = bool(options.chunk or options.video or options.streams is not None)
    has_load = bool(options.scenario or options.rate)
    if has_load and is_stream:
        raise PodsimError(
            "scenario, rate: streams of speech or video have a load of their own; leave them away"
        )
    if options.triton is not None and (has_load or is_stream):
        raise PodsimError(
            "triton: config.pbtxt is of the best batch within --latency; leave scenario and streams away"
        )
    if has_load:
        return serve_scenario(options)
    if is_stream:
        return serve_streams(options)
    if unread := [name for name in _STREAMS if getattr(options, name)]:
        raise PodsimError(
            f"{', '.join(unread)}: for streams, which --chunk 160ms or --video 1080p30 asks for"
        )
    return serve_batches(options)


def _check_ensemble(options: ServeOptions) -> None:
    """Raise PodsimError for options that are of one network."""
    names = ("scenario", "chunk", "video", "streams", "context", "tracker", "tables", "input", *_OF_STEPS)
    wrong = [name for name in names if getattr(options, name)]
    if wrong:
        raise PodsimError(
            f"{', '.join(wrong)}: not of an ensemble, which takes --rate, --latency and --percentile; "
            f"a step's table in the file has {', '.join(_OF_STEPS)}"
        )
