"""Every tool that a plan can be written for and read from, as one table; and which of them wrote a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from podsim.errors import PlanError, PodsimError, unknown_name
from podsim.launching import command_line as command
from podsim.launching import deepspeed, kubernetes, megatron, slurm, titan
from podsim.launching.job import Context, Job, Reading, refuse
from podsim.launching.megatron_model import model_notes
from podsim.results.launched import Recipe

LARGEST = 1 << 20
"""characters of the longest file read"""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What starts a plan."""

    name: str
    file: str
    eras: tuple[str, ...]
    """The software entries that it starts, its own first."""
    write: Callable[[Job], str]
    notes: Callable[[Job], Sequence[str]]
    read: Callable[[str, Context], Reading | None]


def _megatron(job: Job) -> str:
    refuse("Megatron-LM", megatron.cannot(job))
    return command.wrapped(megatron.options(job), indent="") + "\n"


def _titan(job: Job) -> str:
    refuse("torchtitan", titan.cannot(job))
    return titan.toml(job)


def _deepspeed(job: Job) -> str:
    refuse("DeepSpeed", deepspeed.cannot(job))
    return deepspeed.text(job)


def _started(job: Job) -> list[str]:
    return [f"start it with torchrun --nnodes {job.nodes} --nproc-per-node {job.per_node}"]


def _read_command(text: str, context: Context) -> Reading | None:
    started = command.read_script(text)
    if started is None:
        raise PodsimError(
            "it starts no training that is known; expected torchrun or the options of Megatron-LM or torchtitan, "
            f"an sbatch script, a torchtitan TOML, a DeepSpeed JSON or a PyTorchJob (starts {json.dumps(text[:40])})"
        )
    return command.read_command(started, context)


_BOTH = (*megatron.ERAS[:1], *titan.ERAS, *megatron.ERAS[1:])
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(name="megatron", file="arguments.txt", eras=megatron.ERAS, write=_megatron,
             notes=lambda job: [*_started(job), *model_notes(job.model)], read=_read_command),
        Tool(name="torchtitan", file="train.toml", eras=titan.ERAS, write=_titan,
             notes=lambda job: [*_started(job), *titan.notes(job)], read=titan.read_toml),
        Tool(name="deepspeed", file="ds_config.json", eras=deepspeed.ERAS, write=_deepspeed, notes=deepspeed.notes,
             read=deepspeed.read_json),
        Tool(name="torchrun", file="run.sh", eras=_BOTH, write=command.line,
             notes=lambda job: ["run it on every node, with HEAD_NODE set to the first one's name", *command.notes(job)],
             read=_read_command),
        Tool(name="slurm", file="job.sh", eras=_BOTH, write=slurm.script,
             notes=lambda job: ["submit it with sbatch", *slurm.notes(job), *command.notes(job)],
             read=slurm.read_slurm),
        Tool(name="kubernetes", file="job.yaml", eras=_BOTH, write=kubernetes.text,
             notes=lambda job: ["start it with kubectl create -f", *kubernetes.notes(job), *command.notes(job)],
             read=kubernetes.read_yaml),
    )
}  # fmt: skip
"""by name"""


def emit(job: Job, tool: str) -> Recipe:
    """What starts a job with a tool; PlanError with everything of the plan that the tool cannot run."""
    if tool not in TOOLS:
        raise PodsimError(unknown_name("tool", tool, TOOLS))
    made = TOOLS[tool]
    return Recipe(
        tool=tool,
        file=made.file,
        text=made.write(job),
        plan=job.plan.describe(),
        notes=tuple(made.notes(job)),
    )


def guess(text: str) -> str:
    """The tool that a text is for, by its looks."""
    start = text.lstrip()
    if start.startswith(("{", "[{")) or start[:1] in ('"',):
        return "deepspeed"
    lines = [line.strip() for line in text.splitlines()]
    if any(line.startswith("#SBATCH") for line in lines):
        return "slurm"
    if any(line.replace(" ", "").replace('"', "") == "kind:PyTorchJob" for line in lines):
        return "kubernetes"
    if any(line in ("[parallelism]", "[training]", "[model]", "[job]") for line in lines):
        return "torchtitan"
    return "torchrun" if "torchrun" in text or "torch.distributed" in text or ".py" in text else "megatron"


def read(
    text: str, *, tool: str = "", gpus: int | None = None, layers: int = 0, sequence: int = 0
) -> Reading:
    """The plan that a file or command starts.

    `tool` is one of TOOLS (default: by its looks); `gpus`, `layers` and `sequence` are what the text leaves unsaid.
    Raises PodsimError for a text that is of no known kind, PlanError with everything that contradicts itself in it.
    """
    if tool and tool not in TOOLS:
        raise PodsimError(unknown_name("tool", tool, TOOLS))
    if len(text) > LARGEST:
        raise PodsimError(f"{len(text):,} characters are too many; at most {LARGEST:,}")
    if not text.strip():
        raise PodsimError("it is empty; expected a command, an sbatch script, TOML, JSON or YAML")
    kind = tool or guess(text)
    context = Context(tool=kind, gpus=gpus, layers=layers, sequence=sequence)
    reading = TOOLS[kind].read(text, context)
    if context.problems or reading is None:
        raise PlanError(list(dict.fromkeys(context.problems)))
    return reading
