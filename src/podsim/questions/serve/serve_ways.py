"""`podsim serve batches`, `load`, `best` and `streams`: the ways of serving, each with the options that it reads.

All of them are answered by `podsim.serve`, which knows every option. `overrides` gives those without a flag, as
`serve.seed=1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.answers.best_serving import BestServing
from podsim.answers.compared_server import ComparedServer
from podsim.answers.scenario_run import EnsembleRun, ScenarioRun, StreamRun
from podsim.answers.served import Figure, Served
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError, unknown_name
from podsim.options.output_options import PlotOutput
from podsim.options.question import options_of, question
from podsim.options.serving_options import (
    ServeBatchesOptions,
    ServeBestOptions,
    ServeLoadOptions,
    ServeOptions,
    ServerOptions,
    ServeStreamsOptions,
)
from podsim.questions.registry import ask
from podsim.serving.trace_file import Progress

_FILL = "podsim.serving.deployments.deployments:with_serving_plan"
_SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


def _has_none(answer: Any) -> int:
    """The exit status 1 of an answer without a best one."""
    return int(getattr(answer, "best", answer) is None)


@question(ServeBatchesOptions, fill=_FILL, output=PlotOutput, progress="serving", status=_has_none)
def serve_batches(options: ServeBatchesOptions, *, progress: Progress | None = None) -> Served | Figure:
    """Predict latency, throughput and memory of static batches on GPUs or MIG instances, as `podsim.serve` does.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits the memory and the limit.
    """
    answer: Served | Figure = _served(options, progress)
    return answer


@question(ServeLoadOptions, fill=_FILL, output=PlotOutput, progress="serving", status=_has_none)
def serve_load(
    options: ServeLoadOptions, *, progress: Progress | None = None
) -> ServedLoad | ScenarioRun | EnsembleRun:
    """Simulate a server that requests arrive at by rate, trace or clients, as `podsim.serve` does.

    Raises PodsimError for anything unusable or without a load, and NoFitError where the model does not fit.
    """
    if not (options.rate or options.load or options.trace or options.clients is not None):
        raise PodsimError("a server needs requests: --rate 20/s, --load 80%, --clients 16 or --trace FILE")
    answer: ServedLoad | ScenarioRun | EnsembleRun = _served(options, progress)
    return answer


@question(ServeBestOptions, fill=_FILL, output=PlotOutput, progress="serving", status=_has_none)
def serve_best(
    options: ServeBestOptions, *, progress: Progress | None = None
) -> BestServing | ComparedServer:
    """Find the engine, layout and limits that serve a load at the least cost within limits, as `podsim.serve` does.

    Raises PodsimError for anything unusable or without a limit, and NoFitError where nothing fits.
    """
    if not (options.ttft or options.tpot or options.measured):
        raise PodsimError("the best way to serve needs a limit: --ttft 500ms, --tpot 30ms or both")
    answer: BestServing | ComparedServer = _served(options, progress)
    return answer


@question(ServeStreamsOptions, output=PlotOutput, progress="serving", status=_has_none)
def serve_streams(
    options: ServeStreamsOptions, *, progress: Progress | None = None
) -> Served | ScenarioRun | StreamRun | EnsembleRun:
    """Predict a network in a scenario of MLPerf Inference, or streams of speech or video, as `podsim.serve` does.

    Raises PodsimError for anything unusable, and NoFitError where no batch fits.
    """
    answer: Served | ScenarioRun | StreamRun | EnsembleRun = _served(options, progress)
    return answer


def _served(options: ServerOptions, progress: Progress | None) -> Any:
    """The answer of `podsim.serve` to the options of one way of serving."""
    given = {name: getattr(options, name) for name in options_of(type(options))}
    own = {key: text for key, text in (options.overrides or {}).items() if not key.startswith("serve.")}
    given |= {"overrides": own or None, **_further(options.overrides or {})}
    return ask("serve", **given, progress=progress)


def _further(overrides: Mapping[str, str]) -> dict[str, Any]:
    """The options without a flag that overrides give, as `serve.seed=1`; PodsimError for an unknown one or its value."""
    known = options_of(ServeOptions)
    made: dict[str, Any] = {}
    for key, text in overrides.items():
        name = key.removeprefix("serve.")
        if name == key:
            continue
        if name not in known or known[name].many or name in ("model", "plan"):
            raise PodsimError(unknown_name("option of serve", name, known))
        kind = known[name].kind or str
        try:
            made[name] = _SWITCHES[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError):
            expected = "true or false" if kind is bool else "a number" if kind is not Path else "a path"
            raise PodsimError(f"{key}={text[:40]}: expected {expected}") from None
    return made
