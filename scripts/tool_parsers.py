"""Each tool's own parser on the files of a folder; run by scripts/tools.py in the environment of the tools."""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.util
import json
import logging
import math
import shlex
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest import mock

GPU_ONLY = (
    "transformer_engine", "apex", "nvidia_resiliency_ext", "modelopt", "mamba_ssm", "causal_conv1d", "flashinfer",
    "flash_attn", "ring_flash_attn", "fla", "qwen_vl_utils", "timm", "open_clip", "wandb", "nltk", "nv_one_logger",
    "multistorageclient", "megatron.energon", "pathwaysutils", "orbax", "grain", "tensorflow", "tensorboardX", "qwix",
    "tokamax", "tunix", "aqt", "etils", "ml_goodput_measurement", "cloud_accelerator_diagnostics", "jetstream", "drjax",
    "tensorflow_datasets", "array_record",
)  # fmt: skip
"""packages that need GPUs, or that no parser uses: empty stand-ins"""


class _Empty(type):
    """A class that has every attribute, another of its kind, and decorates by doing nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(cls, name, made := _empty(name))
        return made

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        alone = len(arguments) == 1 and callable(arguments[0]) and not named
        return arguments[0] if alone else super().__call__()


def _empty(name: str) -> Any:
    return _Empty(name, (), {"__call__": lambda self, function=None, *rest, **named: function})


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, made := _empty(name))
        return made


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each name of GPU_ONLY."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        known = any(name == each or name.startswith(f"{each}.") for each in GPU_ONLY)
        return ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        made = _Module(spec.name)
        made.__path__, made.__version__ = [], "2.9.0"  # type: ignore[attr-defined]
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def _module(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location("written", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _names(kind: Any) -> list[str]:
    if hasattr(kind, "model_fields"):
        return sorted(
            {name for each, field in kind.model_fields.items() for name in (each, field.alias or each)}
        )
    return sorted(field.name for field in dataclasses.fields(kind))


Parser = tuple[Callable[[Path], object], dict[str, list[str]]]
"""what parses a file, and the keys that the tool knows, by table"""


def accelerate(folder: Path) -> Parser:
    """Its configuration, the check of its launcher, and the degrees as its library multiplies them."""
    from accelerate import ParallelismConfig
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    def parse(file: Path) -> None:
        known = load_config_from_file(str(file))
        words = ["--config_file", str(file), "--main_process_ip", "head", "train.py"]
        arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
        variables = {name: str(value) for name, value in prepare_multi_gpu_env(arguments).items()}
        with mock.patch.dict("os.environ", variables):
            degrees = ParallelismConfig()
        assert not known.parallelism_config or degrees.total_size == known.num_processes

    flags = {action.dest for action in launch_command_parser()._actions}
    fsdp, degrees = (
        [name for name in sorted(flags) if name.startswith(each)] for each in ("fsdp_", "parallelism_config_")
    )
    return parse, {"": _names(ClusterConfig), "fsdp_config": fsdp, "parallelism_config": degrees}


def axolotl(folder: Path) -> Parser:
    """Its schema, with all its checks."""
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from axolotl.utils.schemas.fsdp import FSDPConfig

    def parse(file: Path) -> None:
        AxolotlInputConfig(**yaml.safe_load(file.read_text()))

    return parse, {"": _names(AxolotlInputConfig), "fsdp_config": _names(FSDPConfig)}


def maxtext(folder: Path) -> Parser:
    """The types of its keys, over its own base file."""
    import yaml

    sys.path.insert(0, str(folder / "maxtext"))
    from maxtext.configs.types import MaxTextConfig

    text = (folder / "maxtext" / "maxtext" / "configs" / "base.yml").read_text()
    base = {name: None if value == "None" else value for name, value in yaml.safe_load(text).items()}

    def parse(file: Path) -> None:
        given = yaml.safe_load(file.read_text())
        assert given.pop("base_config") == "base.yml"
        assert given.keys() <= base.keys() | MaxTextConfig.model_fields.keys()
        devices = math.prod(value for name, value in given.items() if name.startswith("ici_"))
        target = {"internal_compile": True, "internal_compile_num_devices": devices}
        MaxTextConfig(**{**base, **given, **target})

    return parse, {"": sorted({"base_config", *base, *MaxTextConfig.model_fields})}


def deepspeed(folder: Path) -> Parser:
    """Its configuration, which holds the batch against the ranks."""
    from deepspeed.runtime import config as runtime
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    def parse(file: Path) -> None:
        given = json.loads(file.read_text())
        steps = given["train_micro_batch_size_per_gpu"] * given["gradient_accumulation_steps"]
        ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: given["train_batch_size"] // steps)
        with mock.patch.object(runtime.dist, "get_rank", return_value=0):
            runtime.DeepSpeedConfig(given, mpu=ranks)

    return parse, {"zero_optimization": _names(DeepSpeedZeroConfig)}


def torchtitan(folder: Path) -> Parser:
    """The last release with TOML files, which runs in a process of its own: the newer one has the same name."""
    sys.path.insert(0, str(folder / "torchtitan-0.2"))
    from torchtitan.config import job_config
    from torchtitan.config.manager import ConfigManager

    def parse(file: Path) -> None:
        ConfigManager().parse_args([f"--job.config_file={file}"])

    tables = {"parallelism": "Parallelism", "training": "Training", "compile": "Compile", "job": "Job", "model": "Model",
              "activation_checkpoint": "ActivationCheckpoint", "quantize.linear.float8": "Float8Linear"}  # fmt: skip
    return parse, {table: _names(getattr(job_config, name)) for table, name in tables.items()}


def nemo(folder: Path) -> Parser:
    """Megatron-Bridge's container, and the checks of Megatron-Core's configurations."""
    from megatron.bridge.models.mla_provider import MLAModelProvider
    from megatron.bridge.training import comm_overlap, config
    from megatron.bridge.training.mixed_precision import get_mixed_precision_config

    def parse(file: Path) -> None:
        made = _module(file).pretrain_config()
        if made.mixed_precision:
            get_mixed_precision_config(made.mixed_precision).setup(made.model, made.optimizer, made.ddp)
        made.model.finalize()
        made.ddp.finalize()
        if (
            not made.optimizer.use_precision_aware_optimizer
        ):  # which asks the real FusedAdam for its signature
            made.optimizer.finalize()

    tables = {"train": config.TrainingConfig, "optimizer": config.OptimizerConfig, "checkpoint": config.CheckpointConfig,
              "ddp": config.DistributedDataParallelConfig, "dist": config.DistributedInitConfig,
              "model": MLAModelProvider, "comm_overlap": comm_overlap.CommOverlapConfig}  # fmt: skip
    return parse, {name: _names(kind) for name, kind in tables.items()}


def torchrun(folder: Path) -> Parser:
    """The parser of torchrun."""
    from torch.distributed.run import get_args_parser

    def parse(file: Path) -> None:
        words = [word for word in shlex.split(file.read_text(), comments=True) if word.strip()]
        given = get_args_parser().parse_args(words[1:])
        assert given.training_script in ("pretrain_gpt.py", "torchtitan.train")

    return parse, {}


def slurm(folder: Path) -> Parser:
    """The shell's parser; tests/launching/test_slurm.py submits scripts to a real Slurm."""

    def parse(file: Path) -> None:
        subprocess.run(["bash", "-n", file], check=True)

    return parse, {}


