"""Words for the axes of arrays. A shape stands in the annotation of an array, never as letters in its name.

    seconds: Shaped[Array, "stage plan"]

is an array with one row for each class of stages and one column for each plan. `Shaped` is `typing.Annotated`: it costs
nothing at run time, and mypy reads the array's own type.
"""

from __future__ import annotations

from typing import Annotated as Shaped  # noqa: F401  (other modules import it from here)

AXES = {
    "action": "actions of all schedule tables at hand, or those on the paths through them",
    "block": "distinct blocks of a model: embedding, kinds of layer, head",
    "count": "what is counted along a path",
    "draw": "bootstraps of a fit",
    "direction": "forward and backward",
    "duration": "sets of typical durations that a schedule is played with",
    "field": "fields of a plan",
    "flags": "values of the flags that a search tries on every plan",
    "gemm": "matrix products of one op: forward, input gradient, weight gradient",
    "kind": "kinds of memory",
    "node": "actions of all schedule tables, those that run side by side as one",
    "op": "ops of one kind",
    "part": "parts of the seconds of a layer, or of a step",
    "pass": "passes through a layer: forward, backward under each recomputation, weight gradients",
    "path": "paths through the table of a pipeline",
    "plan": "plans: all of a search, some of them, or one for each distinct key",
    "rank": "pipeline ranks",
    "position": "some of the plans of a search, by their positions in it",
    "recompute": "ways of recomputing: none, selective, full",
    "run": "runs of neighbouring plans with equal degrees",
    "sharing": "numbers of pipeline stages that may share a node",
    "stage": "classes of equal pipeline stages, or the stages of schedule tables",
    "tensor": "ways of tensor parallelism: plain collectives, overlapped ones",
    "trained": "training runs whose final losses are known",
    "timed": "the plans of a search that have a time",
    "work": "kinds of work in a schedule: forward, backward, input gradient, weight gradient",
}
"""word -> what lies along the axis"""
