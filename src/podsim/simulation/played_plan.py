"""One step of a legal plan, lowered to ops and played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from podsim.answers.answer import call
from podsim.answers.simulated import SimulatedStep
from podsim.errors import NoFitError, PodsimError
from podsim.graphs.trace_graph import TraceGraph
from podsim.simulation.events import play_tiled
from podsim.simulation.export import trace_graphs
from podsim.simulation.failed_steps import Failing, failing_step
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble, with_slow_hosts
from podsim.simulation.outcome import outcome
from podsim.simulation.port_flows import path_shares
from podsim.simulation.port_records import step_telemetry
from podsim.training.plan import Setting
from podsim.training.predict import predict_plan


def simulate_setting(
    setting: Setting,
    *,
    kernels: bool,
    unfold: bool,
    trouble: Trouble,
    force: bool = False,
    chakra: Path | None = None,
    fault: Failing | None = None,
) -> SimulatedStep:
    """The played step of a legal plan."""
    model, cluster, plan, *_ = setting
    prediction = predict_plan(model, cluster, plan)
    trouble = with_slow_hosts(trouble, cluster, int(plan.gpus))
    others = [predict_plan(model, cluster.having(gpu), plan) for gpu in dict.fromkeys(trouble.nodes.values())]
    tightest = min([prediction, *others], key=lambda candidate: candidate.memory_limit - candidate.memory)
    if not tightest.fits and not force:
        need, room = tightest.memory / 1e9, tightest.memory_limit / 1e9
        said = f"the plan needs {need:.1f} GB on its fullest stage, a GPU has {room:.1f} GB"
        raise NoFitError([f"{said}; --force simulates it anyway"])
    if fault is not None and chakra is not None:
        raise PodsimError("a trace of a step that fails cannot be replayed: leave chakra or the failure out")
    if fault is not None:
        return replace(
            failing_step(
                setting,
                fault,
                kernels=kernels,
                unfold=unfold,
                trouble=trouble,
                closed_form=prediction.step_time,
            ),
            warnings=_plan_warnings(setting, tightest.fits),
        )
    if trouble.swap or cluster.routing:
        trouble = replace(trouble, paths=path_shares(plan, cluster, trouble.swap))
    lowered = lower(model, cluster, plan, kernels=kernels, unfold=unfold, trouble=trouble)
    has_equals = unfold and trouble.jitter == 0.0
    folded = lower(model, cluster, plan, kernels=kernels, trouble=trouble) if has_equals else lowered
    played = play_tiled(lowered.tiled)
    step = replace(
        outcome(model, cluster, plan, lowered, played, prediction.step_time, folded=folded),
        make_telemetry=lambda: step_telemetry(
            cluster, plan, lowered, played, trouble, f"{model.name} on {cluster.name}"
        ),
    )
    if chakra is not None:
        _write_chakra(trace_graphs(lowered, played, plan, cluster), chakra)
    notes = [*_plan_warnings(setting, tightest.fits)]
    if trouble.nodes:
        notes.append(f"the closed form is that of a cluster whose servers all have {cluster.gpu.name}")
    if trouble.shares:
        notes.append(f"micro-batches of each replica: {', '.join(map(str, trouble.shares))}")
    if (trouble.left or trouble.swap) and not step.links:
        notes.append("a slow adapter or a wrong cable changes nothing: nothing leaves a node under this plan")
    if not lowered.table.flush:
        notes.append(
            "an asynchronous schedule: the table is a window of an endless run, with its start and end"
        )
    return replace(step, warnings=tuple(notes))


def _plan_warnings(setting: Setting, fits: bool) -> tuple[str, ...]:
    """What is to be said of a plan, whatever happens to its step."""
    notes = [] if fits else ["the plan does not fit the memory: it could not be run"]
    if setting.default_batch:
        notes.append("the batch was not given: about four million tokens")
    host = setting.cluster.host
    if host is not None and host.share < 1 and int(setting.plan.pp) > 1:
        notes.append(
            "ranks share cores, and here each keeps its share while it waits: the closed form is nearer to the machine"
        )
    return tuple(notes)


def _write_chakra(graphs: list[TraceGraph], folder: Path) -> None:
    """A file for each rank, rank.N.et, in a folder that is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PodsimError(f"{folder}: cannot be made: {error.strerror or error}") from None
    call("graphs.chakra_mend:write_chakra", graphs, folder / "rank")
