"""What a step of an engine costs and how many tokens its caches hold: all that a scheduler's behaviour depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Floats
from podsim.errors import NoFitError
from podsim.hardware.cluster import Cluster
from podsim.serving.language_engines import load_language_engine
from podsim.serving.replica_memory import (
    cache_bytes,
    fixed_bytes,
    sequence_bytes,
    stage_share,
    token_bytes,
    usable_bytes,
)
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.step_laws import (
    Passes,
    decoding_seconds,
    draft_seconds,
    head_seconds,
    make_passes,
    prompt_host_seconds,
    prompt_seconds,
    tokens_seconds,
)
from podsim.workload.model import Model

_TOKENS = np.array([1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 3072, 4096,
                    6144, 8192, 12288, 16384], float)  # fmt: skip
_REQUESTS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048], float)
_CONTEXT = np.array([16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], float)
_NEW = np.array([1, 16, 64, 128, 256, 512, 768, 1024, 1536, 2048, 4096, 8192, 16384, 32768, 65536], float)
_PAST = np.array([0, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072], float)
_SHARED = 2048.0
"""count. The new tokens of prompts that share a kernel of attention: chunks shorter than that come with others."""
_MOST_SHARED = 16.0
_LONGEST = 2**22


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """The time of one step (iteration) of an engine replica, as tables that are interpolated linearly.

    Beyond the last entry of a table its last slope goes on.
    """

    step: float
    """s. The fixed time of a step: host, launches, the head's weights."""
    request: float
    """s. The time of each sequence in the step: sampling, host, its logits."""
    tokens: Floats
    """count. The tokens of a step, ascending: new ones of prompts, and those of decoding sequences."""
    tokens_seconds: Floats
    """s. The time of all that the number of tokens decides: products, experts, norms, collectives."""
    decode_requests: Floats
    """count. The decoding sequences, ascending."""
    decode_context: Floats
    """count. The mean number of tokens in their caches, ascending."""
    decode_seconds: Floats
    """s. The attention of decoding sequences, by requests and context."""
    prompt_new: Floats
    """count. The new tokens of a chunk of a prompt, ascending."""
    prompt_past: Floats
    """count. The tokens before it that are in its cache, ascending."""
    prompt_seconds: Floats
    """s. The attention of a chunk, by new tokens and past ones."""
    mixed_seconds: Floats | None = None
    """s. The same as tokens_seconds of a step with a chunk of a prompt, which no graph holds; None: no different."""
    stages: int = 1
    """count. The pipeline stages: as many batches are in flight, and one may start each seconds / stages."""
    decode_tokens: int = 1
    """count. The tokens of a decoding sequence in a step: 1, and those that a draft proposes."""
    accepted_tokens: float = 1.0
    """count. The mean number of tokens that a step gives a decoding sequence; above 1 with a draft."""

    @property
    def prompted_seconds(self) -> Floats:
        """s. The time of all that the number of tokens decides in a step with a chunk of a prompt."""
        return self.tokens_seconds if self.mixed_seconds is None else self.mixed_seconds

    def seconds(self, prompts: Sequence[tuple[float, float]], decoding: float, mean_context: float) -> float:
        """s of a step with chunks of prompts, as (new tokens, tokens before), and decoding sequences."""
        tokens = sum(new for new, _ in prompts) + decoding * self.decode_tokens
        if not tokens:
            return 0.0
        total = self.step + self.request * (len(prompts) + decoding)
        total += float(token_seconds(self, tokens, is_prompted=bool(prompts)))
        if decoding:
            total += float(decode_seconds(self, decoding, mean_context))
        for new, past in prompts:
            total += float(chunk_seconds(self, new, past))
        return total


