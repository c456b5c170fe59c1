"""`podsim plan`: the best ways to train a model on a cluster, found among every legal plan, with the reason for each."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, cast

from podsim.answers.answer import call
from podsim.answers.minutes import TargetPlan
from podsim.answers.prediction import PlanResult
from podsim.answers.study import NO_FIT
from podsim.errors import NoFitError, PodsimError
from podsim.options.output_options import GlanceOutput, PlotOutput
from podsim.options.plan_options import SearchOptions, TargetOptions
from podsim.options.question import Progress, like, option, question, values_of
from podsim.questions.registry import ask
from podsim.records import MISSING, dataclass, replace
from podsim.runs.best_plans import find_plans, with_whole_runs
from podsim.runs.search_case import TRADES, read_case
from podsim.storage.long_runs import read_days
from podsim.training.job_inputs import refuse_tables

if TYPE_CHECKING:
    from podsim.answers.graphs import GraphCost
    from podsim.answers.sharding import Sharded

_RECIPES = "launching.experiment_file:recipes_of_tools"
_SEARCHING = "searching plans"


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """A search that was saved."""

    experiment: str | Path = option(
        MISSING, "An experiment.toml that `podsim plan --save` wrote.", kind=Path, argument=True
    )
    save: str | Path | None = like(SearchOptions, "save")
    detail: str = like(SearchOptions, "detail")


def _search_of(options: TargetOptions) -> SearchOptions:
    """The search among them."""
    return SearchOptions(**values_of(options, TargetOptions, SearchOptions))


def _with_fewest(options: SearchOptions) -> tuple[SearchOptions, tuple[str, ...]]:
    """The search on the fewest GPUs that train given tokens in given days, where no number of GPUs is given.

    A cluster of several nodes is taken as it is.
    """
    if (
        options.gpus is not None
        or options.tokens is None
        or options.days is None
        or options.objective in TRADES
    ):
        return options, ()
    from podsim.studies.fewest import fewest_row, settings_of  # it costs jobs of all kinds

    case, _ = read_case(options)
    if case.cluster.nodes > 1:
        return options, ()
    days = read_days(options.days) / 86400.0
    row = fewest_row({**settings_of(options), "days": days}, ask)
    if row.status == NO_FIT:
        raise NoFitError([row.reason])
    said = (
        row.reason or f"{row.gpus:,} are the fewest that meet {days:g} days, of {len(row.tried)} counts tried"
    )
    return replace(options, gpus=row.gpus), (said,)


def suggested(error: PodsimError, options: TargetOptions) -> PodsimError:
    """The error that no plan fits, with the fewest GPUs on which one does."""
    from podsim.studies.fewest import gpus_that_fit

    gpus = gpus_that_fit(_search_of(options), ask)
    more = f"more GPUs, as {gpus:,}," if gpus else "no number of GPUs is enough;"
    return NoFitError([str(error).replace("more GPUs,", more)]).offer(**({"gpus": gpus} if gpus else {}))


def _say_saved(result: PlanResult, _: object, options: Mapping[str, Any]) -> None:
    """Say on standard error which files were saved, and what to know before they are run."""
    if options["save"] is not None:
        case, *_ = read_case(_search_of(TargetOptions(**{**options, "gpus": result.gpus})))
        recipes = call(_RECIPES, case.model, case.cluster, case.options, result)
        for line in call("launching.experiment_file:saved_words", Path(options["save"]), recipes):
            sys.stderr.write(
                fill(f"podsim: {line}", 80, subsequent_indent="  ", break_on_hyphens=False) + "\n"
            )


@dataclass(frozen=True, kw_only=True)
class GlancePlot(GlanceOutput, PlotOutput):
    """The answer at a glance, and a picture."""


@question(
    TargetOptions,
    output=GlancePlot,
    reads=lambda options: options.to_target or read_case(_search_of(options)),
    compared="questions.train.study:compare_clusters",
    network="questions.train.plan:planned_network",
    enough="questions.train.plan:suggested",
    progress=_SEARCHING,
    after=_say_saved,
)
def plan(options: TargetOptions, *, progress: Progress | None = None) -> PlanResult | TargetPlan:
    """Search every legal plan of a model on a cluster; rank the best layouts, each with its reason.

    The ranking shows one plan for each layout (tp, pp, cp, ep, dp): the fastest, or with objective="memory" the one
    that needs least memory. By cost (of a step, at a price) and by energy, `gpus` and its halves are searched, and
    the fronts of time against both are given. With `tokens` and `days`, and no `gpus`, the fewest GPUs of a system that
    make it are searched first, and a note says so. A limit may be a list of values: {"tp": (4, 8)}; all other fields are
    searched. With `simulate`, the result also says where simulation and closed form disagree. With `to_target`, the
    answer is the best batch and GPUs of a benchmark of MLPerf Training. `progress` is called with (evaluated, all)
    combinations; Ctrl-C gives the best so far. Raises NoFitError when no plan fits, saying by how much, PlanError when
    none is legal, and PodsimError for anything unusable.
    """
    refuse_tables(options, options.model)
    if options.to_target:
        from podsim.runs.plan_target import plan_target  # it costs networks of all kinds

        return plan_target(options, progress)
    if options.round:
        raise PodsimError("round: a round of MLPerf Training goes with --to-target")
    if options.save is not None or options.launch:
        call("launching.experiment_file:check_saving", options.save, options.launch)
    search, notes = _with_fewest(_search_of(options))
    case, result = find_plans(search, progress)
    result = with_whole_runs(case, replace(result, notes=(*notes, *result.notes)))
    if options.save is not None:
        recipes = call(_RECIPES, case.model, case.cluster, case.options, result)
        call("launching.experiment_file:save_plans", result, Path(options.save), recipes)
    return result


def planned_network(options: Mapping[str, Any]) -> GraphCost | Sharded | PlanResult | TargetPlan:
    """The best placement of a recommender's tables over the GPUs, with its step; of other networks the best division."""
    from podsim.graphs.recommender import tables_of
    from podsim.graphs.replicated_network import division_options, graph_options

    if options["to_target"]:
        return plan(**options)
    if tables_of(str(options["model"]).lower()) is None and not options["tables"]:
        division: Sharded = ask("shard", **division_options(options))
        return division
    cost: GraphCost = ask("graph", **graph_options({**options, "placement": options["placement"] or "best"}))
    return cost


@question(ReplayOptions, output=GlanceOutput, progress=_SEARCHING)
def replay(options: ReplayOptions, *, progress: Progress | None = None) -> PlanResult:
    """Run the search of an experiment file that `plan` saved; raises the errors of `plan`."""
    saved = call("launching.experiment_file:read_experiment", Path(options.experiment))
    return cast("PlanResult", plan(**saved, save=options.save, detail=options.detail, progress=progress))
