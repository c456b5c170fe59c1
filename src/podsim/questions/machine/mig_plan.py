"""`podsim mig plan`: the layouts of a node's GPUs for a mix of jobs, and the commands for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.errors import MigError, NoFitError, PodsimError, UnitError
from podsim.hardware.catalog import find, load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.hardware.mig.best import Assignment, Wish, best_fleet
from podsim.hardware.mig.mig_plans import WHOLE, make_plan
from podsim.hardware.mig.profiles import Slicing, find_profile, slicing_of
from podsim.hardware.mig.results import GpuPlan, MigPlan
from podsim.hardware.overrides import read_quantity
from podsim.hardware.parts import Gpu
from podsim.options.machine_options import MigPlanOptions
from podsim.options.output_options import MigPlanOutput
from podsim.options.question import question
from podsim.whole_files import write_files, write_whole

_JOB = re.compile(r"([^:=]+)[:=]\s*(\d{1,6})\s*[x*]\s*([^@]+?)(?:@([0-9.eE+-]+))?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _write_files(plan: MigPlan, output: MigPlanOutput, options: Mapping[str, Any]) -> None:
    """Write the files that divide the GPUs, and draw them."""
    if output.save is not None:
        save_plan(plan, output.save)
    if output.plot is not None:
        write_whole(output.plot, call("report.pictures:image_of", plan, output.plot.suffix.lower()[1:]))


@question(
    MigPlanOptions,
    output=MigPlanOutput,
    write=_write_files,
)
def mig_plan(options: MigPlanOptions) -> MigPlan:
    """What the GPUs of `on` become for the jobs.

    `on` is a node or cluster ("dgx-a100-40gb", "dgx-a100-40gb:4"), or one GPU ("a100-40gb").  A job is NAME:NUMBERxWHAT:
    "training:4xgpu" (whole GPUs), "inference:14x1g.5gb" (that profile), "bert:5x8GB" (any instance with so much memory;
    "bert:5x8GB@0.4" if 40 % of its time on a whole GPU shrinks with no slice).  Whole GPUs are given out first, then
    profiles are packed, then the others are placed for the objective.

    Raises PodsimError for what cannot be read or can be met by no instance, NoFitError where the GPUs do not suffice.
    """
    chip, nodes, per_node = _machine(options.on)
    slicing = slicing_of(chip)
    wishes = _wishes(slicing, options.jobs)
    total = nodes * per_node
    undivided = [wish for wish in wishes if wish.profile == WHOLE]
    rest = [wish for wish in wishes if wish.profile != WHOLE]
    taken = sum(wish.count for wish in undivided)
    if taken > total:
        raise NoFitError([f"{taken} whole GPUs asked for; {options.on} has {total}"])
    left = total - taken
    divided = best_fleet(slicing, left, rest, objective=options.objective) if rest else (None,) * left
    gpus = _gpus(nodes, per_node, [wish.name for wish in undivided for _ in range(wish.count)], divided)
    flexible = {wish.name for wish in rest if not wish.profile}
    speeds = [s for wish in gpus for job, s in zip(wish.jobs, wish.speeds, strict=True) if job in flexible]
    return make_plan(options.on, chip, slicing, nodes, wishes, gpus, options.objective, speeds)


def _machine(on: str) -> tuple[Gpu, int, int]:
    """(GPU, nodes, GPUs of a node) of a cluster's or a GPU's name."""
    entry = find(on)
    if entry and entry[0] == "gpu":
        return load_gpu(on), 1, 1
    cluster = load_cluster(on)
    return cluster.gpu, cluster.nodes, cluster.gpus_per_node


def _wishes(slicing: Slicing, jobs: Sequence[str]) -> tuple[Wish, ...]:
    """The jobs as wishes. Raises MigError with everything that cannot be read."""
    problems: list[str] = []
    made: list[Wish] = []
    for text in jobs:
        try:
            made.append(_wish(slicing, text))
        except MigError as error:
            problems += [f"{text[:60]}: {problem}" for problem in error.problems]
    twice = [name for name, count in Counter(wish.name for wish in made).items() if count > 1]
    problems += [f"{name} is given twice" for name in twice]
    if not jobs:
        problems.append("no jobs; give some, such as training:4xgpu, inference:14x1g or bert:5x8GB@0.4")
    if problems:
        raise MigError(problems)
    return tuple(made)


def _wish(slicing: Slicing, text: str) -> Wish:
    match = _JOB.fullmatch(text.strip())
    if match is None:
        raise MigError(
            ["expected NAME:NUMBERxWHAT, such as training:4xgpu, inference:14x1g.5gb, bert:5x8GB@0.4"]
        )
    name, number, what, fixed = (part.strip() if part else "" for part in match.groups())
    problems = []
    if not _NAME.fullmatch(name):
        problems.append(f"name {name[:40]!r}: small letters, digits and dashes, at most 63")
    if not 1 <= int(number) <= 100_000:
        problems.append(f"{number} jobs; 1 to 100,000")
    share = 0.0
    try:
        share = float(fixed or 0.0)
    except ValueError:
        problems.append(f"@{fixed}: the share of time that no slice shrinks, from 0 to 1")
    wish = Wish(name=name, count=int(number), fixed=share)
    if what.lower() == WHOLE:
        wish = replace(wish, profile=WHOLE)
    elif re.fullmatch(r"[0-9.]+\s*[KMGT]i?B", what):
        try:
            wish = replace(wish, memory=read_quantity(what, "B", what="memory"))
        except UnitError as error:
            problems.append(str(error))
    else:
        try:
            wish = replace(wish, profile=find_profile(slicing, what).name)
        except MigError as error:
            problems += [f"{problem}; or gpu, or a memory such as 8GB" for problem in error.problems]
    if fixed and wish.profile:
        problems.append(f"@{fixed} belongs to a job that takes any instance; {wish.profile} was asked for")
    if problems:
        raise MigError(problems)
    return wish


def _gpus(
    nodes: int, per_node: int, undivided: Sequence[str], divided: Sequence[object]
) -> tuple[GpuPlan, ...]:
    """A plan for each GPU: whole ones first, then the divided ones, then the idle ones."""
    used = [assignment for assignment in divided if isinstance(assignment, Assignment)]
    made = []
    for number in range(nodes * per_node):
        at = {"node": number // per_node, "index": number % per_node}
        if number < len(undivided):
            made.append(GpuPlan(**at, mode="whole", layout=None, jobs=(undivided[number],), speeds=(1.0,)))
        elif number < len(undivided) + len(used):
            assignment = used[number - len(undivided)]
            made.append(
                GpuPlan(
                    **at, mode="mig", layout=assignment.layout, jobs=assignment.jobs, speeds=assignment.speeds
                )
            )
        else:
            made.append(GpuPlan(**at, mode="idle", layout=None, jobs=(), speeds=()))
    return tuple(made)


def save_plan(plan: MigPlan, directory: Path) -> None:
    """Write commands.sh, mig-parted.yaml and kubernetes.yaml. Raises PodsimError where nothing can be written."""
    script = "".join(f"# {nodes}\n" + "\n".join(commands) + "\n" for nodes, commands in plan.commands)
    files = {
        "commands.sh": f"#!/bin/sh\nset -e\n{script}", "mig-parted.yaml": plan.parted, "kubernetes.yaml": plan.kubernetes
    }  # fmt: skip
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_files({directory / name: text for name, text in files.items()})
    except OSError as error:
        raise PodsimError(f"{directory}: cannot be written: {error.strerror}") from None
