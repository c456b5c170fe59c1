"""A user's Megatron-LM command: which plan is it, how long would it train, and what would that cost on rented GPUs?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import podsim

COMMAND = """
GPUS_PER_NODE=8; NNODES=16
MODEL=(--num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 --max-position-embeddings 2048)
PARALLEL="--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer"
torchrun --nnodes $NNODES --nproc-per-node $GPUS_PER_NODE pretrain_gpt.py ${MODEL[@]} $PARALLEL \\
    --micro-batch-size 2 --global-batch-size 512 --bf16 --overlap-grad-reduce --lr 1.2e-4 --data-path $DATA
"""


def two_digits(value: float) -> str:
    """A number rounded to two significant digits."""
    return f"{float(f'{value:.2g}'):,.15g}"


with tempfile.TemporaryDirectory() as directory:
    (Path(directory) / "train.sh").write_text(COMMAND)
    found = podsim.launch(read=f"{directory}/train.sh", on="dgx-a100-80gb:16")

plan = {name: found.plan[name] for name in ("tp", "pp", "dp", "micro_batch", "zero")}
print("plan:", " ".join(f"{name}={value}" for name, value in plan.items()))
print("ignored:", "; ".join(found.ignored))

one = found.prediction
days = 300e9 / one.tokens_per_second / 86400
hours = days * 24 * found.gpus
print(
    f"{two_digits(one.step_time)} s a step, MFU {100 * one.mfu:.2g} %, {two_digits(days)} days for 300 billion tokens"
)

bill = podsim.cost("dgx-a100-80gb:16", gpu_hours=hours, price=["aws-p4de", "specialist-a100"], pue=1.1)
print(f"{two_digits(hours)} GPU hours, {two_digits(bill.energy / 3.6e9)} MWh at the meter")
for row in bill.rows:
    print(f"{two_digits(row.low)} to {two_digits(row.high)} USD: {row.offer.name}, {row.offer.date}")
