"""The benchmarks of MLPerf Training: target, samples to it by batch, and the seconds besides the steps.

    benchmark = find_benchmark("bert")
    samples = convergence_law(benchmark, "v0.7")([8192]).samples[0]
    target_seconds(benchmark, samples, rate=90_000).total

benchmarks.toml describes them, convergence.csv has their reference points (MLCommons' logging repository, Apache-2.0)
and what submissions needed before there were any. Only points marked calibrate make a law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from podsim.errors import PodsimError, unknown_name
from podsim.learning.convergence_law import ConvergenceLaw, ReferencePoint
from podsim.packaged import packaged_csv, packaged_toml

_SAMPLES = 1000.0
"""More epochs than that are samples: logs of BERT and LoRA count them in the column of epochs."""
_ROUNDS = "rounds"
"""The table of the rounds' months, which is no benchmark."""
_FIRST_REFERENCES = (1, 0)
"""The first round with reference points; before it, recipes changed from round to round."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """When a run is evaluated, and what that costs."""

    every: float
    """count. The training samples between two evaluations."""
    after: float = 0.0
    """count. The training samples before the first evaluation may come."""
    samples: float
    """count. The samples that are evaluated each time."""
    speed: float = 1.0
    """factor. The rate of evaluated samples over that of training."""


@dataclass(frozen=True, kw_only=True)
class PublishedSteps:
    """A step's seconds = seconds + each x samples of a GPU, as published runs took: no network is known."""

    seconds: float
    each: Mapping[str, float]
    """s. The time of one sample, by GPU."""
    bound: str
    """The resource that scales another GPU: memory, or the peak of a precision."""
    source: str
    batch: float = 0.0
    """count. The samples of a step where the batch of training is another thing; 0 uses that batch."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark; whose step is predicted is said by `network`, `model` or `steps`."""

    name: str
    title: str
    target: str
    dataset: str
    sample: str
    """The word for samples."""
    epoch: float
    """count. The samples of an epoch."""
    rounds: tuple[str, str]
    """The first and the last round that had it."""
    startup: float
    """s. The time from the start of the clock to the first step, and of warming up."""
    also: tuple[str, ...] = ()
    """The other names of the benchmark."""
    first_epoch: float = 0.0
    """count. The number with which logs count the first epoch."""
    has_many_epochs: bool = False
    """Whether a thousand and more are epochs, where other logs count samples."""
    batch_in: str = ""
    """The unit of a batch, where it is not samples."""
    quantum: float = 0.0
    """count. The samples between two evaluations, where these decide when a run ends."""
    evaluation: Evaluation | None = None
    network: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    steps: PublishedSteps | None = None
    speed: Mapping[str, float] = field(default_factory=dict)
    """factor. The rate of submissions over that of the laws, by the first round for which it holds."""
    note: str = ""

    def had(self, round: str) -> bool:
        """Whether a round had the benchmark."""
        return round_number(self.rounds[0]) <= round_number(round) <= round_number(self.rounds[1])

    def speed_of(self, round: str) -> float:
        """factor. The rate of a round's submissions over that of the laws."""
        known = [first for first in self.speed if round_number(first) <= round_number(round)]
        return self.speed[max(known, key=round_number)] if known else 1.0


@dataclass(frozen=True, kw_only=True)
class TargetTime:
    """The parts of the time to a target."""

    startup: float
    """s. The time before the first step."""
    steps: float
    """s. The time of the training steps."""
    evaluation: float
    """s. The time of the evaluations."""
    evaluations: int
    """count. The number of evaluations."""

    @property
    def total(self) -> float:
        """s. The time from the start of the clock to the target."""
        return self.startup + self.steps + self.evaluation


def round_number(round: str) -> tuple[int, ...]:
    """The numbers of a round, for its order: "v1.1" -> (1, 1). Raises PodsimError for anything else."""
    parts = round.lower().removeprefix("v").split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise PodsimError(f"round={round[:40]!r}: give a round of MLPerf Training, such as v0.7 or v5.0")
    numbers = tuple(int(part) for part in parts)[:2]
    return numbers if len(numbers) == 2 else (*numbers, 0)


@cache
def benchmarks() -> Mapping[str, Benchmark]:
    """All benchmarks by name."""
    entries = packaged_toml("learning/benchmarks.toml")
    return {name: _benchmark(name, entry) for name, entry in entries.items() if name != _ROUNDS}


def usual_round(benchmark: Benchmark, date: str = "") -> str:
    """The benchmark's last round, or for a machine of a month such as 2020-06 its first one since then."""
    months = packaged_toml("learning/benchmarks.toml")[_ROUNDS]
    since = [round for round, month in months.items() if date and month >= date and benchmark.had(round)]
    return min(since, key=round_number, default=benchmark.rounds[1])


def _benchmark(name: str, entry: Mapping[str, Any]) -> Benchmark:
    made = dict(entry) | {"rounds": tuple(entry["rounds"]), "also": tuple(entry.get("also", ()))}
    if "evaluation" in entry:
        made["evaluation"] = Evaluation(**entry["evaluation"])
    if "steps" in entry:
        made["steps"] = PublishedSteps(**entry["steps"])
    return Benchmark(name=name, **made)


def find_benchmark(name: str, round: str = "") -> Benchmark:
    """The benchmark of a name, as a round understood it. Raises PodsimError for an unknown name or round."""
    text = name.strip().lower().replace("-", "_").replace(".", "")
    known = [each for each in benchmarks().values() if text == each.name or text in each.also]
    if not known:
        squeezed = text.replace("_", "")
        known = [each for each in benchmarks().values() if each.name.replace("_", "") == squeezed]
    if not known:
        raise PodsimError(unknown_name("benchmark", name, benchmarks()))
    if not round:
        return known[0]
    fitting = [each for each in known if each.had(round)]
    if not fitting:
        first, last = known[0].rounds
        raise PodsimError(f"round={round}: {known[0].title} was in {first} to {last}")
    return fitting[0]


