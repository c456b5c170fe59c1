"""What `podsim serve` answers for a network that writes no text: batches, or a scenario."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.options.question import wrong_choices
from podsim.options.serving_options import ServeOptions
from podsim.results.scenario_run import ScenarioRun
from podsim.results.served import Served
from podsim.verbs.serve_batches import serve_batches
from podsim.verbs.serve_scenario import serve_scenario


def serve_network(options: ServeOptions) -> Served | ScenarioRun:
    """The answer of `podsim serve` for a network on each GPU or instance.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if wrong := wrong_choices(options, "scenario"):
        raise PodsimError("; ".join(wrong))
    if options.scenario:
        return serve_scenario(options)
    return serve_batches(options)
