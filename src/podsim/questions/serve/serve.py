"""`podsim serve`: a model that answers requests on GPUs or on MIG instances."""

from __future__ import annotations

from dataclasses import replace

from podsim.answers.best_serving import BestServing
from podsim.answers.compared_server import ComparedServer
from podsim.answers.scenario_run import EnsembleRun, ScenarioRun, StreamRun
from podsim.answers.served import Figure, Served
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError
from podsim.hardware.catalog import find, load_system
from podsim.options.question import question
from podsim.options.serving_options import ServeOptions
from podsim.questions.serve.load_inputs import is_under_load, with_lengths
from podsim.questions.serve.serve_best import serve_best
from podsim.questions.serve.serve_launch import with_files
from podsim.questions.serve.serve_load import Progress, serve_load
from podsim.questions.serve.serve_measured import serve_measured
from podsim.questions.serve.serve_network import serve_network
from podsim.questions.serve.serve_static import serve_static
from podsim.questions.serve.serving_kind import check_language, check_network, is_network
from podsim.serving.deployments.deployments import with_serving_plan
from podsim.serving.language_setup import is_language_engine
from podsim.serving.white_paper import figure

_OTHER_FORMATS = ("fp32", "tf32")
"""number formats that no engine of language models runs"""


@question(ServeOptions, fill=with_serving_plan)
def serve(
    options: ServeOptions, *, progress: Progress | None = None
) -> Served | ServedLoad | BestServing | ComparedServer | ScenarioRun | StreamRun | EnsembleRun | Figure:
    """Predict a model's latency, throughput and memory by batch on GPUs or MIG instances, or simulate it under load.

    `on` is a GPU ("a100-40gb"), an instance of one ("a100-40gb/1g.5gb"), several equal ones ("a100-40gb/7x1g.5gb",
    "8xa100-40gb"), or a system or cluster for all its GPUs ("dgx-a100-40gb/7x1g.5gb"). A figure of the white paper is
    made instead of a prediction, and takes no model and no GPU. With a rate, a load, a trace or clients a server of a
    language model is simulated request by request; `progress` is called with (requests that have ended, all). Networks
    that write no text take MLPerf's scenarios, a rate, streams of speech and of video, and ensembles.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    if options.figure is not None:
        if options.model or options.on:
            raise PodsimError("figure: a figure of the white paper takes no model and no GPU")
        return figure(options.figure)
    if options.measured is not None:
        return serve_measured(options.measured, options)
    if not options.model or not options.on:
        raise PodsimError("serve needs a model and a GPU: podsim serve bert-large --on a100-40gb/1g.5gb")
    options = _with_gpus(options)
    if is_network(options):
        check_network(options)
        return serve_network(with_lengths(options))
    check_language(options)
    if options.sparse or options.precision in _OTHER_FORMATS or not is_language_engine(options.engine):
        return serve_network(with_lengths(options))
    answer = _language_answer(options, progress)
    if options.launch or options.save is not None:
        return with_files(answer, options)
    return answer


def _with_gpus(options: ServeOptions) -> ServeOptions:
    """The options with the number of GPUs in their name. Raises PodsimError for a name that has its own number."""
    if options.gpus is None:
        return options
    kind, name = find(options.on) or ("", options.on)
    if kind == "system":
        name = load_system(name).gpu.name
    if kind != "gpu" or options.gpus < 1:
        raise PodsimError(
            f"gpus={options.gpus}: 1 or more of a GPU by its name, as --on {name if kind else 'a100-80gb'} --gpus 2; "
            f"{options.on[:60]} says its own number"
        )
    return replace(options, on=f"{options.gpus}x{options.on}", gpus=None)


def _language_answer(options: ServeOptions, progress: Progress | None) -> Served | ServedLoad | BestServing:
    """The answer about a language model: the best way, a server under load, or static batches."""
    if options.ttft or options.tpot:
        return serve_best(options, progress=progress)
    if is_under_load(options):
        return serve_load(options, progress=progress)
    return serve_static(with_lengths(options))
