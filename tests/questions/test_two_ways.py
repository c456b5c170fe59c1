"""The same thing asked in two ways: what a search says of its best, and what the command that it names answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import podsim as library
from podsim.answers.best_serving import BestServing
from podsim.hardware.cluster import load_cluster
from podsim.training.software import load_software, usable_bytes

Run = Callable[..., Any]
ROUNDING = 1e-9


def _collective(seed: int) -> tuple[str, str, int, dict[str, Any]]:
    """A collective on whole idle servers, with an algorithm that NCCL is told to take."""
    dice = Random(f"two ways {seed}")
    kind = dice.choice(("all-reduce", "all-gather", "reduce-scatter"))
    on = f"{dice.choice(('dgx-a100', 'dgx-h100', 'dgx-b200'))}:{dice.choice((1, 2, 3, 4, 6))}"
    return kind, on, dice.choice((1 << 20, 48 << 20, 1 << 28, 3 << 30)), {"algo": "ring", "proto": "simple"}


@pytest.mark.parametrize("seed", range(8))
def test_a_collective_alone_is_simulated_at_its_law(seed: int) -> None:
    kind, on, size, options = _collective(seed)
    law, simulated = (
        library.collective(kind, on=on, sizes=str(size), simulate=simulate, **options).rows[0].seconds
        for simulate in (False, True)
    )
    assert simulated == pytest.approx(law, rel=0.02)


def test_the_best_way_to_serve_is_what_its_command_answers(podsim: Run) -> None:
    """Both simulate as many requests of one kind: the medians differ by chance alone."""
    best = library.serve(
        "llama-3.1-8b", on="dgx-h100:1", ttft="1s", tpot="50ms", rate="10/s", requests=20000, engine="vllm"
    )
    assert isinstance(best, BestServing)
    way = next(way for way in best.ways if way.prefill is None)
    result = podsim(*shlex.split(way.command)[1:], "--json")
    assert result.exit_code == 0, result.stderr
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert way.first["p50"] == pytest.approx(rows["first token"]["p50"], rel=0.02)
    assert way.each["p50"] == pytest.approx(rows["each token"]["p50"], rel=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_jobs_of_a_queue_wait_for_those_before_them(seed: int, tmp_path: Path) -> None:
    """By hand: each job takes the whole machine, so that one begins when the one before ends, first come first served."""
    dice = Random(f"queue {seed}")
    arrivals = sorted(dice.randint(0, 500) for _ in range(6))
    seconds = [dice.randint(1, 300) for _ in arrivals]
    rows = "".join(
        f"j{i},{at},16,{took}\n" for i, (at, took) in enumerate(zip(arrivals, seconds, strict=True))
    )
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("id,submit,gpus,seconds\n" + rows, "utf-8")
    ended, waited = 0.0, []
    for at, took in zip(arrivals, seconds, strict=True):
        ended = max(ended, at) + took
        waited.append(ended - at)
    for policy in ("fifo", "easy"):
        run = library.queue(str(jobs), on="dgx-a100-80gb:2", policy=(policy,)).runs[0]
        assert run.jct.tolist() == pytest.approx(waited)


@pytest.mark.parametrize(("gpu", "slices", "number", "sms"), [
    ("a100-80gb", "1g.10gb", 7, 14 / 108), ("h100", "1g.10gb", 7, 16 / 132), ("a100-40gb", "3g.20gb", 2, 42 / 108),
    ("a100-80gb", "2g.20gb", 3, 28 / 108),
])  # fmt: skip
def test_slices_are_no_more_than_their_gpu(gpu: str, slices: str, number: int, sms: float) -> None:
    """NVIDIA's guide of MIG says how many there are, and of how many SMs; memory is what a plan may need of it."""
    whole, part = load_cluster(gpu).gpu, load_cluster(f"{gpu}/{slices}").gpu
    assert part.peaks == pytest.approx({name: peak * sms for name, peak in whole.peaks.items()})
    assert number * part.memory_bandwidth <= whole.memory_bandwidth * (1 + ROUNDING)
    room, part_room = (usable_bytes(some, load_software("megatron-core", some)) for some in (whole, part))
    assert number * part_room <= room * (1 + ROUNDING)
