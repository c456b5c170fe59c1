"""A Kubeflow PyTorchJob for Kubernetes, and read back.

Source: the PyTorchJob API kubeflow.org/v1 (Kubeflow training operator 1.8 and newer).
"""

from __future__ import annotations

from typing import Any

from podsim.errors import PodsimError
from podsim.launching import titan
from podsim.launching.command_line import (
    SHELL_WORDS,
    read_start,
    script_head,
    shell_command,
    start_of_script,
    start_of_words,
    torchrun_words,
)
from podsim.launching.job import Context, Job, Reading
from podsim.launching.nccl_settings import settings
from podsim.safe_yaml import YamlError, read_documents, yaml_text
from podsim.workload.specification import shown

_RESOURCES = {"infiniband": "rdma/hca", "roce": "rdma/hca", "efa": "vpc.amazonaws.com/efa"}
"""what the device plugins of each fabric call an adapter"""


def manifest(job: Job) -> dict[str, Any]:
    """The PyTorchJob: a master and as many workers as there are other nodes, a rank for each GPU."""
    replicas = {"Master": _replica(job, 1)}
    if job.nodes > 1:
        replicas["Worker"] = _replica(job, job.nodes - 1)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": job.name},
        "spec": {
            "nprocPerNode": str(job.per_node),
            "runPolicy": {"cleanPodPolicy": "None", "activeDeadlineSeconds": int(job.limit)},
            "pytorchReplicaSpecs": replicas,
        },
    }


def _replica(job: Job, count: int) -> dict[str, Any]:
    adapters = (
        {_RESOURCES[job.cluster.fabric]: str(job.cluster.nics)} if job.nodes > 1 and job.cluster.nics else {}
    )
    kind = f"mig-{job.instance.replace('+', '.')}" if job.instance else "gpu"
    limits = {f"nvidia.com/{kind}": str(job.per_node), **adapters}
    volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    for number, mount in enumerate(job.mounts):
        source, _, target = mount.partition(":")
        volumes.append({"name": f"data-{number}", "hostPath": {"path": source}})
        mounts.append({"name": f"data-{number}", "mountPath": target.partition(":")[0] or source})
    endpoint = '"$MASTER_ADDR:$MASTER_PORT"'
    meet = ["--rdzv-backend", "c10d", "--rdzv-id", job.name, "--rdzv-endpoint", endpoint]
    command = shell_command(torchrun_words(job, rendezvous=meet), raw=[endpoint, *SHELL_WORDS])
    lines = ["set -eu", *script_head(job), 'cd "$WORKDIR"', command]
    code = "TORCHTITAN" if titan.LIMITS.starts(job.plan.software) else "MEGATRON"
    variables = {code: "", "DATA": "", **settings(job)}
    container = {
        "name": "pytorch", "image": (job.image or "pytorch/pytorch").replace("#", "/"), "command": ["bash", "-c"],
        "args": ["\n".join(lines) + "\n"], "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"limits": limits, "requests": dict(limits)}, "volumeMounts": mounts,
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
    }  # fmt: skip
    return {
        "replicas": count, "restartPolicy": "OnFailure",
        "template": {"spec": {"containers": [container], "volumes": volumes}},
    }  # fmt: skip


def notes(job: Job) -> list[str]:
    """What to fill in, and what the cluster must have for a job on a MIG instance."""
    given = ["give the variables their values in env of each replica, and mount their folders with --mount"]
    return [*given, *(["the device plugin runs with MIG_STRATEGY=mixed"] if job.instance else [])]


def text(job: Job) -> str:
    """The manifest as YAML."""
    return yaml_text(manifest(job))


def read_yaml(source: str, context: Context) -> Reading | None:
    """The plan of a PyTorchJob; None where nothing can be built. PodsimError if it is no YAML."""
    problems = context.problems
    spec = _spec(source)
    replicas = spec.get("pytorchReplicaSpecs")
    if not isinstance(replicas, dict) or not replicas:
        problems.append("spec.pytorchReplicaSpecs is missing; it has a Master and perhaps a Worker")
        return None
    nodes = sum(_count(name, replica, problems) for name, replica in replicas.items())
    count = spec.get("nprocPerNode")
    limits = {_limit(replica) for replica in replicas.values()} - {None}
    if len(limits) > 1:
        problems.append(
            f"replicas ask for different numbers of GPUs: {', '.join(map(str, sorted(limits, key=str)))}"
        )
    number = (
        int(count)
        if isinstance(count, (int, str)) and str(count).isdecimal() and len(str(count)) < 6
        else None
    )
    per_node = number or next(iter(limits), None)
    if number and limits and limits != {number}:
        problems.append(f"nprocPerNode = {number}, but a replica asks for {', '.join(map(str, limits))} GPUs")
    around = nodes * per_node if per_node else None
    context = context.on(around, "the job has")
    words = next(
        (container_words for replica in replicas.values() if (container_words := _words(replica))), []
    )
    deep = [word for word in words if " " in word]
    command = start_of_words(words) or (start_of_script(deep[-1]) if deep else None)
    if command is None:
        problems.append("no container starts a training that is known: torchrun, Megatron-LM or torchtitan")
        return None
    return read_start(command, context)


def _spec(source: str) -> dict[str, Any]:
    try:
        documents = read_documents(source)
    except YamlError as error:
        raise PodsimError(f"not YAML: {error}") from None
    jobs = [
        document
        for document in documents
        if isinstance(document, dict) and document.get("kind") == "PyTorchJob"
    ]
    if len(jobs) != 1 or not isinstance(jobs[0].get("spec"), dict):
        raise PodsimError(f"expected one PyTorchJob with a spec, found {len(jobs)}")
    spec: dict[str, Any] = jobs[0]["spec"]
    return spec


def _count(name: object, replica: object, problems: list[str]) -> int:
    value = replica.get("replicas", 1) if isinstance(replica, dict) else None
    if type(value) is int and 0 <= value < 1 << 24:
        return value
    problems.append(f"{str(name)[:40]}.replicas = {shown(value)} must be a whole number")
    return 0


def _container(replica: object) -> dict[str, Any]:
    try:
        container = replica["template"]["spec"]["containers"][0]  # type: ignore[index]
    except (KeyError, TypeError, IndexError):
        return {}
    return container if isinstance(container, dict) else {}


def _limit(replica: object) -> int | None:
    resources = _container(replica).get("resources")
    for kind in ("limits", "requests"):
        table = resources.get(kind) if isinstance(resources, dict) else None
        for name, value in table.items() if isinstance(table, dict) else ():
            asked = str(name) == "nvidia.com/gpu" or str(name).startswith("nvidia.com/mig-")
            if asked and str(value).isdecimal() and len(str(value)) < 6:
                return int(str(value))
    return None


def _words(replica: object) -> list[str]:
    container = _container(replica)
    lists = [container.get(key) for key in ("command", "args")]
    return [str(word) for words in lists if isinstance(words, list) for word in words]
