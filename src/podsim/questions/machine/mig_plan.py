"""`podsim mig plan`: the layouts of a node's GPUs for a mix of jobs, and the commands for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.mig.best import best_fleet
from podsim.hardware.mig.commands import helm_text
from podsim.hardware.mig.mig_plans import WHOLE, make_gpus, make_plan
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.results import MigPlan
from podsim.hardware.mig.wishes import read_machine, read_wishes
from podsim.options.output_options import DrawOutput
from podsim.options.question import option, question
from podsim.whole_files import write_files, write_whole


@dataclass(frozen=True, kw_only=True)
class MigPlanOptions:
    """Jobs, and the GPUs that are divided for them."""

    on: str = option(
        MISSING, "Node, cluster or GPU: dgx-a100-40gb, dgx-a100-40gb:4, a100-40gb.", argument=True
    )
    jobs: Sequence[str] = option(
        (),
        "NAME:4xgpu, NAME:14x1g.5gb, NAME:5x8GB, NAME:5x8GB@0.4 (share no slice shrinks). Repeatable.",
        flag="--job",
    )
    objective: str = option(
        "throughput", "What to maximise: throughput, or slowest (the speed of the slowest job)."
    )


@dataclass(frozen=True, kw_only=True)
class MigPlanOutput(DrawOutput):
    """The same, and files that divide the GPUs."""

    save: Path | None = option(
        None, "Directory for commands.sh, mig-parted.yaml, kubernetes.yaml, helm-values.yaml."
    )


def _write_files(plan: MigPlan, output: MigPlanOutput, options: Mapping[str, Any]) -> None:
    """Write the files that divide the GPUs, and draw them."""
    if output.save is not None:
        save_plan(plan, output.save)
    if output.plot is not None:
        write_whole(output.plot, call("report.pictures:image_of", plan, output.plot.suffix.lower()[1:]))


@question(MigPlanOptions, output=MigPlanOutput, write=_write_files)
def mig_plan(options: MigPlanOptions) -> MigPlan:
    """MIG layouts of the GPUs of `on` that hold the jobs.

    `on` is a node or cluster ("dgx-a100-40gb", "dgx-a100-40gb:4"), or one GPU ("a100-40gb").  A job is NAME:NUMBERxWHAT:
    "training:4xgpu" (whole GPUs), "inference:14x1g.5gb" (that profile), "bert:5x8GB" (any instance with so much memory;
    "bert:5x8GB@0.4" if 40 % of its time on a whole GPU shrinks with no slice).  Whole GPUs are given out first, then
    profiles are packed, then the others are placed for the objective.

    Raises PodsimError for what cannot be read or can be met by no instance, NoFitError where the GPUs do not suffice.
    """
    chip, nodes, per_node = read_machine(options.on)
    slicing = slicing_of(chip)
    wishes = read_wishes(slicing, options.jobs)
    total = nodes * per_node
    undivided = [wish for wish in wishes if wish.profile == WHOLE]
    rest = [wish for wish in wishes if wish.profile != WHOLE]
    taken = sum(wish.count for wish in undivided)
    if taken > total:
        raise NoFitError([f"{taken} whole GPUs asked for; {options.on} has {total}"])
    left = total - taken
    divided = best_fleet(slicing, left, rest, objective=options.objective) if rest else (None,) * left
    gpus = make_gpus(nodes, per_node, [wish.name for wish in undivided for _ in range(wish.count)], divided)
    flexible = {wish.name for wish in rest if not wish.profile}
    speeds = [s for wish in gpus for job, s in zip(wish.jobs, wish.speeds, strict=True) if job in flexible]
    return make_plan(options.on, chip, slicing, nodes, wishes, gpus, options.objective, speeds)


def save_plan(plan: MigPlan, directory: Path) -> None:
    """Write MigPlanOutput's files. Raises PodsimError where nothing can be written."""
    script = "".join(f"# {nodes}\n" + "\n".join(commands) + "\n" for nodes, commands in plan.commands)
    files = {
        "commands.sh": f"#!/bin/sh\nset -e\n{script}", "mig-parted.yaml": plan.parted,
        "kubernetes.yaml": plan.kubernetes, "helm-values.yaml": helm_text(plan.strategy),
    }  # fmt: skip
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_files({directory / name: text for name, text in files.items()})
    except OSError as error:
        raise PodsimError(f"{directory}: cannot be written: {error.strerror}") from None
