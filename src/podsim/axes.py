"""Types of arrays, and words for their axes. A shape stands in the annotation of an array, never as letters in its name.

    seconds: Shaped[Floats, "stage plan"]

is an array of numbers with one row for each class of stages and one column for each plan. `Shaped` is
`typing.Annotated`: it costs nothing at run time, and mypy reads the array's own type.
"""

from __future__ import annotations

from typing import Annotated as Shaped  # noqa: F401  (other modules import it from here)
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
SmallInts: TypeAlias = NDArray[np.int32]
NarrowInts: TypeAlias = NDArray[np.signedinteger[Any]]
"""integers of as few bytes as they need"""

AXES = {
    "action": "actions of all schedule tables at hand, or those on the paths through them",
    "batch": "batches of requests that a server runs at once",
    "block": "distinct blocks of a model: embedding, kinds of layer, head",
    "budget": "limits on what the requests of an engine may hold",
    "call": "calls of a kernel",
    "candidate": "ways that a choice compares: algorithms and protocols, draws of a route",
    "chip": "chips of a slice of a torus",
    "choice": "equally good ways, or equally near ports",
    "chunk": "chunks of a collective's buffer",
    "class": "classes of ranks that do the same at the same time",
    "count": "what is counted along a path, or on a rank",
    "data": "data and context ranks",
    "destination": "parts of a server as ends of a way",
    "dimension": "dimensions of a torus",
    "direction": "forward and backward, or up and down a ring",
    "draw": "bootstraps of a fit, or draws of a route",
    "duration": "sets of typical durations that a schedule is played with",
    "element": "elements of a buffer, or of arguments that broadcast",
    "extent": "numbers of the shape of an op",
    "field": "fields of a plan, of a candidate or of a row",
    "flags": "values of the flags that a search tries on every plan",
    "flow": "flows of a transfer",
    "gemm": "matrix products of one op: forward, input gradient, weight gradient",
    "gpu": "GPUs of a server",
    "group": "groups of spines",
    "hop": "links of a route, in order",
    "job": "jobs of a queue",
    "k": "measured depths of a matrix product",
    "kind": "kinds of memory, of a model's blocks or of spans",
    "leaf": "leaf switches",
    "limit": "limits on the latency of a request",
    "m": "measured rows of a matrix product",
    "member": "ranks and switches of a collective",
    "micro": "micro-batches",
    "model": "models of GPU",
    "n": "measured columns of a matrix product",
    "node": "actions of all schedule tables, those that run side by side as one",
    "notch": "sizes of an elastic job",
    "op": "ops of one kind, or of a graph",
    "operand": "the two operands of a matrix product",
    "pair": "pairs of ends of a fabric",
    "part": "parts of the seconds of a layer, of a step or of a class",
    "pass": "passes through a layer: forward, backward under each recomputation, weight gradients",
    "path": "paths through the table of a pipeline",
    "pixel": "columns of a picture",
    "plan": "plans: all of a search, some of them, or one for each distinct key",
    "port": "ports of a switch's tree, or of a server on a network",
    "position": "some of the plans of a search, by their positions in it",
    "rail": "rails of a network",
    "rank": "pipeline ranks, or ranks of a collective or of a job",
    "rate": "rates of requests",
    "reach": "one node, several, several leaf switches",
    "recompute": "ways of recomputing: none, selective, full",
    "replica": "data-parallel replicas",
    "request": "kinds of request for parts of GPUs",
    "ring": "rings of a collective",
    "round": "rounds of data-parallel workers",
    "row": "rows of a table, or of a timeline",
    "run": "runs of neighbouring plans with equal degrees, or published runs",
    "sequences": "numbers of sequences that an engine runs at once",
    "server": "servers of a cluster",
    "sharing": "numbers of pipeline stages that may share a node",
    "size": "sizes of a published run",
    "source": "parts of a server as starts of a way",
    "stage": "classes of equal pipeline stages, or the stages of schedule tables",
    "step": "steps of a training",
    "table": "tables of routes of servers that are alike",
    "tensor": "ways of tensor parallelism (plain collectives, overlapped ones), or tensor ranks",
    "timed": "the plans of a search that have a time",
    "trained": "training runs whose final losses are known",
    "way": "ways between parts of a server, of all tables",
    "work": "kinds of work in a schedule: forward, backward, input gradient, weight gradient",
    "worker": "data-parallel workers",
}
"""word -> what lies along the axis"""
