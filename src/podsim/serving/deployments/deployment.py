"""What is deployed: a model, its pools of replicas, and the machines; and the files that start it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.errors import raise_all
from podsim.hardware.cluster import Cluster
from podsim.serving.language_engines import LanguageEngine, load_language_engine
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.model import Model

VERSIONS = {"vllm": "0.33.0", "sglang": "0.5.23", "tensorrt-llm": "1.2.1"}
"""engine -> the release that its flags are written for"""
IMAGES = {
    "vllm": "vllm/vllm-openai:v0.33.0", "sglang": "lmsysorg/sglang:v0.5.23",
    "tensorrt-llm": "nvcr.io/nvidia/tensorrt-llm/release:1.2.1",
}  # fmt: skip
"""engine -> its container"""
PORT = 8000
"""port of the first server"""
_OWNER = re.compile(r"config\.json of ([\w.-]+/[\w.-]+)")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A model and its pools of replicas on a cluster."""

    model: Model
    cluster: Cluster
    plan: ServingPlan
    """The pool that decodes, or does both."""
    prefill: ServingPlan | None = None
    """The pool that reads prompts, if there are two."""
    longest: int = 0
    """count. The most tokens of a prompt and its answer; 0: the engine's default."""
    names: Mapping[str, object] = field(default_factory=dict)
    """The user's words for model and cluster."""

    @property
    def weights(self) -> str:
        """The name of the weights: the user's repository or folder, or that of the catalog's source."""
        said = str(self.names.get("model", self.model.name))
        owner = _OWNER.search(self.model.source)
        name = owner[1] if owner else self.model.name
        name = said.removesuffix("/config.json") if "/" in said else name
        return f"./{name}" if name.startswith("-") else name  # no option of the server

    @property
    def name(self) -> str:
        """The name of the service, as Kubernetes allows it."""
        return re.sub(r"[^a-z0-9]+", "-", self.model.name.lower()).strip("-")[:40] or "model"

    @property
    def engine(self) -> LanguageEngine:
        """The engine with its defaults on this GPU."""
        return load_language_engine(self.plan.engine, self.cluster.gpu)

    @property
    def pools(self) -> tuple[tuple[str, ServingPlan], ...]:
        """(role, plan) of each pool: prefill, decode, or both."""
        return (
            (("both", self.plan),)
            if self.prefill is None
            else (("prefill", self.prefill), ("decode", self.plan))
        )

    def nodes(self, plan: ServingPlan) -> int:
        """count. The nodes of one replica."""
        return -(-plan.gpus // self.cluster.gpus_per_node)


def refuse(problems: list[str]) -> None:
    """Raise PodsimError with all problems of a deployment that a tool cannot run."""
    raise_all(problems)


@dataclass(frozen=True, kw_only=True)
class DeploymentFiles:
    """Files by name, and what to know before they are started."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()
