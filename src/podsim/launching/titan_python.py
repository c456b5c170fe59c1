"""torchtitan from 0.3: a plan as a Python function that gives Trainer.Config, and read back.

Its keys are those of the TOML files, but for the table below. Source: torchtitan 0.3.0, config/configs.py, trainer.py,
models/*/config_registry.py; what changed after it, commit 73aed7f6.
"""

from __future__ import annotations

from typing import Any

from podsim.launching import titan
from podsim.launching.job import Context, Job, Reading
from podsim.launching.python_config import Expression, call_text, read_paths
from podsim.launching.titan_read import read_tables

_FLOAT8 = "quantize.linear.float8"
_CONVERTER = "model_spec.converters.Float8LinearConverter_Config"
_NAMES = {
    "job.dump_folder": "dump_folder",
    "model.hf_assets_path": "hf_assets_path",
    "training.dataset": "dataloader.dataset",
    "parallelism.enable_async_tensor_parallel": "compile.enable_async_tensor_parallel",
    f"{_FLOAT8}.recipe_name": f"{_CONVERTER}.recipe_name",
    f"{_FLOAT8}.filter_fqns": f"{_CONVERTER}.filter_fqns",
}
"""keys of TOML files and the paths that they have now; other paths are the same"""
_GONE = ("job.description", "model.name", "model.flavor", "model.converters", "activation_checkpoint.selective_ac_option",
         "activation_checkpoint.mode", "parallelism.expert_tensor_parallel_degree")  # fmt: skip
_CLASSES = {
    "training": "TrainingConfig", "parallelism": "ParallelismConfig", "compile": "CompileConfig",
    "dataloader": "HuggingFaceTextDataLoader.Config",
}  # fmt: skip
_CHECKPOINTING = {"none": "None", "selective": "SelectiveAC.Config", "full": "FullAC.Config"}
_IMPORTS = """\
from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common.config_utils import decoder_vocab_size
from torchtitan.models.{name} import model_registry
from torchtitan.trainer import Trainer
"""


def cannot(job: Job) -> list[str]:
    """The parts of a legal plan that torchtitan cannot run."""
    old = job.plan.precision == "fp8" and job.plan.software != "torchtitan-2024-rowwise"
    rowwise = f"precision=fp8 with software={job.plan.software}: from 0.3 it scales row by row, torchtitan-2024-rowwise"
    return [*titan.cannot(job), *([rowwise] if old else [])]


def source(job: Job) -> str:
    """The module, with one function `podsim_train`."""
    tables = titan.tables(job)
    flat = {f"{table}.{key}": value for table, keys in tables.items() for key, value in keys.items()}
    paths = {_NAMES.get(path, path): value for path, value in flat.items() if path not in _GONE}
    nested: dict[str, Any] = {
        "model_spec": Expression("model_spec"),
        "optimizer": Expression("default_adamw(lr=3e-4)"),
    }
    nested["loss"] = Expression(
        "ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)))"
    )
    converter = {
        path.rpartition(".")[2]: value for path, value in paths.items() if path.startswith(_CONVERTER)
    }
    for path, value in paths.items():
        table, _, key = path.partition(".")
        if not key:
            nested[table] = value
        elif table in _CLASSES:
            nested.setdefault(table, (_CLASSES[table], {}))[1][key] = value
    nested["training"][1]["disable_cuda_graphs"] = True  # a plan counts the host's launches
    kind = _CHECKPOINTING[tables["activation_checkpoint"]["mode"]]
    nested["activation_checkpoint"] = (kind, {}) if kind != "None" else None
    spec = {"flavor": tables["model"]["flavor"]}
    quantised = {"converters": [("Float8LinearConverter.Config", converter)]} if converter else {}
    imports = _IMPORTS.format(name=tables["model"]["name"])
    return (
        f'"""torchtitan 0.3: {job.name} on {job.plan.gpus} GPUs."""\n\n{imports}\n\n'
        "def podsim_train() -> Trainer.Config:\n"
        f"    model_spec = {call_text('model_registry', spec | quantised)}\n"
        f"    return {call_text('Trainer.Config', nested)}\n"
    )


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        f"save it as PACKAGE/config_registry.py; start it with torchrun --nnodes {job.nodes} --nproc-per-node "
        f"{job.per_node} -m torchtitan.train --module PACKAGE --config podsim_train",
        "trains on c4 for 100 steps; hf_assets_path must hold the tokenizer, and dataloader.dataset be yours",
    ]


def read_python(text: str, context: Context) -> Reading | None:
    """The plan of a configuration; None where nothing can be built. PodsimError if it is no Python."""
    paths = read_paths(text)
    old = {new: name for name, new in _NAMES.items()}
    kept = ("training.", "parallelism.", "compile.", "dataloader.")
    given = {
        old.get(path, path): value for path, value in paths.items() if path in old or path.startswith(kept)
    }
    kind = str(paths.get("activation_checkpoint", "SelectiveAC.Config"))
    mode = next((name for name, word in _CHECKPOINTING.items() if word == kind), None)
    if mode is None:
        context.problems.append(
            f"activation_checkpoint={kind[:60]} may be {', '.join(_CHECKPOINTING.values())}"
        )
    names = [
        line.split(".")[2].split(" ")[0]
        for line in text.splitlines()
        if line.startswith("from torchtitan.models.")
    ]
    family = next((name for name in names if name != "common"), "llama3")
    given |= {
        "activation_checkpoint.mode": mode or "none", "model.name": family,
        "model.flavor": paths.get("model_spec.flavor", paths.get("model_spec.0", "debugmodel")),
    }  # fmt: skip
    if mode == "selective":
        given["activation_checkpoint.selective_ac_option"] = "op"
    converters = paths.get("model_spec.converters", [])
    if any(str(each).startswith("Float8") for each in converters):
        given |= {"model.converters": [_FLOAT8]}
        given.setdefault(f"{_FLOAT8}.recipe_name", "rowwise")
    tp, ep = (given.get(f"parallelism.{name}_parallel_degree", 1) for name in ("tensor", "expert"))
    given["parallelism.expert_tensor_parallel_degree"] = tp if ep != 1 else 1
    return read_tables(_counted_in_sequences(given), context)


def _counted_in_sequences(given: dict[str, Any]) -> dict[str, Any]:
    """The keys as 0.3.0 has them, where newer ones count tokens, and micro-batches rather than their sequences."""
    length = given.pop("training.max_context_length", None)
    if length is not None:
        given["training.seq_len"] = length
    length = given.get("training.seq_len", 2048)
    local, batch = (
        given.pop(f"training.num_tokens_per_{of}", None) for of in ("microbatch_per_dp_rank", "train_step")
    )
    if isinstance(length, int) and length > 0:
        if isinstance(local, int):
            given["training.local_batch_size"] = local // length
        if isinstance(batch, int):
            given["training.global_batch_size"] = batch // length if batch > 0 else -1
    count = given.pop("parallelism.num_pp_microbatches", None)
    local = given.get("training.local_batch_size", 8)
    if isinstance(count, int) and isinstance(local, int) and count > 0:
        given["parallelism.pipeline_parallel_microbatch_size"] = max(local // count, 1)
    return given
