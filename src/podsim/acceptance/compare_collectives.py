"""Measured collectives and their predictions, with the difference explained by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from podsim.acceptance.comparable import errors_of, is_busy, verdict_of
from podsim.acceptance.shaped_links import Parts, on_shaped_links
from podsim.answers.lab import (
    ComparedCollective,
    ComparedCollectives,
    MeasuredCollective,
    MeasuredCollectives,
)
from podsim.errors import LabError, PodsimError
from podsim.network.collectives import Table, summary
from podsim.network.collectives.lookup import table_of
from podsim.report.collectives import links_text

_SHORTEST = 0.1
"""s of all timed calls below which the kernel's clock (a tick is 10 ms) does not tell who used the processors"""
OnCluster: TypeAlias = Callable[[float, Table | None], float]
"""(B, table) to s on the cluster that a run is of; None: what NCCL would choose"""


def compare_collectives(
    run: MeasuredCollectives, name: str, on: str, overrides: Mapping[str, str] | None, seconds_on: OnCluster
) -> ComparedCollectives:
    """The rows of a run and their predictions: on the links that it was given, or on the cluster `on`.

    Raises LabError for a run on links that nobody described.
    """
    if run.emulated is not None and (on or overrides):
        raise LabError(f"{name} says which links it ran on; --on and --set are for runs on a real cluster")
    if run.emulated is None and not on:
        raise LabError(
            f"{name} ran on links that nobody described; name the cluster with --on, or measure on links that are "
            "known: podsim emulate dgx-a100:2 --scale 1/4000 -- podsim measure collective --save run.jsonl"
        )
    rows: list[ComparedCollective] = []
    missing = dict(run.left_out)
    for row in run.rows:
        try:
            parts = _predicted(run, row, seconds_on)
        except PodsimError as problem:
            missing[f"{row.algorithm} of {row.size:,.0f} B"] = str(problem)
            continue
        rows.append(_compared(run, row, parts))
    mean, worst = errors_of(rows)
    return ComparedCollectives(
        run=name, collective=run.collective, ranks=run.ranks, machine=links_text(run),
        cluster=on or "the same links", rows=tuple(rows), mean=mean, worst=worst, not_predicted=missing,
        apart=run.apart,
    )  # fmt: skip


def _compared(run: MeasuredCollectives, row: MeasuredCollective, parts: Parts) -> ComparedCollective:
    predicted, measured = sum(parts), row.slowest
    return ComparedCollective(
        algorithm=row.algorithm, size=row.size, measured=measured, predicted=predicted,
        difference=predicted / measured - 1.0,
        parts=parts._asdict() | {"rest": measured - predicted},
        cpu=row.cpu, others=row.others,
        verdict=verdict_of({
            "wrong result": bool(row.wrong or row.in_place_wrong),
            "CPU-limited": is_busy(run.backend, row.cpu, row.others),
            "too short": run.backend == "gloo" and row.iterations * row.seconds < _SHORTEST,
        }),
    )  # fmt: skip


def _predicted(run: MeasuredCollectives, row: MeasuredCollective, seconds_on: OnCluster) -> Parts:
    """The prediction of one row. Raises PodsimError where there is none."""
    if run.emulated is not None:
        if run.ranks != run.emulated.ranks:
            raise PodsimError(
                f"{run.ranks} ranks ran on {run.emulated.ranks} emulated ones; all must take part"
            )
        return on_shaped_links(run, _table(run, row), row.size, 1 if run.apart else row.iterations)
    if row.algorithm == "library" and run.backend == "nccl":
        return Parts(seconds_on(row.size, None), 0.0)
    table = _table(run, row)
    return Parts(seconds_on(row.size, table), summary(table).rounds * run.message)


def _table(run: MeasuredCollectives, row: MeasuredCollective) -> Table:
    """The table that a row ran; for the library's own, the one that gloo runs."""
    name = row.algorithm
    if name == "library":
        if run.collective != "all-reduce":
            raise PodsimError(
                f"what gloo does for {run.collective} is not modelled; its all-reduce is a ring"
            )
        name = "ring"
    return table_of(name, run.collective, run.ranks // run.local, run.local)