def benchmarks_of(round: str) -> tuple[Benchmark, ...]:
    """The benchmarks of a round; raises PodsimError if podsim knows none of it."""
    known = tuple(each for each in benchmarks().values() if each.had(round))
    if not known:
        raise PodsimError(f"round={round}: no benchmark of it is known; v0.5 to v6.1 have some")
    return known


@dataclass(frozen=True, kw_only=True)
class ConvergenceRow:
    """One published point: samples to the target with a batch."""

    id: str
    role: str
    benchmark: str
    point: ReferencePoint


@cache
def convergence_rows() -> tuple[ConvergenceRow, ...]:
    """Every published point, in file order."""
    return tuple(row_point(cells) for cells in packaged_csv("learning/convergence.csv"))


class PointUnit(NamedTuple):
    """The unit of a point: samples = (value - first) x factor."""

    benchmark: str
    """The name of the benchmark, as podsim names it where it knows it."""
    factor: float
    first: float


def point_unit(cells: Mapping[str, str]) -> PointUnit:
    """The unit of a row of convergence: samples, steps, or epochs of its benchmark (1 for an unknown one)."""
    name, unit = cells["benchmark"], cells["unit"].split()[0]
    known: Benchmark | None
    try:
        known = find_benchmark(name, plain_round(cells["version"]))
    except PodsimError:
        known = benchmarks().get(name)
    if unit in ("samples", "steps"):
        return PointUnit(
            known.name if known else name, float(cells["batch"]) if unit == "steps" else 1.0, 0.0
        )
    return PointUnit(known.name, known.epoch, known.first_epoch) if known else PointUnit(name, 1.0, 0.0)


def row_point(cells: Mapping[str, str]) -> ConvergenceRow:
    """The point of a row of convergence, in samples."""
    unit, mean = point_unit(cells), float(cells["mean"])
    above = mean - unit.first
    point = ReferencePoint(
        batch=float(cells["batch"]), samples=above * unit.factor, seeds=int(float(cells.get("n_seeds") or 1)),
        scatter=float(cells["sd"]) / above if cells.get("sd") else None, round=cells["version"],
        source=cells.get("source", ""),
    )  # fmt: skip
    return ConvergenceRow(id=cells["id"], role=cells["role"], benchmark=unit.benchmark, point=point)


def convergence_law(
    benchmark: Benchmark, round: str, rows: Iterable[ConvergenceRow] | None = None
) -> ConvergenceLaw:
    """Samples to the target by batch in a round, from `rows` (default all that are marked calibrate).

    Reference points hold until a later one replaces them; those of other rounds share an offset before v1.0. Raises
    PodsimError without any point.
    """
    given = convergence_rows() if rows is None else rows
    own = [
        row.point for row in given if row.benchmark == benchmark.name and (rows or row.role == "calibrate")
    ]
    if not own:
        raise PodsimError(f"{benchmark.title}: no point of convergence is published")
    return ConvergenceLaw(points=points_of(own, round), quantum=benchmark.quantum, round=_group(round))


def points_of(points: Iterable[ReferencePoint], round: str) -> tuple[ReferencePoint, ...]:
    """The points that count in a round: of each batch and group of rounds the last that was known, or else the first."""
    asked = round_number(round)
    kept: dict[tuple[str, float], ReferencePoint] = {}
    for point in sorted(points, key=lambda point: round_number(plain_round(point.round))):
        group = _group(plain_round(point.round))
        key = (group, point.batch)
        if key not in kept or round_number(plain_round(point.round)) <= asked:
            kept[key] = ReferencePoint(**{**vars(point), "round": group})
    is_reference = asked >= _FIRST_REFERENCES
    has_references = any(group == "reference" for group, _ in kept)
    return tuple(
        point
        for point in kept.values()
        if not (is_reference and has_references and point.round != "reference")
    )


def plain_round(round: str) -> str:
    """A round without its suite: "hpc_v1.0" -> "v1.0"."""
    return round.rpartition("_")[2]


def _group(round: str) -> str:
    """Rounds that shared recipes: every round before v1.0 alone, all others together."""
    return "reference" if round_number(round) >= _FIRST_REFERENCES else round


def own_samples(cells: Mapping[str, str], benchmark: Benchmark) -> float | None:
    """The samples that a run needed, from the column `samples`, or the epochs (or samples) of its last evaluation."""
    if cells.get("samples"):
        return float(cells["samples"])
    text = cells.get("last_eval_mean") or cells.get("converge_mean")
    if not text:
        return None
    count = float(text)
    if count >= _SAMPLES and not benchmark.has_many_epochs:
        return count
    return (count - benchmark.first_epoch) * benchmark.epoch


def target_seconds(benchmark: Benchmark, samples: float, rate: float) -> TargetTime:
    """The time to the target: startup, `samples` at `rate` (1/s), and the evaluations on the way."""
    evaluation = benchmark.evaluation
    count, seconds = 0, 0.0
    if evaluation is not None:
        count = max(1, math.ceil((samples - evaluation.after) / evaluation.every - 1e-9))
        seconds = count * evaluation.samples / (evaluation.speed * rate)
    return TargetTime(startup=benchmark.startup, steps=samples / rate, evaluation=seconds, evaluations=count)
