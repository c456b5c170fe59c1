"""`podsim compare`: a run of the lab beside its prediction, row by row, with the difference explained by kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from podsim.acceptance.compare_storage import compare_storage
from podsim.acceptance.shaped_links import Parts, on_shaped_links
from podsim.errors import LabError, PodsimError
from podsim.lab.record import read_run
from podsim.network.collectives import Table, summary
from podsim.network.collectives.lookup import table_of
from podsim.options.measure_options import CompareOptions
from podsim.options.question import question
from podsim.report.collectives import links_text
from podsim.results.lab import (
    ComparedCollective,
    ComparedCollectives,
    MeasuredCollective,
    MeasuredCollectives,
)
from podsim.results.lab_storage import ComparedStorage, MeasuredCheckpoints, MeasuredLoader
from podsim.results.sweep import Sweep
from podsim.results.trained import ComparedDdp, ComparedTraining, MeasuredDdp, MeasuredTraining
from podsim.verbs.collective import collective
from podsim.verbs.compare_ddp import OTHERS_MOST, OWN_MOST, compare_ddp
from podsim.verbs.compare_training import compare_training

_SHORTEST = 0.1
"""s of all timed calls below which the kernel's clock (a tick is 10 ms) does not tell who used the processors"""
_LIMITED = "CPU-limited, not comparable"


@question(CompareOptions)
def compare(
    options: CompareOptions,
) -> ComparedCollectives | ComparedStorage | ComparedTraining | ComparedDdp:
    """A measured run (--save of podsim measure or train) and its predictions, side by side.

    `on` is the cluster that collectives or training ran on (a run on emulated links needs none), or the storage system
    that was read and written; podsim.acceptance.compare_storage says what is predicted of these.

    Of collectives measured is the rank that took longest. A prediction is made of links (the table played on them),
    messages (a latency for each transfer that waits for another, as measured at the start of the run), burst (what the
    buckets of shaped links save) and processors (what passing on, copying and adding cost those that all ranks share,
    measured at the start, too); rest is what is left. Rows are not comparable where the ranks used more than half of the
    processors, or other programs more than a tenth. Raises LabError for a file that is no run, or one that says nothing
    of its links.
    """
    found = read_run(options.run)
    if isinstance(found, (MeasuredCheckpoints, MeasuredLoader)):
        return compare_storage(
            options.run.name, found, on=options.on, cache_on=options.cache_on, overrides=options.overrides
        )
    if options.cache_on:
        raise LabError(
            f"--cache-on is for runs of podsim measure loader; {options.run.name} is of another kind"
        )
    if isinstance(found, MeasuredTraining):
        return compare_training(found, options.run.name, options.on, options.overrides)
    if isinstance(found, MeasuredDdp):
        return compare_ddp(found, options.run.name, options.on, options.overrides)
    return _collectives(found, options.run, options.on, options.overrides)


def _collectives(
    found: MeasuredCollectives, run: Path, on: str, overrides: Mapping[str, str] | None
) -> ComparedCollectives:
    if found.emulated is not None and (on or overrides):
        raise LabError(
            f"{run.name} says which links it ran on; --on and --set are for runs on a real cluster"
        )
    if found.emulated is None and not on:
        raise LabError(
            f"{run.name} ran on links that nobody described; name the cluster with --on, or measure on links that are "
            "known: podsim emulate dgx-a100:2 --scale 1/4000 -- podsim measure collective --save run.jsonl"
        )
    rows, missing = [], dict(found.left_out)
    for row in found.rows:
        try:
            parts = _predicted(found, row, on, overrides)
        except PodsimError as problem:
            missing[f"{row.algorithm} of {row.size:,.0f} B"] = str(problem)
            continue
        rows.append(_compared(found, row, parts))
    good = [abs(row.difference) for row in rows if row.verdict == "comparable"]
    return ComparedCollectives(
        run=run.name, collective=found.collective, ranks=found.ranks, machine=links_text(found),
        cluster=on or "the same links", rows=tuple(rows), mean=sum(good) / len(good) if good else None,
        worst=max(good) if good else None, not_predicted=missing, apart=found.apart,
    )  # fmt: skip


def _compared(run: MeasuredCollectives, row: MeasuredCollective, parts: Parts) -> ComparedCollective:
    predicted, measured = sum(parts), row.slowest
    return ComparedCollective(
        algorithm=row.algorithm, size=row.size, measured=measured, predicted=predicted,
        difference=predicted / measured - 1.0,
        parts=parts._asdict() | {"rest": measured - predicted},
        cpu=row.cpu, others=row.others, verdict=_verdict(run, row),
    )  # fmt: skip


def _verdict(run: MeasuredCollectives, row: MeasuredCollective) -> str:
    """Whether a row says anything about links."""
    if row.wrong or row.in_place_wrong:
        return "wrong result, not comparable"
    if run.backend != "gloo":  # GPUs move the data, and a core that waits for them looks busy
        return "comparable"

    if row.cpu > OWN_MOST or row.others > OTHERS_MOST:
        return _LIMITED
    return "comparable" if row.iterations * row.seconds >= _SHORTEST else "too short, not comparable"


def _predicted(
    run: MeasuredCollectives, row: MeasuredCollective, on: str, overrides: Mapping[str, str] | None
) -> Parts:
    """The prediction of one row. Raises PodsimError where there is none."""
    if run.emulated is not None:
        if run.ranks != run.emulated.ranks:
            raise PodsimError(
                f"{run.ranks} ranks ran on {run.emulated.ranks} emulated ones; all must take part"
            )
        return on_shaped_links(run, _table(run, row), row.size, 1 if run.apart else row.iterations)
    return _on_cluster(run, row, on, overrides)


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


def _on_cluster(
    run: MeasuredCollectives, row: MeasuredCollective, on: str, overrides: Mapping[str, str] | None
) -> Parts:
    """On a real cluster: a table played on its links, the library as NCCL's law has it."""
    size = f"{row.size:.0f}"
    if row.algorithm == "library" and run.backend == "nccl":
        found = collective(run.collective, on=on, sizes=size, ranks=run.ranks, overrides=overrides)
        assert isinstance(found, Sweep)
        return Parts(found.rows[0].seconds, 0.0)
    table = _table(run, row)
    found = collective(
        run.collective, on=on, sizes=size, ranks=run.ranks, algo=table, simulate=True, overrides=overrides
    )
    assert isinstance(found, Sweep)
    return Parts(found.rows[0].seconds, summary(table).rounds * run.message)
