"""What is said of a model that is served: a row for each batch, and the batch that answers in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class ServedBatch:
    """One batch size on one GPU or instance."""

    batch: int
    """sequences or images at once"""
    latency: float
    """s from a batch's start to its end; of a generator: prompt and all tokens"""
    throughput: float
    """1/s of sequences (or images) of one instance that is never idle"""
    first_token: float
    """s to the first token of a generator: its prompt; 0 for others"""
    token: float
    """s for each further token of a sequence; 0 for others"""
    tokens_per_second: float
    """1/s of produced tokens, over the batch; 0 for what produces none"""
    memory: float
    """B on one instance: weights, caches, activations, the engine itself"""
    fits: bool
    """whether the memory is enough"""
    in_time: bool
    """whether a request that just missed a batch is answered within the limit: two latencies; true without a limit"""
    parts: Mapping[str, float] = field(default_factory=dict)
    """s of the latency by part: products, attention, memory, kernels (negative where launches overlap)"""
    utilisation: float
    """share of the arithmetic peak in this precision"""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A model on a GPU or on equal instances."""

    model: str
    """name"""
    kind: str
    """encoder, generator, images"""
    gpu: str
    """name of the GPU, of an instance with its profile: a100-sxm4-40gb/1g.5gb"""
    instances: int
    """equal GPUs or MIG instances that each run the model"""
    precision: str
    """of weights and products"""
    sparse: bool
    """2:4 structured sparsity of the products' weights"""
    engine: str
    """name of the inference engine and its era"""
    tokens: int
    """tokens of a sequence, or of a prompt; side of an image"""
    output: int
    """tokens that a generator produces"""
    weights: float
    """B as they are stored"""
    cache: float
    """B of keys and values of one sequence at its end"""
    memory_limit: float
    """B of one instance"""
    largest: int
    """count of sequences that fit at once, 0 where the weights alone do not"""
    limit: float | None
    """s within which a request must be answered"""
    rows: tuple[ServedBatch, ...]
    """one for each batch asked for"""
    best: ServedBatch | None
    """the batch with the greatest throughput that fits, and is in time; None if there is none"""
    total: float
    """1/s over all instances at the best batch, less what busy neighbours on the GPU cost"""
    neighbours: float
    """share of the throughput that busy neighbours on the GPU cost"""
    bottleneck: str
    """part of the latency that takes longest"""
    assumptions: tuple[str, ...]
    """what was taken for granted"""
    warnings: tuple[str, ...] = ()
    """what makes the answer less sure"""


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One bar of a published figure."""

    name: str
    """of the bar"""
    how: str
    """GPU, precision, batch and engine"""
    predicted: float
    """SI, in the figure's unit"""
    relative: float
    """factor over the figure's base"""
    printed: float | None
    """factor over the base that the publication prints; None where no figure was read"""
    confirmed: str
    """whether the printed factor was read in a source: yes, or no (from memory)"""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A published figure, made again."""

    title: str
    """what the figure shows"""
    unit: str
    """of the predicted values"""
    base: str
    """name of the row that others are compared with"""
    source: str
    """where the printed figures stand"""
    rows: tuple[FigureRow, ...]
    """its bars"""
    reproduced: tuple[str, ...]
    """what comes out as printed"""
    not_reproduced: tuple[str, ...]
    """what does not, and why"""
