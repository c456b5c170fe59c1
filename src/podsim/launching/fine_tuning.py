"""Fine-tuning in launch files: the tool that is taken if none is named, and what a training script has to do."""

from __future__ import annotations

from podsim.launching.job import Job
from podsim.workload.finetuning import read_training
from podsim.workload.model import Model

_SCRIPTED = ("deepspeed", "accelerate")
"""tools whose training script decides what is trained"""
_DEFAULT, _OF_SCRIPTS = "megatron", "deepspeed"


def default_tool(model: Model, train: str) -> str:
    """The tool that starts a model if none is named: Megatron-LM for a decoder that is trained in full."""
    is_decoder = not model.attributes.get("bidirectional") and not any(
        block.encoder for block in model.layers
    )
    return _DEFAULT if is_decoder and train == "full" else _OF_SCRIPTS


def _parts(training: str) -> tuple[str, int, bool]:
    """(kind, number, whether preferences are compared) of what is trained."""
    rest = training.removeprefix("dpo").lstrip("+") or "full"
    return (*read_training(rest), training.startswith("dpo"))


def tuning_notes(job: Job, tool: str) -> list[str]:
    """What the training script has to do to train what the plan says."""
    if job.model.training == "full" or tool not in _SCRIPTED:
        return []
    kind, number, compares = _parts(job.model.training)
    notes = []
    if compares:
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
