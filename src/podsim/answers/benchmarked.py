"""Measured servers: what a benchmark's file says of its load, and the figures that it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LATENCIES = {
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token latency",
    "e2e": "end-to-end latency",
    "step": "latency of a batch",
}
"""kind of latency -> its words; a figure is the kind and a statistic: ttft_p99, tpot_mean"""
RATES = {
    "requests": "requests",
    "output": "output tokens",
    "tokens": "input and output tokens",
    "user": "output tokens per user",
    "goodput": "requests within the objective",
}
"""kind of rate -> what it counts; a figure is the kind and `_rate`: requests_rate"""


@dataclass(frozen=True, kw_only=True)
class ServerBenchmark:
    """One run of a benchmark against a server of a model, as its file says. What the file leaves out is empty."""

    id: str
    """The name of the file, and the number of the run in it."""
    tool: str
    """The tool that wrote the file: vllm, sglang, genai-perf, aiperf, trtllm-bench, mlperf."""
    model: str = ""
    """The model as the file names it."""
    engine: str = ""
    """The engine that was measured: vllm, sglang, tensorrt-llm."""
    version: str = ""
    """The engine's version."""
    gpu: str = ""
    """The GPU as its driver names it."""
    layout: Mapping[str, int] = field(default_factory=dict)
    """count. The degrees of the layout: tensor, pipeline, expert, replicas, max_batch, max_batched_tokens."""
    precision: str = ""
    """The number format of the weights."""
    cache: str = ""
    """The number format of keys and values."""
    scenario: str = ""
    """MLPerf's scenario."""
    requests: int = 0
    """count. The completed requests."""
    failed: int = 0
    """count. The requests without an answer."""
    input_tokens: float = 0.0
    """count. The mean tokens of a prompt."""
    output_tokens: float = 0.0
    """count. The mean tokens of an answer."""
    rate: float = 0.0
    """1/s. The rate at which requests were sent; 0: as fast as they were answered."""
    concurrency: float = 0.0
    """count. The most requests in flight; 0: no limit."""
    burstiness: float = 1.0
    """factor. The shape of the gamma distribution of the intervals; 1 is Poisson."""
    seconds: float = 0.0
    """s. The duration of the run."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """SI. The measured figures by name: ttft_p99 and tpot_mean in s, output_rate in 1/s."""
