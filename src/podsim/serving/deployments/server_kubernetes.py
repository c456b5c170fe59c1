"""Kubernetes manifests of a served model: a Deployment or a LeaderWorkerSet for each pool, and a Service in front.

A replica within a node is a pod of a Deployment (apps/v1). A replica over several nodes is a group of a LeaderWorkerSet
(leaderworkerset.x-k8s.io/v1, release 0.10), whose size counts the leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from podsim.safe_yaml import yaml_text
from podsim.serving.best_words import engine_title
from podsim.serving.deployments.deployment import IMAGES, PORT, VERSIONS, Deployment, DeploymentFiles, refuse
from podsim.serving.deployments.engine_flags import checkpoint_notes, server_words
from podsim.serving.deployments.server_scripts import (
    config_name,
    role_options,
    script_problems,
    trtllm_configs,
)
from podsim.serving.serving_plan import ServingPlan

_MOUNT = "/config"
_ADAPTERS = {"infiniband": "rdma/hca", "roce": "rdma/hca", "efa": "vpc.amazonaws.com/efa"}
"""what the device plugins of each fabric call an adapter"""


def server_manifests(deployment: Deployment) -> DeploymentFiles:
    """The manifests as one YAML file."""
    wide = any(deployment.nodes(plan) > 1 and plan.data_attention > 1 for _, plan in deployment.pools)
    refuse(
        [
            *script_problems(deployment),
            *(["vLLM's data-parallel attention over nodes is written as a script (vllm), or with --engine sglang"]
              if wide and deployment.plan.engine == "vllm" else []),
        ]
    )  # fmt: skip
    engine = deployment.plan.engine
    documents = list(_documents(deployment))
    head = f"# {engine_title(engine)} {VERSIONS[engine]}: kubectl apply -f serve.yaml\n"
    notes = [
        *checkpoint_notes(deployment.plan),
        "weights that need a token: a secret named hf-token with the key token",
    ]
    if deployment.prefill is not None:
        notes.append(
            "the Service reaches the pods that decode; put the engine's router for split pools in front"
        )
    return DeploymentFiles(
        files={"serve.yaml": head + "---\n".join(yaml_text(each) for each in documents)}, notes=tuple(notes)
    )


def _documents(deployment: Deployment) -> Iterator[dict[str, Any]]:
    for number, (role, plan) in enumerate(deployment.pools):
        yield _pool(deployment, role, plan, number)
    labels = {"app": deployment.name, "role": deployment.pools[-1][0]}
    yield {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": deployment.name},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": PORT}]},
    }  # fmt: skip
    if deployment.plan.engine == "tensorrt-llm":
        data = {
            name: yaml.safe_dump(config, sort_keys=False)
            for name, config in trtllm_configs(deployment).items()
        }
        metadata = {"name": f"{deployment.name}-config"}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _pool(deployment: Deployment, role: str, plan: ServingPlan, number: int) -> dict[str, Any]:
    """The manifest of one pool."""
    name = deployment.name if role == "both" else f"{deployment.name}-{role}"
    nodes = deployment.nodes(plan)
    labels = {"app": deployment.name, "role": role}
    if nodes == 1:
        return {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": plan.replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _pod(deployment, role, plan, number)},
            },
        }  # fmt: skip
    worker = _pod(deployment, role, plan, number, worker=True)
    leader = {"metadata": {"labels": labels}, "spec": _pod(deployment, role, plan, number)}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": name},
        "spec": {
            "replicas": plan.replicas,
            "leaderWorkerTemplate": {
                "size": nodes, "restartPolicy": "RecreateGroupOnPodRestart", "leaderTemplate": leader,
                "workerTemplate": {"spec": worker},
            },
        },
    }  # fmt: skip


def _pod(
    deployment: Deployment, role: str, plan: ServingPlan, number: int, *, worker: bool = False
) -> dict[str, Any]:
    nodes = deployment.nodes(plan)
    gpus = -(-plan.gpus // nodes)
    more = _options(deployment, role, plan, number, worker=worker)
    own = {str(value) for value in more.values()}  # of which Kubernetes shall fill in the variables
    words = server_words(deployment, plan, more)
    words = [word if word in own else word.replace("$", "$$") for word in words]
    slice_ = deployment.cluster.gpu.name.partition("/")[2].replace("+", ".")
    limits = {f"nvidia.com/mig-{slice_}" if slice_ else "nvidia.com/gpu": str(gpus)}
    if nodes > 1 and deployment.cluster.nics:
        limits[_ADAPTERS.get(deployment.cluster.fabric, "rdma/hca")] = str(deployment.cluster.nics)
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    volumes: list[dict[str, Any]] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    if plan.engine == "tensorrt-llm":
        mounts.append({"name": "config", "mountPath": _MOUNT})
        volumes.append({"name": "config", "configMap": {"name": f"{deployment.name}-config"}})
    token = {"name": "hf-token", "key": "token", "optional": True}
    container: dict[str, Any] = {
        "name": "server", "image": IMAGES[plan.engine], "command": words[:1], "args": words[1:],
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}}],
        "resources": {"limits": limits, "requests": dict(limits)}, "volumeMounts": mounts,
    }  # fmt: skip
    if not worker:
        container |= {
            "ports": [{"name": "http", "containerPort": PORT}],
            "readinessProbe": {
                "httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 10, "failureThreshold": 180,
            },
        }  # fmt: skip
    return {"containers": [container], "volumes": volumes}


def _options(
    deployment: Deployment, role: str, plan: ServingPlan, number: int, *, worker: bool
) -> dict[str, Any]:
    """The options of a server in a pod; of a group its place comes from the LeaderWorkerSet."""
    options = {**role_options(role, plan, number), "host": "0.0.0.0", "port": PORT}
    options |= {"config": f"{_MOUNT}/{config_name(role)}"} if plan.engine == "tensorrt-llm" else {}
    nodes = deployment.nodes(plan)
    if nodes == 1:
        return options
    head = "$(LWS_LEADER_ADDRESS)"
    meeting = {"dist-init-addr": f"{head}:20000"} if plan.engine == "sglang" else {"master-addr": head}
    options |= {"nnodes": nodes, "node-rank": "$(LWS_WORKER_INDEX)", **meeting}
    return options | ({"headless": True} if worker and plan.engine == "vllm" else {})
