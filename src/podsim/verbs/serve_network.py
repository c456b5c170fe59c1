"""What `podsim serve` answers for a network that writes no text: batches, a scenario, or streams."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.options.question import wrong_choices
from podsim.options.serving_options import ServeOptions
from podsim.results.scenario_run import ScenarioRun, StreamRun
from podsim.results.served import Served
from podsim.verbs.serve_batches import serve_batches
from podsim.verbs.serve_scenario import serve_scenario
from podsim.verbs.serve_streams import serve_streams

_STREAMS = ("context", "tracker")
"""options that only streams read"""


def serve_network(options: ServeOptions) -> Served | ScenarioRun | StreamRun:
    """The answer of `podsim serve` for a network on each GPU or instance.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if wrong := wrong_choices(options, "scenario"):
        raise PodsimError("; ".join(wrong))
    is_stream = bool(options.chunk or options.video or options.streams)
    if options.scenario and is_stream:
        raise PodsimError(
            "scenario: streams of speech or video have a load of their own; leave the scenario away"
        )
    if options.scenario:
        return serve_scenario(options)
    if is_stream:
        return serve_streams(options)
    if wrong := [name for name in _STREAMS if getattr(options, name)]:
        raise PodsimError(f"{', '.join(wrong)}: for streams, which --chunk 160ms or --video 1080p30 asks for")
    return serve_batches(options)
