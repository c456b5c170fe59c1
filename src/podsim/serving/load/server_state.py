"""The inputs of a simulated server (Requests, Pool) and its State, as arrays for the C sources next to it.

Times are s since the start, sizes B; -1 stands for none. A request is in one queue, or on one replica.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.native import c_function

ALL_DONE, PAUSE, STUCK = range(3)
"""Why `advance` returns: all requests ended, the steps are over, no event can follow."""
TO_COME, QUEUED, ADMITTED, ANSWERED, GIVEN_UP, REFUSED = range(6)
"""The status of a request."""
ROLES = ("both", "prefill", "decode")
OFF, LOADING, READY, DRAINING = range(4)
"""The status of a replica."""
ROUTINGS = ("round-robin", "least-loaded", "prefix-aware", "one-queue", "random")
FLIGHTS, GROUPS, BINS, DEPTHS = 64, 64, 1024, 8
"""steps in flight at most; groups of requests, and bins of the times between tokens; depths of drafted tokens"""
CLOCK = 0
"""position in State.time"""
STEPS, FINISHED = 7, 4
"""positions in State.number"""
NUMBERS, TIMES = 11, 3

KIND = np.dtype([
    ("model", np.int64),
    ("role", np.int64),  # position in ROLES
    ("stages", np.int64),
    ("step", np.float64),  # s
    ("request", np.float64),  # s
    ("tokens", np.int64),  # entries of this axis of its tables, as the next four
    ("decode_requests", np.int64),
    ("decode_contexts", np.int64),
    ("prompt_news", np.int64),
    ("prompt_pasts", np.int64),
    ("table", np.int64),  # position of its tables in Pool.table
    ("block_tokens", np.int64),
    ("blocks", np.int64),
    ("state_blocks", np.int64),  # blocks of a sequence's state
    ("token_bytes", np.float64),
    ("state_bytes", np.float64),
    ("sequences", np.int64),  # at once
    ("batch_tokens", np.int64),  # of a step
    ("chunked", np.int64),  # a prompt may be divided over steps
    ("mixed", np.int64),  # prompts and decoding sequences may share a step
    ("together", np.int64),  # requests join an empty replica only
    ("reserve", np.float64),  # share of an answer for which memory is kept at admission
    ("host_rate", np.float64),  # B/s to the host's memory for swapping; 0: preempted sequences are recomputed
    ("draft", np.int64),  # tokens that are drafted for a step
    ("acceptance", np.float64, (DEPTHS,)),  # probability that a drafted token is accepted, by its depth
    ("poll", np.int64),  # decoding steps between looks at new requests
    ("ahead", np.int64),  # a step is planned while the one before runs
    ("merge", np.int64),  # decoding steps that are one event at least, where nothing else happens; 0: each is its own
    ("hold_steps", np.int64),  # decoding steps for which new requests wait for others
    ("hold_requests", np.int64),  # new requests that wait for no others
    ("caching", np.int64),  # prefixes are kept
    ("adapters", np.int64),  # slots; 0: all adapters are there
    ("adapter_seconds", np.float64),  # s to load one
    ("link_rate", np.float64),  # B/s of a transfer of a cache
    ("link_latency", np.float64),  # s
    ("load_seconds", np.float64),  # s to load the weights
])  # fmt: skip
"""The record of a kind of replica."""

REQUEST = np.dtype([
    ("arrived", np.float64),  # s
    ("admitted", np.float64),  # s, time at which its first step began
    ("first", np.float64),  # s, time of its first token
    ("done", np.float64),  # s, time of its end
    ("last", np.float64),  # s, time of its last token so far
    ("made", np.int32),  # tokens of its answer
    ("computed", np.int32),  # tokens in its cache
    ("room", np.int32),  # tokens for which it has blocks
    ("own", np.int32),  # blocks that it does not share
    ("shared", np.int32),  # units of its prompt that it shares
    ("reserved", np.int32),  # blocks that are kept for it
    ("source", np.int32),  # replica that still has its cache
    ("source_own", np.int32),
    ("source_shared", np.int32),
    ("replica", np.int32),
    ("planned", np.int32),  # tokens of its step
    ("preempted", np.int32),  # number of times
    ("cached", np.int32),  # tokens that another request had computed
    ("next", np.int32),
    ("prior", np.int32),
    ("flight", np.int8),  # number of its step
    ("status", np.int8),
    ("swapped", np.int8),
    ("arriving", np.int8),  # its cache is on the way
    ("leaving", np.int8),  # its client gave up
], align=True)  # fmt: skip
"""The record of a request."""

REPLICA = np.dtype([
    ("kind", np.int64),
    ("status", np.int64),
    ("head", np.int64),  # first request of its queue
    ("tail", np.int64),
    ("waiting", np.int64),
    ("running", np.int64),
    ("flights", np.int64),  # steps under way
    ("steps", np.int64),
    ("free", np.int64),  # blocks
    ("oldest", np.int64),  # unit that was not used for longest
    ("newest", np.int64),
    ("idle", np.int64),  # units that nobody uses
    ("reserved", np.int64),  # blocks
    ("dirty", np.int64),
    ("preempted", np.int64),
    ("sequences", np.int64),  # summed over steps
    ("prompt_tokens", np.int64),
    ("decode_tokens", np.int64),
    ("most_blocks", np.int64),
    ("visible", np.int64),  # requests of its queue that the scheduler knows
    ("iterations", np.int64),  # steps since the scheduler looked for requests
    ("held", np.int64),  # steps for which its first new request waits for others
    ("began", np.int64),  # whether sequences decoded in its last step
    ("stage_free", np.float64),  # s, time at which the next step may start
    ("last_end", np.float64),  # s
    ("link_free", np.float64),  # s
    ("on_since", np.float64),  # s
    ("quiet_since", np.float64),  # s
    ("on", np.float64),  # s that it was loaded or loading, until it was last stopped
    ("busy", np.float64),  # s of its first stage
    ("full_sequences", np.float64),  # s of steps that others waited for: all sequences were taken
    ("full_blocks", np.float64),  # s: too few blocks
    ("full_tokens", np.float64),  # s: the tokens of the step
    ("full_adapters", np.float64),  # s: the slots of adapters
    ("part_step", np.float64),  # s of steps by part
    ("part_tokens", np.float64),
    ("part_decode", np.float64),
    ("part_prompt", np.float64),
    ("part_moved", np.float64),
    ("block_seconds", np.float64),  # blocks in use times s
    ("sent", np.float64),  # B of caches that it received
])  # fmt: skip
"""The record of a replica."""

UNIT = np.dtype([("users", np.int32), ("older", np.int32), ("newer", np.int32)])
"""The record of a unit of a prefix on a replica: -1 users where it is not there."""

ADAPTER = np.dtype([("number", np.int64), ("users", np.int64), ("used", np.int64)])
"""The record of a slot for an adapter."""

EVENT = np.dtype([("when", np.float64), ("order", np.int64), ("kind", np.int64), ("target", np.int64)])
"""The record of an event."""


class Requests(NamedTuple):
    """The requests in order."""

    arrival: Floats
    """s. The arrival; in a closed loop the time that the client thinks before."""
    input: Ints
    output: Ints
    model: Ints
    adapter: Ints
    patience: Floats
    """s. The time after which its client gives up."""
    prefix: Ints
    """The units of all prompts."""
    prefix_first: Ints
    rows: int
    clients: int
    """The number of clients of a closed loop; 0: open."""


class Pool(NamedTuple):
    """The replicas, and how requests get to them."""

    kind: Any
    """Records of KIND."""
    table: Floats
    """The tables of all kinds: axes and s."""
    replicas: int
    models: int
    units: int
    """The number of different units."""
    unit_tokens: int
    slots: int
    """The most sequences of a replica."""
    adapter_slots: int
    adapters: int
    """The number of different adapters that requests ask for."""
    routing: int
    """The position in ROUTINGS."""
    least: int
    """The least replicas of a model."""
    interval: float
    """s. The time between looks at the load; 0: replicas are never started or stopped."""
    target: float
    """The open requests of a replica that autoscaling aims at."""
    cooldown: float
    """s. The time that a replica is superfluous before it is stopped."""
    seed: int


class State(NamedTuple):
    """What changes."""

    request: Any
    replica: Any
    unit: Any
    """Records of UNIT, replica after replica."""
    adapter: Any
    asked: NDArray[np.int32]
    """The waiting requests without an adapter, and of each adapter, replica after replica."""
    event: Any
    running: Ints
    """The running requests, in the order of admission, replica after replica."""
    dirty: Ints
    line: Ints
    """The first and last request of each model's common queue."""
    gaps: Ints
    """The number of times between tokens, for each group of requests and bin."""
    number: Ints
    time: Floats


advance = c_function("server_advance", Requests, Pool, State, int, result=int)
"""Advance by a number of steps; see the reasons above."""


def gap_edges() -> NDArray[np.float64]:
    """s. The lower edges of the bins of times between tokens: 32 an octave from 2^-20 s."""
    octave, part = np.divmod(np.arange(BINS + 1), 32)
    edges: NDArray[np.float64] = np.exp2(octave - 20.0) * (1 + part / 32)
    return edges
