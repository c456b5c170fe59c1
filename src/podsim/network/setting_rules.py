"""Which settings of collectives go together: a rule is a filter and a sentence that says what would work.

Sources: NCCL's documentation of NCCL_ALGO and NCCL_PROTO; src/graph/tuning.cc and src/init.cc of 2.18 and 2.27.
"""

from __future__ import annotations

from collections.abc import Callable

from podsim.errors import raise_all
from podsim.hardware.cluster import Cluster
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.nccl_tuner import generation
from podsim.records import dataclass

_REDUCING = ("hopper", "blackwell")
"""Architectures whose NVSwitches reduce."""
_NO_DIRECT = ("sockets",)
"""Networks whose transport has no path to the memory of GPUs."""
_TREES = ("tree", "nvlstree", "collnet")
"""Algorithms that NCCL has for all-reduces alone."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A collective with all its settings, on a cluster."""

    collective: str
    nodes: int
    cluster: Cluster
    settings: CollectiveSettings

    @property
    def algorithms(self) -> list[str]:
        """The algorithms that are forced; none for NCCL's choice."""
        return [name for name in (self.settings.algorithm or "auto").split(",") if name != "auto"]

    @property
    def protocols(self) -> list[str]:
        """The protocols that are forced; none for NCCL's choice."""
        return [name for name in (self.settings.protocol or "auto").split(",") if name != "auto"]

    @property
    def minor(self) -> int:
        """The minor version of NCCL."""
        return int((self.settings.release or "2.18").split(".")[1].rstrip("x") or 0)

    @property
    def has_nvls(self) -> bool:
        """Whether the NVSwitches of a node reduce."""
        return (
            self.cluster.gpu.architecture in _REDUCING
            and self.cluster.system.topology == "nvswitch"
            and generation(self.settings.release or "2.18") not in ("2.7", "2.8")
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Settings that do not go together."""

    breaks: Callable[[Run], bool]
    sentence: str
    """The value, the rule and what would work; fields of the run's settings in braces."""


RULES = (
    Rule(
        breaks=lambda run: run.protocols == ["ll128"] and run.nodes > 1
        and (run.settings.network in _NO_DIRECT or run.settings.gpudirect is False),
        sentence="--proto ll128 over {network} without GPUDirect: LL128 needs adapters that write 128 B at once into a "
        "GPU; --proto simple or ll works, and so does ll128 with --gdr on infiniband, roce or efa",
    ),
    Rule(
        breaks=lambda run: bool(run.settings.gpudirect) and run.settings.network in _NO_DIRECT,
        sentence="--gdr on {network}: sockets copy through the host's memory; leave it out, or name a network with "
        "RDMA, such as --network roce",
    ),
    Rule(
        breaks=lambda run: bool(run.settings.sharp) and run.settings.network != "infiniband",
        sentence="--sharp on {network}: only InfiniBand's Quantum switches reduce (SHARP); --network infiniband, or "
        "--algo tree, which needs no switch",
    ),
    Rule(
        breaks=lambda run: bool(run.settings.sharp) and run.nodes < 2,
        sentence="--sharp on one node: SHARP reduces in switches between nodes; take 2 nodes or more, or --algo nvls on "
        "Hopper and Blackwell",
    ),
    Rule(
        breaks=lambda run: bool(run.settings.sharp) and run.cluster.system.switch is not None
        and not run.cluster.system.switch.sharp,
        sentence="--sharp: the switches of this cluster do not reduce; Quantum switches (QM8700, QM9700) do",
    ),
    Rule(
        breaks=lambda run: run.algorithms == ["collnet"] and not run.settings.sharp,
        sentence="--algo collnet without SHARP: give --sharp, or --algo ring or tree",
    ),
    Rule(
        breaks=lambda run: "collnet" in run.algorithms and bool({"ll", "ll128"} & set(run.protocols)),
        sentence="--proto {protocol} with --algo collnet: reduction in switches runs Simple; leave --proto out",
    ),
    Rule(
        breaks=lambda run: bool(run.algorithms) and set(run.algorithms) <= set(_TREES)
        and run.collective != "all_reduce",
        sentence="--algo {algorithm}: NCCL has it for all-reduces alone; --algo ring works for this collective",
    ),
    Rule(
        breaks=lambda run: bool({"nvls", "nvlstree"} & set(run.algorithms)) and len(run.algorithms) == 1
        and not run.has_nvls,
        sentence="--algo {algorithm}: it needs NVSwitches of Hopper or Blackwell and NCCL 2.18 or later; --algo ring or "
        "tree works here",
    ),
    Rule(
        breaks=lambda run: run.algorithms == ["nvlstree"] and run.nodes < 2,
        sentence="--algo nvlstree on one node: it joins nodes; --algo nvls runs inside one",
    ),
    Rule(
        breaks=lambda run: "pat" in run.algorithms
        and (run.minor < 23 or run.collective not in ("all_gather", "reduce_scatter") or run.cluster.gpus_per_node > 1),
        sentence="--algo pat: NCCL has it from 2.23 on, for all-gathers and reduce-scatters of one GPU a node; "
        "--algo ring works here",
    ),
)  # fmt: skip


def check_settings(run: Run) -> None:
    """Raise PodsimError with every rule that the settings of a run break."""
    words = {"network": "", "protocol": "", "algorithm": ""}
    words |= {name: str(getattr(run.settings, name)) for name in words}
    problems = [rule.sentence.format(**words) for rule in RULES if rule.breaks(run)]
    raise_all(problems)
