"""Fine-tuning in launch files: tools that train every parameter refuse it, the others leave it to the training script."""

from __future__ import annotations

from podsim.errors import PlanError
from podsim.launching.job import Job
from podsim.workload.finetuning import read_training
from podsim.workload.model import Model

SCRIPT_TOOLS = ("deepspeed", "accelerate", "axolotl")
"""tools whose file says nothing of which parameters are trained: the user's training script does"""
_DEFAULT, _OF_SCRIPTS = "megatron", "deepspeed"


def default_tool(model: Model, train: str) -> str:
    """The tool that starts a model if none is named: Megatron-LM for a decoder that is trained in full."""
    is_decoder = not model.attributes.get("bidirectional") and not any(
        block.encoder for block in model.layers
    )
    return _DEFAULT if is_decoder and train == "full" else _OF_SCRIPTS


def check_tuning(job: Job, tool: str) -> None:
    """Raise PlanError where a tool trains every parameter and the job does not."""
    if job.model.training != "full" and tool not in SCRIPT_TOOLS:
        raise PlanError([
            f"train={job.model.training}: {tool} trains every parameter; --for {_OF_SCRIPTS} writes the file of a "
            "training script, which makes the adapters"
        ])  # fmt: skip


def tuning_notes(job: Job) -> list[str]:
    """What the training script has to do to train what the plan says."""
    training = job.model.training
    if training == "full":
        return []
    rest = training.removeprefix("dpo").lstrip("+") or "full"
    kind, number = read_training(rest)
    notes = []
    if training.startswith("dpo"):
        notes.append(
            "the training script is one of trl: DPOTrainer, each pair two sequences of a micro-batch"
        )
    if kind in ("lora", "qlora"):
        notes.append(
            f"the training script adds the adapters: peft.LoraConfig(r={number}, lora_alpha={2 * number}, "
            'target_modules="all-linear")'
        )
    if kind == "qlora":
        notes.append(
            'and loads the weights with transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", '
            "bnb_4bit_use_double_quant=True)"
        )
    if kind == "frozen":
        notes.append(
            f"the training script freezes the embedding and the first {number} layers: requires_grad_(False)"
        )
    return notes
