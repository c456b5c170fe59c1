"""`podsim serve`: a model that answers requests on GPUs or on MIG instances."""

from __future__ import annotations

from dataclasses import replace

from podsim.errors import PodsimError
from podsim.graphs.networks import is_captured
from podsim.options.question import question
from podsim.options.serving_options import ServeOptions
from podsim.results.best_serving import BestServing
from podsim.results.scenario_run import ScenarioRun
from podsim.results.served import Figure, Served
from podsim.serving.deployments.deployments import with_serving_plan
from podsim.serving.language_layers import is_language_model
from podsim.serving.language_setup import is_language_engine, model_keys
from podsim.serving.white_paper import figure
from podsim.verbs.serve_best import serve_best
from podsim.verbs.serve_launch import write_files
from podsim.verbs.serve_network import serve_network
from podsim.verbs.serve_static import serve_static
from podsim.workload.catalog import load_model
from podsim.workload.convolution import CONVOLUTIONAL

_OTHER_FORMATS = ("fp32", "tf32")
"""number formats that no engine of language models runs"""


@question(ServeOptions, fill=with_serving_plan)
def serve(options: ServeOptions) -> Served | BestServing | ScenarioRun | Figure:
    """Predict a model's latency, throughput and memory by batch on a GPU or on MIG instances.

    `on` is a GPU ("a100-40gb"), an instance of one ("a100-40gb/1g.5gb"), several equal ones ("a100-40gb/7x1g.5gb",
    "8xa100-40gb"), or a system or cluster for all its GPUs ("dgx-a100-40gb/7x1g.5gb"). A figure of the white paper is
    made instead of a prediction, and takes no model and no GPU.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if options.figure is not None:
        if options.model or options.on:
            raise PodsimError("figure: a figure of the white paper takes no model and no GPU")
        return figure(options.figure)
    if not options.model or not options.on:
        raise PodsimError("serve needs a model and a GPU: podsim serve bert-large --on a100-40gb/1g.5gb")
    if options.ttft or options.tpot:
        best = serve_best(options)
        return replace(best, notes=(*best.notes, *_written(best, options)))
    if _is_static(options):
        served = serve_static(options)
        return replace(served, assumptions=(*served.assumptions, *_written(served, options)))
    return serve_network(options)


def _written(answer: BestServing | Served, options: ServeOptions) -> tuple[str, ...]:
    """Lines about the files that start an answer, where the user wants them."""
    return write_files(answer, options) if options.launch or options.save is not None else ()


def _is_static(options: ServeOptions) -> bool:
    """Whether a language model is asked for, in an engine of such models."""
    if is_captured(options.model) or options.model.lower() in CONVOLUTIONAL:
        return False
    if options.sparse or options.precision in _OTHER_FORMATS or not is_language_engine(options.engine):
        return False
    return is_language_model(load_model(options.model, model_keys(options.overrides)))
