"""Options of Megatron-LM that change a step and that no plan has: refused, or reported as not counted.

What is in neither table and is read by nobody changes no step (paths, logging, learning rates), as far as is known.
"""

from __future__ import annotations

from podsim.launching.flags import Flags
from podsim.launching.job import ADAM_ALONE, NO_OFFLOAD
from podsim.schedules.actions import chunk_sizes

_ONE_STACK = "a plan has one stack of layers"
REFUSED = {
    "cpu-offloading": NO_OFFLOAD,
    "cpu-offloading-num-layers": NO_OFFLOAD,
    "optimizer-cpu-offload": NO_OFFLOAD,
    "offload-optimizer": NO_OFFLOAD,
    "cpu-optimizer": NO_OFFLOAD,
    "standalone-embedding-stage": "a plan's first stage has layers, too",
    "pipeline-model-parallel-split-rank": _ONE_STACK,
    "encoder-tensor-model-parallel-size": _ONE_STACK,
    "encoder-pipeline-model-parallel-size": _ONE_STACK,
    "decoder-num-layers": _ONE_STACK,
    "is-hybrid-model": "a plan's layers are attention and MLP",
    "hybrid-override-pattern": "a plan's layers are attention and MLP",
    "hybrid-layer-pattern": "a plan's layers are attention and MLP",
}
"""options with which the command is no plan, and why"""
UNCOUNTED = {
    "distribute-saved-activations": "saved activations are taken to be whole on every rank of a tensor-parallel group",
    "grad-reduce-in-bf16": "gradients are reduced in the bytes that its software takes",
    "use-tp-pp-dp-mapping": "ranks are taken to be numbered tensor-parallel first, pipeline-parallel last",
    "recompute-modules": "selective recomputation is taken to be that of attention",
    "delay-wgrad-compute": "weight gradients are taken to be computed with the others",
    "overlap-moe-expert-parallel-comm": "experts' all-to-all is taken not to overlap",
    "fp8-param-gather": "weights are gathered as in a run without it",
}
"""options that a prediction leaves out, and what it takes to be so instead"""


def read_others(flags: Flags, *, pp: int, chunks: int, layers: int) -> list[str]:
    """What was left out of a plan; options with which a command is no plan are added to `flags.problems`."""
    uncounted = []
    for name, reason in REFUSED.items():
        if name in flags.given and flags.given[name] not in (["0"], ["none"]):
            flags.problems.append(f"{_spelt(flags, name)}: {reason}")
        flags.taken.update({name} & set(flags.given))
    for name, instead in UNCOUNTED.items():
        if name in flags.given and flags.given[name] not in (["0"], ["core_attn"]):
            uncounted.append(f"{_spelt(flags, name)} is not counted: {instead}")
            flags.taken.add(name)
    uncounted += _optimizer(flags) + _rings(flags)
    _uneven(flags, pp, chunks, layers)
    ulysses = flags.number("ds-sequence-parallel-size") or 1
    if ulysses > 1:
        flags.problems.append(
            f"--ds-sequence-parallel-size {ulysses}: it divides sequences by all-to-all, a plan by a ring"
        )
    return uncounted


def _spelt(flags: Flags, name: str) -> str:
    return " ".join([f"--{name}", *flags.given[name]])[:80]


def _optimizer(flags: Flags) -> list[str]:
    kind = flags.word("optimizer")
    if kind is None or kind.lower() in ("adam", "adamw"):
        return []
    return [f"--optimizer {kind[:40]} {ADAM_ALONE}"]


def _rings(flags: Flags) -> list[str]:
    kinds = sorted(set(flags.given.get("cp-comm-type", [])) - {"p2p"})
    flags.taken.update({"cp-comm-type"} & set(flags.given))
    if not kinds or flags.given.get("context-parallel-size", ["1"]) == ["1"]:
        return []
    return [f"--cp-comm-type {kinds[0][:40]} is not counted: context parallelism is taken to go round a ring"]


def _uneven(flags: Flags, pp: int, chunks: int, layers: int) -> None:
    """Refuse layers that are divided in another way than a plan divides them."""
    first = flags.number("decoder-first-pipeline-num-layers", "num-layers-in-first-pipeline-stage", least=0)
    last = flags.number("decoder-last-pipeline-num-layers", "num-layers-in-last-pipeline-stage", least=0)
    ends = [flags.has(f"account-for-{end}-in-pipeline-split") for end in ("embedding", "loss")]
    if not layers or pp < 2 or not (first is not None or last is not None or any(ends)):
        return
    plain = chunk_sizes(layers, pp * chunks)
    ours = [sum(plain[stage::pp]) for stage in range(pp)]
    if any(ends):
        share, left = divmod(layers + sum(ends), pp)
        theirs = [share - (ends[0] and stage == 0) - (ends[1] and stage == pp - 1) for stage in range(pp)]
    else:
        fixed = {0: first, pp - 1: last}
        known = {stage: count for stage, count in fixed.items() if count is not None}
        share, left = divmod(layers - sum(known.values()), max(pp - len(known), 1))
        theirs = [known.get(stage, share) for stage in range(pp)]
    if left:
        flags.problems.append(f"layers of the stages: {layers} do not divide over pp={pp} as the options say")
    elif theirs != ours:
        flags.problems.append(
            f"layers of the stages {_shown(theirs)}: a plan divides layers as evenly as it can: {_shown(ours)}"
        )


def _shown(sizes: list[int]) -> str:
    return " ".join(map(str, sizes[:16])) + (" …" if len(sizes) > 16 else "")
