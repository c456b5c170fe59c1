"""`podsim serve`: a model that answers requests on GPUs or on MIG instances.

Each way of serving is loaded when it is asked for, as each brings rooms that the others do not need.
"""

from __future__ import annotations

from dataclasses import replace

from podsim.answers.best_serving import BestServing
from podsim.answers.compared_server import ComparedServer
from podsim.answers.scenario_run import EnsembleRun, ScenarioRun, StreamRun
from podsim.answers.served import Figure, Served
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError
from podsim.hardware.catalog import find, load_system
from podsim.options.best_options import BestOptions
from podsim.options.language_options import LanguageOptions
from podsim.options.load_options import LoadOptions
from podsim.options.output_options import PlotOutput
from podsim.options.question import options_of, question
from podsim.options.scenario_options import ScenarioOptions
from podsim.options.serving_options import ServeOptions
from podsim.questions.registry import ask
from podsim.serving.language_setup import is_language_engine, is_network
from podsim.serving.trace_file import Progress

_OTHER_FORMATS = ("fp32", "tf32")
"""number formats that no engine of language models runs"""
_SHARED = ("engine", "rate", "input_tokens", "output_tokens")
"""options of language models that networks read, too"""


@question(
    ServeOptions,
    fill="podsim.serving.deployments.deployments:with_serving_plan",
    output=PlotOutput,
    progress="serving",
    status=lambda answer: int(getattr(answer, "best", answer) is None),
)
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
        made: Figure = ask("figure", options.figure)
        return made
    if options.measured is not None:
        from podsim.serving.measured_server import serve_measured

        return serve_measured(options.measured, options)
    if not options.model or not options.on:
        raise PodsimError("serve needs a model and a GPU: podsim serve batches bert-large --on a100")
    options = _with_gpus(options)
    is_other = is_network(options)
    (_check_network if is_other else _check_language)(options)
    if (
        is_other
        or options.sparse
        or options.precision in _OTHER_FORMATS
        or not is_language_engine(options.engine)
    ):
        from podsim.serving.network_serving import serve_network

        return serve_network(_with_lengths(options))
    answer = _language_answer(options, progress)
    if options.launch or options.save is not None:
        from podsim.serving.deployments.deployments import with_files

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


def _is_under_load(options: ServeOptions) -> bool:
    """Whether requests arrive, so that a server is simulated."""
    return bool(options.rate or options.load or options.trace or options.clients is not None)


def _with_lengths(options: ServeOptions) -> ServeOptions:
    """The options of a static batch, whose sequences all have the same tokens.

    Raises PodsimError for what only requests that arrive have.
    """
    if not _is_under_load(options):
        idle = [
            known.flag or f"--{name.replace('_', '-')}"
            for name, known in options_of(LoadOptions).items()
            if name not in ("input_tokens", "output_tokens") and getattr(options, name) != known.default
        ]
        if idle:
            raise PodsimError(
                f"{', '.join(idle)}: of a server that requests arrive at; add --rate 20/s, --load 80%, --clients 16"
            )
    names = {"tokens": options.input_tokens, "output": options.output_tokens}
    given = {name: text for name, text in names.items() if text}
    wrong = [f"{name}: {text[:40]!r}" for name, text in given.items() if not text.isdecimal()]
    if wrong:
        raise PodsimError(
            f"{', '.join(wrong)}: a distribution of lengths needs requests that arrive, as --rate 20/s"
        )
    made = replace(options, input_tokens="", output_tokens="")
    tokens, output = (int(given[name][:9]) if name in given else getattr(options, name) for name in names)
    return replace(made, tokens=tokens, output=output)


def _language_answer(options: ServeOptions, progress: Progress | None) -> Served | ServedLoad | BestServing:
    """The answer about a language model: the best way, a server under load, or static batches."""
    if options.ttft or options.tpot:
        from podsim.serving.best_inputs import serve_best

        return serve_best(options, progress=progress)
    if _is_under_load(options):
        from podsim.serving.load.simulated_server import serve_load

        return serve_load(options, progress=progress)
    from podsim.serving.language_batches import serve_static

    return serve_static(_with_lengths(options))


def _check_network(options: ServeOptions) -> None:
    """Raise PodsimError for options of a network that only language models read."""
    wrong = [
        name for name in _given(options, LanguageOptions, LoadOptions, BestOptions) if name not in _SHARED
    ]
    if wrong:
        raise PodsimError(
            f"{_flags(wrong)}: of language models; {options.model[-60:]} takes --scenario, --rate, --chunk or --video"
        )


def _check_language(options: ServeOptions) -> None:
    """Raise PodsimError for options of a language model that only networks read."""
    wrong = [name for name in _given(options, ScenarioOptions) if name != "percentile"]
    if wrong:
        raise PodsimError(
            f"{_flags(wrong)}: of networks; {options.model[-60:]} is a language model: --rate, --ttft, --tpot"
        )


def _given(options: ServeOptions, *groups: type) -> list[str]:
    """The options of some groups that differ from their defaults."""
    known = options_of(ServeOptions)
    names = dict.fromkeys(name for group in groups for name in options_of(group))
    return [name for name in names if getattr(options, name) != known[name].default]


def _flags(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)
