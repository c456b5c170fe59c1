"""The results of serving a model: a row for each batch, and the batch that answers in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown


@dataclass(frozen=True, kw_only=True)
class ServedBatch:
    """One batch size on one GPU or instance."""

    batch: int
    """The number of sequences or images at once."""
    latency: float
    """s. The time from a batch's start to its end; for a generator, prompt and all tokens."""
    throughput: float
    """1/s. The rate of sequences or images of one instance that is never idle."""
    first_token: float
    """s. The time to the first token of a generator; 0 for others."""
    token: float
    """s. The time of each further token of a sequence; 0 for others."""
    tokens_per_second: float
    """1/s. The rate of produced tokens over the batch; 0 without any."""
    memory: float
    """B. The memory on one instance: weights, caches, activations, the engine itself."""
    fits: bool
    """Whether the memory is enough."""
    in_time: bool
    """Whether a request that just missed a batch is answered within the limit (two latencies); True without a limit."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """s. The latency by part: products, attention, memory, kernels (negative where launches overlap)."""
    utilisation: float
    """share. The share of the arithmetic peak in this precision."""


@dataclass(frozen=True, kw_only=True)
class Served(
    Answer,
    view=View(report="report.serving:served_report", rows="rows", figure="report.plot_serving:served_figure"),
):
    """A model on a GPU or on equal instances."""

    model: str
    kind: str
    """The kind of model: encoder, generator, images."""
    gpu: str
    """The name of the GPU; of an instance with its profile: a100-sxm4-40gb/1g.5gb."""
    instances: int
    """The number of equal GPUs or MIG instances that each run the model."""
    precision: str
    """The precision of weights and products."""
    sparse: bool
    """Whether the products' weights have 2:4 structured sparsity."""
    engine: str
    """The name of the inference engine and its version."""
    tokens: int
    """The number of tokens of a sequence or prompt, or the side of an image."""
    output: int
    """The number of tokens that a generator produces."""
    weights: float
    """B. The weights as they are stored."""
    cache: float
    """B. The keys and values of one sequence at its end."""
    memory_limit: float
    """B. The memory of one instance."""
    largest: int
    """The number of sequences that fit at once; 0 if the weights alone do not."""
    limit: float | None
    """s. The time within which a request must be answered."""
    rows: tuple[ServedBatch, ...]
    """The row of each requested batch."""
    best: ServedBatch | None
    """The batch with the greatest throughput that fits and is in time; None if there is none."""
    total: float
    """1/s. The rate over all instances at the best batch, after the cost of busy neighbours on the GPU."""
    neighbours: float
    """share. The share of the throughput that busy neighbours on the GPU cost."""
    bottleneck: str
    """The part of the latency that takes longest."""
    audio: float = 0.0
    """s. The audio of a sample, of speech; 0 for other samples."""
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """The doubts about the result."""
    plan: Mapping[str, object] = field(default_factory=dict)
    """The plan of a language model by field: its degrees, formats and limits; empty for other networks."""
    layout: str = ""
    """The division of a language model in words, such as "tp=4"."""


@dataclass(frozen=True, kw_only=True)
class FigureName:
    """A figure or table that a command makes again."""

    name: str
    about: str = shown("content")
    """The content, in words."""
    command: str
    """The command that makes it."""


@dataclass(frozen=True, kw_only=True)
class FigureList(Answer, view=View(rows="rows")):
    """The figures and tables of the white paper that podsim makes again."""

    rows: tuple[FigureName, ...]


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One bar of a published figure."""

    name: str
    how: str
    """The setting of the bar, whole."""
    predicted: float
    """SI. The predicted value, in the figure's unit."""
    relative: float
    """factor. The value over the figure's base."""
    printed: float | None
    """factor. The printed factor over the base; None if no figure was read."""
    printed_value: float | None
    """SI. The printed value, in the figure's unit; None if no value was read."""


@dataclass(frozen=True, kw_only=True)
class Figure(
    Answer,
    view=View(
        report="report.serving:figure_report", rows="rows", figure="report.plot_machine:published_figure"
    ),
):
    """A published figure, reproduced."""

    title: str
    unit: str
    """The unit of the predicted values."""
    base: str
    """The name of the row with which others are compared."""
    source: str
    """The source of the printed figures."""
    rows: tuple[FigureRow, ...]
    notes: tuple[str, ...]
    """The conditions that the figure does not state, and the limits of the answer."""
    parts: tuple[Figure, ...] = ()
    """The further panels of the figure."""
