"""A measured step of DistributedDataParallel against two predictions: buckets during the backward pass, or after it."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.acceptance.comparable import is_busy, verdict_of
from podsim.acceptance.shaped_links import on_shaped_links
from podsim.answers.trained import ComparedDdp, MeasuredDdp
from podsim.errors import LabError
from podsim.network.collectives.lookup import table_of
from podsim.report.collectives import links_text


def step_seconds(layers: int, forward: float, backward: float, bucket: float) -> tuple[float, float]:
    """(s of a step with overlap, s without), for s of a layer's passes and of a bucket's all-reduce.

    A bucket leaves when its layer's backward pass is done, last layer first, and when the one before it has arrived.
    """
    end = 0.0
    for layer in range(layers):
        end = max(end, layers * forward + (layer + 1) * backward) + bucket
    return end, layers * (forward + backward + bucket)


def compare_ddp(run: MeasuredDdp, name: str, on: str, overrides: Mapping[str, str] | None) -> ComparedDdp:
    """The median step of a run against its predictions with and without overlap.

    A bucket's seconds are those of its table on the links that the run was given: processors rest while layers pause, and
    what they add up is left out. Raises LabError for a run on links that nobody described.
    """
    if run.emulated is None or on or overrides:
        raise LabError(
            f"{name}: a bucket's time is predicted for shaped links: podsim emulate dgx-a100:2 --scale 1/2000 -- podsim "
            "measure ddp --save run.jsonl, then podsim compare run.jsonl"
        )
    table = table_of(
        "ring" if run.all_reduce == "library" else run.all_reduce,
        "all-reduce",
        run.ranks // run.local,
        run.local,
    )
    bucket = sum(on_shaped_links(run, table, run.size, run.layers))
    overlapped, apart = step_seconds(run.layers, run.forward, run.backward, bucket)
    right, other = (overlapped, apart) if run.overlap else (apart, overlapped)
    measured = run.step_time
    return ComparedDdp(
        run=name, machine=links_text(run), overlap=run.overlap, measured=measured, bucket=bucket,
        overlapped=overlapped, apart=apart, told=abs(right - measured) < abs(other - measured),
        difference=right / measured - 1.0, cpu=run.cpu, others=run.others,
        verdict=verdict_of({"CPU-limited": is_busy(run.backend, run.cpu, run.others)}),
    )  # fmt: skip
