"""A shell script that starts every server of a deployment on its GPUs, and TensorRT-LLM's YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from podsim.quoting import shell_word
from podsim.safe_yaml import yaml_text
from podsim.serving.best_words import engine_title
from podsim.serving.deployments.deployment import PORT, VERSIONS, Deployment, DeploymentFiles, refuse
from podsim.serving.deployments.engine_flags import checkpoint_notes, format_problems, server_words
from podsim.serving.serving_plan import ServingPlan

_BOOTSTRAP, _SIDE = 8998, 5600


def server_script(deployment: Deployment) -> DeploymentFiles:
    """The script, with the file of options that TensorRT-LLM needs next to it."""
    refuse(script_problems(deployment))
    engine = deployment.plan.engine
    servers = list(_servers(deployment))
    nodes = _script_nodes(deployment)
    lines = [
        "#!/usr/bin/env bash",
        f"# {engine_title(engine)} {VERSIONS[engine]}: bash serve.sh{' on each node' if nodes > 1 else ''}",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *servers,
        "wait",
    ]
    files = {"serve.sh": "\n".join(lines) + "\n"}
    if engine == "tensorrt-llm":
        files |= {name: yaml_text(config) for name, config in trtllm_configs(deployment).items()}
    return DeploymentFiles(files=files, notes=tuple(_notes(deployment, nodes)))


def script_problems(deployment: Deployment) -> list[str]:
    """What an engine cannot run of a deployment."""
    plan, problems = deployment.plan, []
    for _, pool in deployment.pools:
        problems += format_problems(pool)
        if pool.context > 1 and pool.engine != "tensorrt-llm":
            problems.append(
                f"cp={pool.context}: {engine_title(pool.engine)} is not written with divided contexts"
            )
        if pool.engine == "tensorrt-llm" and pool.data_attention not in (1, pool.tensor):
            problems.append(
                f"attention_dp={pool.data_attention}: TensorRT-LLM has 1 or all {pool.tensor} GPUs"
            )
        if pool.engine == "vllm" and pool.expert not in (1, pool.tensor):
            problems.append(f"ep={pool.expert}: vLLM deals experts over all {pool.tensor} GPUs, or none")
    if plan.engine == "tensorrt-llm" and any(deployment.nodes(pool) > 1 for _, pool in deployment.pools):
        problems.append(
            "TensorRT-LLM starts a replica on several nodes with mpirun or srun, which is not written"
        )
    return problems


def _script_nodes(deployment: Deployment) -> int:
    gpus = sum(plan.gpus * plan.replicas for _, plan in deployment.pools)
    return -(-gpus // deployment.cluster.gpus_per_node)


def _servers(deployment: Deployment) -> Iterator[str]:
    """A command for each replica of the first node; the other nodes run the same, where there are several."""
    first, number, each = 0, 0, deployment.cluster.gpus_per_node
    for role, plan in deployment.pools:
        here = plan.replicas if deployment.prefill else min(plan.replicas, max(each // plan.gpus, 1))
        for _ in range(here):
            port, gpus = PORT + number, range(first % each, min(first % each + plan.gpus, each))
            more = (
                role_options(role, plan, number) | _host(role, plan, port) | _node_options(deployment, plan)
            )
            variables = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if len(gpus) < each else {}
            if plan.engine == "vllm" and role != "both":
                variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(_SIDE + number)
            start = " ".join(f"{name}={value}" for name, value in variables.items())
            yield f"{start} {_wrapped(server_words(deployment, plan, more))} &".strip()
            first, number = first + plan.gpus, number + 1


def _host(role: str, plan: ServingPlan, port: int) -> dict[str, Any]:
    config = {"config": config_name(role)} if plan.engine == "tensorrt-llm" else {}
    return {**config, "host": "0.0.0.0", "port": port}


def role_options(role: str, plan: ServingPlan, number: int) -> dict[str, Any]:
    """The options of a pool that only reads prompts, or only decodes."""
    if role == "both":
        return {}
    if plan.engine == "vllm":
        return {"kv-transfer-config": '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'}
    if plan.engine == "sglang":
        bootstrap = {"disaggregation-bootstrap-port": _BOOTSTRAP + number} if role == "prefill" else {}
        return {"disaggregation-mode": role, "disaggregation-transfer-backend": "nixl", **bootstrap}
    return {}


def _node_options(deployment: Deployment, plan: ServingPlan) -> dict[str, Any]:
    """The options of a replica on several nodes, whose variables each node sets."""
    nodes = deployment.nodes(plan)
    if nodes == 1:
        return {}
    if plan.engine == "sglang":
        return {"nnodes": nodes, "node-rank": "$NODE_RANK", "dist-init-addr": "$HEAD_NODE_IP:20000"}
    if plan.data_attention > 1:  # vLLM's data-parallel ranks have options of their own
        local = plan.data_attention // nodes
        return {
            "data-parallel-size-local": local, "data-parallel-address": "$HEAD_NODE_IP", "data-parallel-rpc-port": 13345,
            "data-parallel-start-rank": f"$NODE_RANK * {local}",
        }  # fmt: skip
    return {"nnodes": nodes, "node-rank": "$NODE_RANK", "master-addr": "$HEAD_NODE_IP"}


def _wrapped(words: list[str]) -> str:
    """Words quoted for the shell, an option on each line; variables of the node stay open."""
    quoted = [_quoted(word) for word in words]
    lines, line = [], ""
    for word in quoted:
        if word.startswith("--") and len(line) + len(word) > 80:
            lines.append(line)
            line = "   "
        line = f"{line} {word}" if line else word
    return " \\\n".join([*lines, line])


def _quoted(word: str) -> str:
    """A word for the shell; what each node sets stays open."""
    if re.fullmatch(r"\$NODE_RANK \* [0-9]+", word):
        return f"$(({word.replace('$', '')}))"
    return f'"{word}"' if re.fullmatch(r"\$NODE_RANK|\$HEAD_NODE_IP(:[0-9]+)?", word) else shell_word(word)


def config_name(role: str) -> str:
    """The file of TensorRT-LLM's options for a pool."""
    return "trtllm.yaml" if role == "both" else f"trtllm-{role}.yaml"


