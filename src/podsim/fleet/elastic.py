"""Elastic jobs: their speed and their goodput on fewer and more GPUs than they ask for.

A size is the number of GPUs that a job asks for, halved or doubled up to four times. The global batch stays, so
statistical efficiency does too, and goodput is the speed times the share of time that failures leave. At each decision
sizes come before placement: the least sizes in the order of the queue, then the GPUs that add most goodput. With goodput
concave in GPUs, this greedy choice is the best division.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError
from podsim.fleet.jobs import Jobs
from podsim.fleet.operations import Operations
from podsim.fleet.policies import Policy
from podsim.fleet.queue_state import ASKED, NOTCHES

DOUBLINGS = np.arange(NOTCHES) - ASKED
"""The doublings from the size that a job asks for to each size."""


def elastic_jobs(jobs: Jobs, factor: float, scaling: float, room: Ints) -> Jobs:
    """The jobs, each able to run on 1 / `factor` to `factor` times the GPUs that it asks for, but on at most `room`.

    A predicted speed stands. Elsewhere twice the GPUs give 2 `scaling` times the speed; 0.9 by default is podsim's
    choice. Raises PodsimError for impossible numbers.
    """
    if not (1 <= factor <= 2**ASKED and 0.5 < scaling <= 1):
        raise PodsimError(
            f"elastic={factor:g}, scaling={scaling:g}; elastic is 1 to {2**ASKED}, scaling above 0.5 and at most 1"
        )
    size = jobs.gpus[:, None] * 2.0**DOUBLINGS
    allowed = np.asarray((size % 1 == 0) & (size <= room[:, None]) & (2.0 ** np.abs(DOUBLINGS) <= factor))
    law = np.broadcast_to((2.0 * scaling) ** DOUBLINGS, size.shape)
    known = jobs.pace if len(jobs.pace) else np.zeros_like(size)
    pace = np.where(np.max(known, axis=1, keepdims=True) > 0, known, law)
    return replace(jobs, pace=np.ascontiguousarray(np.where(allowed, pace, 0.0)))


def goodput_rates(jobs: Jobs, policy: Policy, operations: Operations | None, per_node: int) -> Floats:
    """factor. The goodput of each job at each size: its speed less the first-order loss to failures.

    On N nodes, failures at the rate r a node cost N r (R + T / 2): restarts, and half the time between checkpoints.
    """
    if not len(jobs.pace):
        raise PodsimError(
            "policy elastic: no job is elastic; say how far, as --elastic 4 (a fourth to four times)"
        )
    rate = operations.rate if operations is not None else 0.0
    nodes = np.ceil(jobs.gpus[:, None] * 2.0**DOUBLINGS / per_node)
    work = policy.saves if policy.saves else jobs.seconds[:, None]
    return np.ascontiguousarray(
        jobs.pace * np.maximum(1.0 - nodes * rate * (policy.restart + work / 2.0), 1e-3)
    )
