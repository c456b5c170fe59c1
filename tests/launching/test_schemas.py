"""What is written, held against the tools' own schemas where their packages are installed.

The model classes of Kubernetes and Kubeflow are light and part of the tests' requirements. DeepSpeed, torchtitan and
Megatron-Core need PyTorch: their checks run where somebody has them. Megatron-LM's argument parser is in no package;
its options are made from the fields of Megatron-Core's dataclasses, which the check reads without importing them.
"""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from podsim.hardware.cluster import load_cluster
from podsim.launching import deepspeed, kubernetes, titan
from podsim.launching.job import Job
from podsim.launching.tools import TOOLS, emit
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

JOBS = {
    "megatron": Plan(
        tp=8, pp=2, dp=2, virtual_stages=3, ep=2, global_batch=64, sequence_parallel=True, zero=1, shard=2,
        recompute="full", recompute_layers=3, schedule="interleaved", overlap_tp=True, precision="fp8",
        optimizer_precision="bf16",
    ),
    "torchtitan": Plan(
        tp=2, pp=2, dp=8, virtual_stages=4, global_batch=64, sequence_parallel=True, zero=3, shard=4,
        schedule="interleaved", recompute="selective", overlap_tp=True, precision="fp8",
        software="torchtitan-2024-rowwise",
    ),
    "deepspeed": Plan(tp=2, dp=16, micro_batch=2, global_batch=64, zero=3, recompute="full"),
}  # fmt: skip


def _job(tool: str) -> Job:
    cluster = load_cluster("superpod-h100:1su").subset(32)
    model = load_model("mixtral-8x7b" if tool == "megatron" else "llama-3.1-8b")
    return Job(model=model, cluster=cluster, plan=JOBS[tool].check(model, cluster), mounts=("/data:/data",))


def _source(package: str, path: str) -> Path:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed; its files are checked where it is")
    found = [Path(place) / path for place in spec.submodule_search_locations if (Path(place) / path).exists()]
    if not found:
        pytest.skip(f"this {package} has no {path}")
    return found[0]


def _fields(path: Path) -> dict[str, set[str]]:
    """Fields of every class of a module, read and not run."""
    tree = ast.parse(path.read_text("utf-8"))
    return {
        node.name: {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }  # fmt: skip


@pytest.mark.parametrize("tool", ["megatron", "torchtitan"])
def test_the_manifest_is_what_kubeflow_takes(tool: str) -> None:
    """Read as the classes of the API and written again, it is the same: no field is unknown or of another type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training = pytest.importorskip("kubeflow.training", exc_type=ImportError)
        from kubernetes.client import ApiClient

    manifest = kubernetes.manifest(_job(tool))

    class Answer:
        data = json.dumps(manifest)

    client: Any = ApiClient()
    for name in dir(training.models):  # as the package's own client makes them known
        setattr(__import__("kubernetes").client.models, name, getattr(training.models, name))
    made = client.deserialize(Answer(), "KubeflowOrgV1PyTorchJob")
    again = client.sanitize_for_serialization(made)
    pods = [one["template"]["spec"] for one in manifest["spec"]["pytorchReplicaSpecs"].values()]
    assert again == manifest
    assert all(
        client.sanitize_for_serialization(client.deserialize(_answer(pod), "V1PodSpec")) == pod
        for pod in pods
    )


def _answer(value: object) -> Any:
    return type("Answer", (), {"data": json.dumps(value)})()


def test_the_json_is_what_deepspeed_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = pytest.importorskip("deepspeed.runtime.zero.config", exc_type=ImportError)
        runtime = pytest.importorskip("deepspeed.runtime.config", exc_type=ImportError)
    made = deepspeed.config(_job("deepspeed"))
    zero = config.DeepSpeedZeroConfig(**made["zero_optimization"])
    assert (zero.stage, zero.overlap_comm) == (3, True)
    monkeypatch.setattr(runtime.dist, "get_rank", lambda: 0)
    ranks = SimpleNamespace(get_data_parallel_world_size=lambda: 16)
    whole = runtime.DeepSpeedConfig(made, mpu=ranks)  # which asserts batch = micro x steps x ranks
    assert (whole.train_batch_size, whole.gradient_accumulation_steps) == (64, 2)
    assert whole.activation_checkpointing_config.number_checkpoints == 32


def test_the_toml_is_what_torchtitan_takes() -> None:
    classes = _fields(_source("torchtitan", "config/job_config.py"))
    of = {"job": "Job", "model": "Model", "training": "Training", "parallelism": "Parallelism", "compile": "Compile",
          "activation_checkpoint": "ActivationCheckpoint", "quantize": "Quantize"}  # fmt: skip
    made = tomllib.loads(titan.toml(_job("torchtitan")))
    assert set(made["quantize"]["linear"]["float8"]) <= classes["Float8Linear"]
    for table, values in made.items():
        assert set(values) <= classes[of[table]], table


def test_the_options_are_fields_of_megatron_core() -> None:
    paths = ("transformer/transformer_config.py", "model_parallel_config.py", "optimizer/optimizer_config.py",
             "distributed/distributed_data_parallel_config.py")  # fmt: skip
    known = {
        field
        for path in paths
        for fields in _fields(_source("megatron.core", path)).values()
        for field in fields
    }
    options = [
        word[2:].replace("-", "_")
        for word in emit(_job("megatron"), "megatron").text.split()
        if word[:2] == "--"
    ]
    held = ("parallel", "overlap", "recompute", "dtype")
    parallel = {name for name in options if any(word in name for word in held)}
    renamed = {  # by Megatron-LM's own parser, arguments.py
        "num_virtual_stages_per_pipeline_rank", "overlap_grad_reduce", "overlap_param_gather",
    }  # fmt: skip
    assert len(parallel) > 8
    assert parallel - renamed <= known


def test_every_tool_writes_something_readable() -> None:
    for tool in TOOLS:
        job = _job(tool if tool in JOBS else "megatron")
        assert len(emit(job, tool).text) > 100