@dataclass(frozen=True, kw_only=True)
class CacheRoom:
    """The paged blocks of keys and values of one replica."""

    block_tokens: int
    """count. The tokens of a block."""
    blocks: int
    """count. The blocks of a replica."""
    token_bytes: float
    """B. The size of one token in the caches of all GPUs of the replica."""
    state_bytes: float = 0.0
    """B. The size of what a sequence holds whatever its length: states of linear attention, windows."""

    @property
    def state_blocks(self) -> int:
        """count. The blocks that a sequence's state takes, whatever its length."""
        block = self.block_tokens * self.token_bytes
        return int(np.ceil(self.state_bytes / block)) if block else 0

    def sequences(self, tokens: int) -> int:
        """count. The sequences of that many tokens which fit at once, their last blocks partly empty."""
        return int(self.blocks // (-(-tokens // self.block_tokens) + self.state_blocks))


def _positions(grid: Floats, values: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The interval of an ascending grid for each value, and the position in it; the last one goes on."""
    if len(grid) == 1:
        return np.zeros(values.shape, np.intp), np.zeros(values.shape)
    low = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, len(grid) - 2)
    return low, np.maximum((values - grid[low]) / (grid[low + 1] - grid[low]), 0.0)


def _along(grid: Floats, table: Floats, values: ArrayLike) -> Floats:
    low, part = _positions(grid, np.asarray(values, float))
    high = np.minimum(low + 1, len(grid) - 1)
    return np.asarray(table[low] + part * (table[high] - table[low]))


def _across(rows: Floats, columns: Floats, table: Floats, row: ArrayLike, column: ArrayLike) -> Floats:
    row_values, column_values = np.broadcast_arrays(np.asarray(row, float), np.asarray(column, float))
    low, part = _positions(rows, row_values)
    left, share = _positions(columns, column_values)
    high, right = np.minimum(low + 1, len(rows) - 1), np.minimum(left + 1, len(columns) - 1)
    first = table[low, left] + share * (table[low, right] - table[low, left])
    last = table[high, left] + share * (table[high, right] - table[high, left])
    return np.asarray(first + part * (last - first))


def token_seconds(cost: StepCost, tokens: ArrayLike, *, is_prompted: bool = False) -> Floats:
    """s of all that the number of tokens of a step decides, with or without chunks of prompts."""
    return _along(cost.tokens, cost.prompted_seconds if is_prompted else cost.tokens_seconds, tokens)


def decode_seconds(cost: StepCost, requests: ArrayLike, context: ArrayLike) -> Floats:
    """s of the attention of decoding sequences with a mean context."""
    return _across(cost.decode_requests, cost.decode_context, cost.decode_seconds, requests, context)


def chunk_seconds(cost: StepCost, new: ArrayLike, past: ArrayLike) -> Floats:
    """s of the attention of one chunk of a prompt, with tokens before it in the cache."""
    return _across(cost.prompt_new, cost.prompt_past, cost.prompt_seconds, new, past)


def step_cost(model: Model, cluster: Cluster, plan: ServingPlan) -> StepCost:
    """The cost of a step of one replica. Raises ModelError for a model that produces no tokens."""
    return passes_cost(make_passes(model, cluster, plan))


def passes_cost(passes: Passes) -> StepCost:
    """The cost of a step of a model in an engine on one replica."""
    model, plan = passes.model, passes.plan
    engine = passes.engine
    requests = _REQUESTS[:, None]
    decoding = decoding_seconds(passes, requests, _CONTEXT) + draft_seconds(passes, requests, _CONTEXT)
    uneven = stage_share(model, plan) * plan.pipeline
    heads = head_seconds(passes, np.array([1.0, 256.0]))
    each = float(heads[1] - heads[0]) / 255
    together = np.clip(_SHARED / _NEW, 1.0, _MOST_SHARED)[:, None] * plan.data_attention
    start = attention_start_seconds(passes)
    attention = (prompt_seconds(passes, together, _NEW[:, None], _PAST) - start) / together
    return StepCost(
        step=engine.step + float(heads[0]), request=engine.request / plan.data_attention + each, tokens=_TOKENS,
        tokens_seconds=uneven * _decoding_seconds(passes),
        mixed_seconds=uneven * (_mixed_seconds(passes) + start), decode_requests=_REQUESTS,
        decode_context=_CONTEXT, decode_seconds=uneven * decoding, prompt_new=_NEW, prompt_past=_PAST,
        stages=plan.pipeline, prompt_seconds=uneven * np.maximum(attention, 0.0),
        decode_tokens=plan.draft_tokens + 1, accepted_tokens=plan.accepted_tokens,
    )  # fmt: skip


def attention_start_seconds(passes: Passes) -> float:
    """s in which the attention of prompts starts in all layers, once in a step: that of a single token."""
    single = np.ones(1)
    return float(prompt_seconds(passes, single, single, np.zeros(1))[0])


def _decoding_seconds(passes: Passes) -> Floats:
    """s of what the tokens of decoding sequences decide: one graph, or kernels that the host launches beyond graphs."""
    graphs = tokens_seconds(passes, _TOKENS)
    launched = np.maximum(graphs, prompt_host_seconds(passes))
    most = (passes.plan.graph_tokens or passes.engine.graph_tokens) * passes.plan.data_attention
    return np.where(most >= _TOKENS, graphs, launched)


def _mixed_seconds(passes: Passes) -> Floats:
    """s of what the tokens of a step with a chunk of a prompt decide; the host launches its kernels."""
    return np.maximum(tokens_seconds(passes, _TOKENS, is_prompt=True), prompt_host_seconds(passes))


def cache_room(model: Model, cluster: Cluster, plan: ServingPlan, *, longest: int = _LONGEST) -> CacheRoom:
    """The blocks of one replica next to weights and activations, for sequences of at most `longest` tokens.

    Raises NoFitError where weights and activations leave none.
    """
    engine = load_language_engine(plan.engine, cluster.gpu)
    sequences = plan.max_batch or engine.max_batch
    fixed = fixed_bytes(model, plan, engine, plan.max_batched_tokens or engine.max_batched_tokens, sequences)
    room = cache_bytes(cluster.gpu, plan, engine, fixed)
    if room <= 0:
        where = f"on each of {plan.gpus} GPUs" if plan.gpus > 1 else "on one GPU"
        raise NoFitError(
            [f"{model.name} needs {fixed / 1e9:.2f} GB {where} before any sequence; {cluster.gpu.name} has"
             f" {usable_bytes(cluster.gpu) / 1e9:.2f} GB"]
        )  # fmt: skip
    each, state = token_bytes(model, plan, longest), sequence_bytes(model, plan, longest)
    copies = plan.attention_degree * plan.context * plan.pipeline
    if not each:  # no token takes room: a block is a whole sequence
        return CacheRoom(
            block_tokens=_LONGEST, blocks=int(room / state) * plan.data_attention, token_bytes=0.0,
            state_bytes=state * copies,
        )  # fmt: skip
    block = plan.block_tokens or engine.block_tokens
    blocks = int(room / (block * each)) * plan.data_attention
    return CacheRoom(block_tokens=block, blocks=blocks, token_bytes=each * copies, state_bytes=state * copies)
