"""Fine-tuning in launch files: tools that train every parameter refuse it, the others leave it to the training script."""

from __future__ import annotations

from podsim.errors import PlanError
from podsim.launching.job import Job
from podsim.safe_yaml import YamlError, read_documents
from podsim.workload.finetuning import read_training
from podsim.workload.model import Model

TUNING_TOOLS = ("axolotl", "deepspeed", "accelerate")
"""tools that can train a part of the parameters: axolotl by its keys, the others by the user's training script"""
_DEFAULT, _OF_SCRIPTS = "megatron", "deepspeed"


def default_tool(model: Model, train: str) -> str:
    """The tool that starts a model if none is named: Megatron-LM for a decoder that is trained in full."""
    is_decoder = not model.attributes.get("bidirectional") and not any(
        block.encoder for block in model.layers
    )
    return _DEFAULT if is_decoder and train == "full" else _OF_SCRIPTS


def check_tuning(job: Job, tool: str) -> None:
    """Raise PlanError where a tool trains every parameter and the job does not."""
    if job.model.training != "full" and tool not in TUNING_TOOLS:
        raise PlanError([
            f"train={job.model.training}: {tool} trains every parameter; --for axolotl writes a file with adapters, "
            f"--for {_OF_SCRIPTS} one for a training script that makes them"
        ])  # fmt: skip


def tuning_keys(job: Job) -> dict[str, object]:
    """axolotl's keys of what is trained (0.21, utils/schemas/peft.py, config.py)."""
    kind, number, compares = _parts(job.model.training)
    keys: dict[str, object] = {"rl": "dpo"} if compares else {}
    if kind in ("lora", "qlora"):
        keys |= {
            "adapter": kind, "lora_r": number, "lora_alpha": 2 * number, "lora_dropout": 0.0, "lora_target_linear": True,
        }  # fmt: skip
    if kind == "qlora":
        keys["load_in_4bit"] = True
    if kind == "frozen":
        layers = "|".join(str(layer) for layer in range(number, job.model.layer_count))
        keys["unfrozen_parameters"] = [r"^lm_head\.", r"^model\.norm\.", rf"^model\.layers\.({layers})\."]
    return keys


def training_of(text: str) -> str:
    """What an axolotl file trains: full, lora:16, dpo; full where it is silent or cannot be read."""
    try:
        documents = read_documents(text)
    except YamlError:
        return "full"
    table = documents[0] if documents and isinstance(documents[0], dict) else {}
    rank = table.get("lora_r")
    kind = table.get("adapter") if table.get("adapter") in ("lora", "qlora") else ""
    tuned = f"{kind}:{rank}" if kind and type(rank) is int and rank > 0 else kind or "full"
    return f"dpo+{tuned}".removesuffix("+full") if table.get("rl") == "dpo" else tuned


def _parts(training: str) -> tuple[str, int, bool]:
    """(kind, number, whether preferences are compared) of what is trained."""
    rest = training.removeprefix("dpo").lstrip("+") or "full"
    return (*read_training(rest), training.startswith("dpo"))


def tuning_notes(job: Job, tool: str) -> list[str]:
    """What the training script has to do to train what the plan says."""
    if job.model.training == "full" or tool == "axolotl":
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
