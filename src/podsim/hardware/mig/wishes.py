"""Jobs that ask for GPUs or instances, read from their texts, and the machine that is divided for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from podsim.errors import MigError, UnitError, raise_all
from podsim.hardware.catalog import find, load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.hardware.mig.best import Wish
from podsim.hardware.mig.mig_plans import WHOLE
from podsim.hardware.mig.profiles import Slicing, find_profile
from podsim.hardware.overrides import read_quantity
from podsim.hardware.parts import Gpu

_JOB = re.compile(r"([^:=]+)[:=]\s*(\d{1,6})\s*[x*]\s*([^@]+?)(?:@([0-9.eE+-]+))?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def read_machine(on: str) -> tuple[Gpu, int, int]:
    """(GPU, nodes, GPUs of a node) of a cluster's or a GPU's name."""
    entry = find(on)
    if entry and entry[0] == "gpu":
        return load_gpu(on), 1, 1
    cluster = load_cluster(on)
    return cluster.gpu, cluster.nodes, cluster.gpus_per_node


def read_wishes(slicing: Slicing, jobs: Sequence[str]) -> tuple[Wish, ...]:
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
    raise_all(problems, MigError)
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
    raise_all(problems, MigError)
    return wish