def trtllm_configs(deployment: Deployment) -> dict[str, dict[str, Any]]:
    """TensorRT-LLM's YAML: what its command has no option for; with split pools also the file of their front."""
    plan = deployment.plan
    cache: dict[str, Any] = {
        "enable_block_reuse": True,
        "tokens_per_block": plan.block_tokens or deployment.engine.block_tokens,
    }
    cache |= {"dtype": "fp8"} if plan.cache == "fp8" else {}
    config: dict[str, Any] = {"enable_chunked_prefill": plan.chunked_prefill, "kv_cache_config": cache}
    config |= {"enable_attention_dp": True} if plan.data_attention > 1 else {}
    if plan.draft_tokens:
        kind = {"": "MTP", "ngram": "NGram"}.get(plan.draft, "DraftTarget")
        draft = {"speculative_model_dir": plan.draft} if kind == "DraftTarget" else {}
        config["speculative_config"] = {"decoding_type": kind, "max_draft_len": plan.draft_tokens, **draft}
    if deployment.prefill is None:
        return {config_name("both"): config}
    config["cache_transceiver_config"] = {"backend": "NIXL"}
    urls = [f"localhost:{PORT + number}" for number in range(deployment.prefill.replicas + plan.replicas)]
    front = {
        "hostname": "0.0.0.0", "port": PORT - 1,
        "context_servers": {"num_instances": deployment.prefill.replicas, "urls": urls[: deployment.prefill.replicas]},
        "generation_servers": {"num_instances": plan.replicas, "urls": urls[deployment.prefill.replicas :]},
    }  # fmt: skip
    return {
        config_name("prefill"): {**config, "disable_overlap_scheduler": True}, config_name("decode"): config,
        "disaggregated.yaml": front,
    }  # fmt: skip


def _notes(deployment: Deployment, nodes: int) -> Iterator[str]:
    plan, ports = deployment.plan, sum(pool.replicas for _, pool in deployment.pools)
    yield from checkpoint_notes(plan)
    if nodes > 1:
        yield f"run serve.sh on each of {nodes} nodes" + (
            ", with NODE_RANK and HEAD_NODE_IP set" if deployment.nodes(plan) > 1 else ""
        )
    if deployment.nodes(plan) > 1 and plan.engine == "vllm":
        yield "on nodes other than the first, add --headless"
    if deployment.prefill is not None:
        front = {
            "vllm": "a proxy that sends a prompt to a server of the first pool, then to one of the second",
            "sglang": "python3 -m sglang_router.launch_router --pd-disaggregation with the servers' addresses",
            "tensorrt-llm": "trtllm-serve disaggregated -c disaggregated.yaml",
        }[plan.engine]
        yield f"in front of the {ports} servers: {front}"
    elif ports > 1:
        yield f"the replicas listen on ports from {PORT}: put a load balancer (least connections) in front"