def kubernetes(folder: Path) -> Parser:
    """The classes of Kubeflow's client: read and written again, the manifest is the same."""
    import yaml
    from kubeflow import training
    from kubernetes import client

    for name in dir(training.models):
        setattr(client.models, name, getattr(training.models, name))
    api = client.ApiClient()

    def parse(file: Path) -> None:
        manifest = yaml.safe_load(file.read_text())
        answer = types.SimpleNamespace(data=json.dumps(manifest))
        made = api.deserialize(answer, "KubeflowOrgV1PyTorchJob")
        assert api.sanitize_for_serialization(made) == manifest

    return parse, {}


PARSERS: dict[str, Callable[[Path], Parser]] = {
    "accelerate": accelerate, "axolotl": axolotl, "maxtext": maxtext, "deepspeed": deepspeed, "torchtitan": torchtitan,
    "nemo": nemo, "torchrun": torchrun, "slurm": slurm, "kubernetes": kubernetes,
}  # fmt: skip


def parsed(folder: Path, tool: str) -> tuple[str, dict[str, list[str]], bool]:
    """(a line about a tool, the keys that it knows, whether all its files are read)."""
    try:
        parse, keys = PARSERS[tool](folder)
    except Exception as error:
        return f"{tool}: not installed here: {type(error).__name__}: {str(error)[:100]}", {}, True
    files = sorted((folder / "plans" / tool).iterdir())
    wrong = list(_refused(files, parse))
    shown = "".join(f"\n    {line}" for line in wrong[:3])
    return f"{tool}: {len(files) - len(wrong)} of {len(files)} files are read{shown}", keys, not wrong


def _refused(files: list[Path], parse: Callable[[Path], object]) -> Iterator[str]:
    for file in files:
        try:
            parse(file)
        except Exception as error:
            yield f"{file.name}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def main(folder: Path, record: Path | None, only: str = "") -> int:
    """Parse the files of one tool; without a name of every tool, each in a process of its own."""
    if only:
        sys.meta_path.insert(0, _StandIns())
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        line, keys, good = parsed(folder, only)
        print("\n" + json.dumps({"line": line, "keys": keys, "good": good}))
        return 0
    known, good = {}, True
    for tool in PARSERS:
        command = [sys.executable, __file__, folder, "--only", tool]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            answer = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            answer = {"line": f"{tool}: {done.stderr.strip()[-300:]}", "keys": {}, "good": False}
        print(answer["line"], flush=True)
        good &= answer["good"]
        known[tool] = answer["keys"]
    if record is not None:
        kept = {tool: keys for tool, keys in known.items() if keys}
        record.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
    return int(not good)


if __name__ == "__main__":
    options = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    place = Path(options["--record"]) if "--record" in options else None
    sys.exit(main(Path(sys.argv[1]), place, options.get("--only", "")))
