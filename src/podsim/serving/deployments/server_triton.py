"""Triton's model repository for a served language model: its vLLM backend, or its TensorRT-LLM backend.

Sources: triton-inference-server/common @83adf7cf (protobuf/model_config.proto); the backends' READMEs. The vLLM backend
reads the engine's arguments from 1/model.json. One Triton server runs one replica.
"""

from __future__ import annotations

import json
import re
from typing import Any

from podsim.errors import PodsimError
from podsim.serving.best_words import engine_title
from podsim.serving.deployments.deployment import VERSIONS, Deployment, DeploymentFiles, refuse
from podsim.serving.deployments.engine_flags import TOOLS, checkpoint_notes
from podsim.serving.deployments.server_scripts import script_problems

_INPUTS = (
    ("input_ids", "TYPE_INT32", "-1", "allow_ragged_batch: true"),
    ("input_lengths", "TYPE_INT32", "1", "reshape: { shape: [ ] }"),
    ("request_output_len", "TYPE_INT32", "1", ""),
    ("end_id", "TYPE_INT32", "1", "reshape: { shape: [ ] } optional: true"),
    ("streaming", "TYPE_BOOL", "1", "reshape: { shape: [ ] } optional: true"),
)
_OUTPUTS = (("output_ids", "TYPE_INT32", "-1, -1"), ("sequence_length", "TYPE_INT32", "-1"))


def triton_repository(deployment: Deployment) -> DeploymentFiles:
    """config.pbtxt, and model.json of the vLLM backend. PodsimError for an engine that Triton has no backend for."""
    refuse(script_problems(deployment))
    plan = deployment.plan
    if plan.engine == "sglang":
        raise PodsimError(
            "Triton has no backend for SGLang; its engines are vllm and tensorrt-llm (--engine)"
        )
    if deployment.prefill is not None:
        raise PodsimError(
            "Triton serves one pool, not one for prompts and one for decoding; write sglang or vllm"
        )
    name = re.sub(r"[^a-z0-9_]+", "_", deployment.model.name.lower())
    release = f"{engine_title(plan.engine)} {VERSIONS[plan.engine]}"
    head = f"# Triton with {release}: one server for each of {plan.replicas} replicas\n"
    notes = tuple(checkpoint_notes(plan))
    if plan.engine == "vllm":
        files = {
            f"{name}/config.pbtxt": head + _vllm_config(name),
            f"{name}/1/model.json": _vllm_arguments(deployment),
        }
        return DeploymentFiles(files=files, notes=notes)
    degrees = f"tensor {plan.tensor}, pipeline {plan.pipeline}"
    build = f"trtllm-build makes the engine of {deployment.weights} for {name}/1: {degrees}"
    return DeploymentFiles(
        files={f"{name}/config.pbtxt": head + _trtllm_config(deployment, name)}, notes=(*notes, build)
    )


def _vllm_config(name: str) -> str:
    return (
        f'name: "{name}"\nbackend: "vllm"\nmax_batch_size: 0\nmodel_transaction_policy {{ decoupled: true }}\n'
        "instance_group [\n  { count: 1 kind: KIND_MODEL }\n]\n"
    )


def _vllm_arguments(deployment: Deployment) -> str:
    options: dict[str, Any] = {"model": deployment.weights}
    for name, value in TOOLS["vllm"].write(deployment, deployment.plan).items():
        key = name.removeprefix("no-").replace("-", "_")
        options[key] = _argument(value) if value is not True else not name.startswith("no-")
    return json.dumps(options, indent=2) + "\n"


def _argument(value: Any) -> Any:
    """An option's value as JSON: numbers and objects are no text."""
    try:
        return json.loads(str(value))
    except ValueError:
        return value


def _trtllm_config(deployment: Deployment, name: str) -> str:
    plan, engine = deployment.plan, deployment.engine
    parameters = {
        "gpt_model_type": "inflight_fused_batching", "gpt_model_path": f"/models/{name}/1",
        "batch_scheduler_policy": "guaranteed_no_evict", "enable_chunked_context": str(plan.chunked_prefill).lower(),
        "kv_cache_free_gpu_mem_fraction": f"{plan.memory_share or engine.memory_share:g}",
        "enable_kv_cache_reuse": "true", "max_beam_width": "1",
    }  # fmt: skip
    inputs = ",\n".join(
        f'  {{ name: "{each}" data_type: {kind} dims: [ {dims} ] {more} }}'.replace("  }", " }")
        for each, kind, dims, more in _INPUTS
    )
    outputs = ",\n".join(
        f'  {{ name: "{each}" data_type: {kind} dims: [ {dims} ] }}' for each, kind, dims in _OUTPUTS
    )
    keys = "".join(
        f'parameters: {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
        for key, value in parameters.items()
    )
    return (
        f'name: "{name}"\nbackend: "tensorrtllm"\nmax_batch_size: {plan.max_batch or engine.max_batch}\n'
        "model_transaction_policy { decoupled: true }\n"
        "dynamic_batching { max_queue_delay_microseconds: 0 }\n"
        f"input [\n{inputs}\n]\noutput [\n{outputs}\n]\n"
        "instance_group [\n  { count: 1 kind: KIND_CPU }\n]\n"
        f"{keys}"
    )
