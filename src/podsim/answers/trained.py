"""What training for real gave, and how predictions compare with it. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.lab import Emulated
from podsim.records import dataclass, field
from podsim.units import format_quantity

WARM = 2
"""first steps of a run, or after it resumed, that no step time counts: buffers and connections are made in them"""
_SHOWN = 12
"""The number of printed steps of a long run."""


def layout_text(plan: Mapping[str, Any]) -> str:
    """The degrees of a plan in words, "dp 2, tp 2, pp 2 (1f1b, 4 micro-batches)"."""
    words = [f"{name} {plan[name]}" for name in ("dp", "tp", "pp") if plan[name] != 1] or ["one process"]
    if plan["pp"] != 1:
        count = int(plan["global_batch"]) // (int(plan["dp"]) * int(plan["micro_batch"]))
        words[-1] += f" ({plan['schedule']}, {count} micro-batches)"
    words += [f"ZeRO {plan['zero']}"] if plan["zero"] else []
    words += ["sequence parallel"] if plan["sequence_parallel"] else []
    return ", ".join(words)


def some_steps(rows: Sequence[TrainedStep]) -> tuple[TrainedStep, ...]:
    """The first and the last step, and others at equal distances: at most twelve."""
    last, shown = len(rows) - 1, _SHOWN if rows else 0
    return tuple(rows[index] for index in sorted({round(n * last / (_SHOWN - 1)) for n in range(shown)}))


@dataclass(frozen=True, kw_only=True)
class TrainedStep:
    """One step."""

    step: int
    """The number of the step, from 0."""
    loss: float = shown(format=":.6f")
    """factor. The mean loss over the samples of all replicas, before the step changed the weights."""
    seconds: float = shown("time")
    """s. The time on the slowest rank."""
    micro_norm: float = shown(default=0.0, hide_if=0.0)
    """factor. The squared length of the gradient of a micro-batch, as a mean; 0 if it was not measured."""
    batch_norm: float = shown(default=0.0, hide_if=0.0)
    """factor. The squared length of the gradient of the whole batch; 0 if it was not measured."""


@dataclass(frozen=True, kw_only=True)
class MeasuredTraining(
    Answer,
    view=View(
        report="report.training_tables:training_report",
        rows="rows",
        figure="report.plot_training:loss_figure",
    ),
):
    """A training run."""

    model: str
    changes: Mapping[str, str]
    """The fields of the model that were changed."""
    plan: Mapping[str, int | str | bool]
    """The fields of the plan as it was run."""
    sequence: int
    """The number of tokens of a sample; 0 for images."""
    all_reduce: str
    """The all-reduce of the gradients: a table's name, or "library"."""
    exchange: str
    """The exchange: bsp, ps, ssp, async, local or diloco."""
    staleness: int | None
    """The number of steps that the fastest replica may be ahead of the slowest, for ssp."""
    late: Mapping[str, int]
    """The number of gradients by how many updates late they were; empty if all are in step."""
    data: str
    seed: int
    rate: float
    """factor. The learning rate."""
    ranks: int
    backend: str
    """The backend: gloo or nccl."""
    device: str
    """The device: the GPU's name, or CPU."""
    software: str
    """The versions of the software."""
    hosts: tuple[str, ...]
    """The machine of each rank, by name."""
    cores: int
    """The number of processor cores of the smallest machine."""
    emulated: Emulated | None
    """The shaped links; None for links as they are."""
    started: str
    """The date and time in UTC, ISO 8601."""
    resumed: tuple[int, ...]
    """The steps at which the run continued from a checkpoint."""
    cpu: float
    """share. The share of the busiest machine's processor time that the ranks used."""
    others: float
    """share. The share of the busiest machine's processor time that other programs used."""
    rows: tuple[TrainedStep, ...]
    train: str = "full"
    """The trained part: full, lora:16, frozen:2."""
    held: Mapping[str, float] = field(default_factory=dict)
    """B. The bytes of weights, gradients and optimizer on the first rank; by count its trained and frozen parameters; and
    frozen_unchanged, 1 if every bit of the frozen weights is as it was."""
    precision: str = "fp32"
    """The recipe that rounded the operands of products."""
    loss_scale: str = "none"
    """The loss scale that was asked for: none, dynamic, or a number."""
    scales: tuple[float, ...] = ()
    """factor. The loss scale of each step; empty for runs in fp32 without one."""
    skipped: tuple[int, ...] = ()
    """The steps whose gradients overflowed, so that a dynamic scale was halved and the weights stayed."""
    lost: tuple[float, ...] = ()
    """share. The share of the gradients before products that rounding made 0, by step."""
    lost_by: Mapping[str, float] = field(default_factory=dict)
    """share. The same over the whole run, by tensor, for the tensors that lost most."""
    diverged: int | None = None
    """The step at which loss or gradients were not finite, which ended the run; None for a run that ended well."""
    overflow: str = ""
    """The first tensor that was not finite."""
    optimizer: str = "adamw"
    warmup: int = 0
    """The number of steps in which the learning rate grew."""
    prune_at: int = 0
    """The number of steps after which weights were pruned 2:4; 0 if they were not."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """share. The accuracy on a sample: dense, pruned, and end; and kept, the share of the magnitude that masks keep."""
    local_steps: int = 1
    """The number of steps of a replica between two exchanges of weights."""
    slow: Mapping[str, float] = field(default_factory=dict)
    """factor. The slowdown of each slow replica."""
    routing: Mapping[str, float] = field(default_factory=dict)
    """factor. The routing of a mixture in the last micro-batch of each rank: imbalance, the tokens of the busiest expert
    over the mean; and dropped, the share of tokens that no expert had room for."""
    noise: str = ""
    """The gradient noise scale in words; "" if it was not measured."""
    message: float = 0.0
    """s. The time from sending 4 B to receiving them, between ranks 0 and 1, on emulated links; 0 on others."""
    processor: Mapping[str, float] = field(default_factory=dict)
    """s. The processor time of a rank in a step by kind of span, as a mean over ranks and over steps after the first."""
    span_rank: tuple[int, ...] = ()
    """The rank of each span of the last steps."""
    span_name: tuple[str, ...] = ()
    """The name of each span: "forward 3" is the pass of micro-batch 3; gradients, optimizer, exchange."""
    span_start: tuple[float, ...] = ()
    """s. The start of each span, after the first step began."""
    span_end: tuple[float, ...] = ()
    """s. The end of each span."""

    @property
    def step_time(self) -> float:
        """s of a step: the median since the run started or last resumed, without the first steps."""
        since = [row.seconds for row in self.rows if row.step >= max(self.resumed, default=0)]
        return median(since[WARM:] or since or [row.seconds for row in self.rows] or [0.0])

    @property
    def bubble(self) -> float | None:
        """The time that ranks of a pipeline wait over that of their passes, in the last steps; None without one."""
        if self.plan.get("pp", 1) == 1 or not self.span_rank:
            return None
        passes: dict[tuple[int, int], list[tuple[float, float]]] = {}
        step = [0] * self.ranks
        for rank, name, start, end in zip(
            self.span_rank, self.span_name, self.span_start, self.span_end, strict=True
        ):
            if name.startswith(("forward", "backward")):
                passes.setdefault((step[rank], rank), []).append((start, end))
            step[rank] += name == "optimizer"
        busy = sum(end - start for spans in passes.values() for start, end in spans)
        windows = {
            at: [span for (step_, _), spans in passes.items() if step_ == at for span in spans]
            for at, _ in passes
        }
        window = sum(
            max(end for _, end in spans) - min(start for start, _ in spans) for spans in windows.values()
        )
        return self.ranks * window / busy - 1.0 if busy else None

    @property
    def samples(self) -> float:
        """Samples per second."""
        return float(self.plan["global_batch"]) / self.step_time if self.rows else 0.0


@dataclass(frozen=True, kw_only=True)
class ComparedTraining(Answer):
    """A measured step time with its prediction."""

    run: str
    """The name of its file."""
    model: str
    cluster: str
    """The cluster of the prediction."""
    plan: Mapping[str, int | str | bool] = shown(of_row=lambda compared: layout_text(compared.plan))
    """The fields of the plan as it was run."""
    measured: float
    """s. The median measured time of a step."""
    predicted: float
    """s. The predicted time of a step."""
    difference: float = shown("off by", ":+.1%")
    """share. The prediction over the measurement, minus one."""
    parts: Mapping[str, float] = shown(title="Predicted, by part")
    """s. The predicted time, by part."""
    cpu: float = shown("processors, ranks", remark="")
    """share. The share of processor time that the ranks used."""
    others: float = shown("others", remark="")
    """share. The share of processor time that other programs used."""
    verdict: str
    """The verdict: comparable, or the reason why not."""
    late_measured: float | None = shown("updates late, measured", ":.2f", default=None, optional=True)
    """count. The updates by which gradients were late, as a mean; None where all are in step."""
    late_predicted: float | None = shown("updates late, predicted", ":.2f", default=None, optional=True)
    """count. The predicted updates by which gradients are late, as a mean."""


@dataclass(frozen=True, kw_only=True)
class MeasuredPass:
    """One forward and backward pass."""

    step: int
    """The number of the step, from 0."""
    seconds: float
    """s. The time on the slowest rank."""


@dataclass(frozen=True, kw_only=True)
class MeasuredDdp(Answer, view=View(rows="rows")):
    """Steps of torch's DistributedDataParallel whose compute is a pause, so that only their communication is real."""

    layers: int
    size: float = shown("a layer")
    """B. The gradients of a layer; each layer is one bucket."""
    forward: float
    """s. The pause of a layer's forward pass."""
    backward: float
    """s. The pause of a layer's backward pass."""
    overlap: bool = shown(remark="")
    """Whether gradients were added up during the backward pass, as DistributedDataParallel does; otherwise after it."""
    all_reduce: str
    """The all-reduce of the gradients: a table's name, or "library"."""
    ranks: int
    local: int
    """The number of ranks of a server."""
    backend: str
    """The backend: gloo or nccl."""
    software: str
    """The versions of the software."""
    hosts: tuple[str, ...] = shown(is_hidden=True)
    """The machine of each rank, by name."""
    cores: int
    """The number of processor cores of the smallest machine."""
    emulated: Emulated | None
    """The shaped links; None for links as they are."""
    message: float
    """s. The time from sending 4 B to receiving them, between ranks 0 and 1: half of a round trip, median."""
    started: str
    """The date and time in UTC, ISO 8601."""
    cpu: float = shown("processors, ranks", remark="")
    """share. The share of the busiest machine's processor time that the ranks used."""
    others: float = shown("others", remark="")
    """share. The share of the busiest machine's processor time that other programs used."""
    rows: tuple[MeasuredPass, ...] = shown("a step", of_row=lambda run: run.times)

    @property
    def step_time(self) -> float:
        """s of a step, median."""
        return median(row.seconds for row in self.rows)

    @property
    def times(self) -> str:
        """The median time of a step, the fastest and the slowest."""
        ends = [each(row.seconds for row in self.rows) for each in (median, min, max)]
        middle, low, high = (format_quantity(seconds, "s") for seconds in ends)
        return f"{middle}, median of {len(self.rows)} ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class MeasuredTables(Answer, view=View(rows="rows")):
    """A small DLRM trained on embedding tables that parameter servers hold."""

    tables: str
    """The name of the tables."""
    parameters: int
    """The number of weights of the tables, as they were cut."""
    servers: int
    workers: int
    batch: int = shown(of_row=lambda run: f"{run.batch}; {run.sample_rate:,.0f} samples/s (median step)")
    """The number of samples of a step of all workers."""
    cache: float
    """share. The cached share of a server's rows."""
    exchange: str
    """The exchange: sync or async."""
    data: str
    seed: int
    start: int = shown("continued from step", hide_if=0, remark="")
    """The step at which the run continued from a checkpoint; 0 for a run from the beginning."""
    late: Mapping[str, int] = shown(title="Pushes, by how many updates late they were")
    """The number of pushes, over all servers, by how many updates late they were."""
    lookups: Mapping[str, int] = shown(
        title="Distinct rows asked for, and hit rates, by group of tables", of_row=lambda run: run.groups
    )
    """The number of distinct rows that pulls asked for, by group of tables."""
    hit_rates: Mapping[str, float] = shown(is_hidden=True)
    """share. The share of them that the cache held, by group of tables."""
    law_rates: Mapping[str, float] = shown(is_hidden=True)
    """share. The same by the law of LRU caches, for the skew of the tables."""
    software: str
    """The versions of the software."""
    cores: int
    """The number of processor cores of the machine."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[TrainedStep, ...] = shown(title="Steps", of_row=lambda run: some_steps(run.rows))

    @property
    def sample_rate(self) -> float:
        """1/s. The samples of a step over its median time, without the first steps of the run."""
        return self.batch / median(row.seconds for row in self.rows[WARM:] or self.rows)

    @property
    def groups(self) -> dict[str, str]:
        """The lookups of each group of tables, the rate of hits, and that by the law."""
        return {
            group: f"{count:,}, {self.hit_rates[group]:.1%}, by the law {self.law_rates[group]:.1%}"
            for group, count in self.lookups.items()
        }


@dataclass(frozen=True, kw_only=True)
class ComparedDdp(Answer):
    """A measured step of DistributedDataParallel with two predictions: with and without overlap."""

    run: str
    """The name of its file."""
    machine: str
    """The machine of the run, in words."""
    overlap: bool
    """Whether gradients were added up during the backward pass."""
    measured: float
    """s. The median measured time of a step."""
    bucket: float = shown("predicted, a bucket")
    """s. The predicted time of the all-reduce of one bucket."""
    overlapped: float = shown("predicted with overlap")
    """s. The predicted time of a step with overlap."""
    apart: float = shown("predicted without")
    """s. The predicted time of a step without overlap."""
    told: bool = shown("the measurement is", of_row=lambda compared: compared.outcome, remark="")
    """Whether the prediction of the actual run is the nearer one."""
    difference: float = shown("off by", ":+.1%")
    """share. The prediction of the actual run over the measurement, minus one."""
    cpu: float = shown("processors, ranks", remark="")
    """share. The share of processor time that the ranks used."""
    others: float = shown("others", remark="")
    """share. The share of processor time that other programs used."""
    verdict: str = shown(is_hidden=True)
    """The verdict: comparable, or the reason why not."""

    @property
    def outcome(self) -> str:
        """The prediction that is nearer to the measurement, and the verdict."""
        return f"nearer to {'overlap' if self.overlap is self.told else 'no overlap'}; {self.verdict}"
