"""Training steps in llm-analysis at the peak of an A100.

Reads [{"model": ..., "parallel": ..., "training": ..., "recompute": n, "zero": n}, ...]; writes {"steps": [s, ...],
"memory": [B, ...], "seconds": s of one}. A step at a share of the peak is that much longer.
"""

import json
import logging
import sys
import time

from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
from llm_analysis.config import (
    ModelConfig,
    ParallelismConfig,
    get_dtype_config_by_name,
    get_gpu_config_by_name,
)


def analyse(row):
    """The analysis of a training step."""
    analysis = LLMAnalysis(
        ModelConfig(**row["model"]), get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16"),
        ParallelismConfig(**row["parallel"]), flops_efficiency=1.0,
    )  # fmt: skip
    return analysis.training(
        **row["training"], activation_recomputation=ActivationRecomputation(row["recompute"]),
        ds_zero=DSZeRO(row["zero"]),
    )  # fmt: skip


logging.disable()
rows = json.load(sys.stdin)
for _ in range(2):  # the second is warm
    started = time.process_time()
    answers = [analyse(row) for row in rows]
    seconds = (time.process_time() - started) / len(rows)
steps = [answer["latency_per_iter"] for answer in answers]
memory = [answer["(weight+op_state+grad+act)_memory_per_gpu"] for answer in answers]
print(json.dumps({"steps": steps, "memory": memory, "seconds": seconds}))
