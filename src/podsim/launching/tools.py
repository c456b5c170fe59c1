"""Every tool that a plan can be written for and read from, as one table; and which of them wrote a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

from podsim.answers.launched import Recipe
from podsim.errors import PlanError, PodsimError, check_name, unknown_name
from podsim.launching import (
    accelerate,
    axolotl,
    bridge,
    command_line,
    deepspeed,
    kubernetes,
    maxtext,
    megatron,
    slurm,
    titan,
)
from podsim.launching.fine_tuning import tuning_notes
from podsim.launching.job import Context, Job, Reading, effective, plainest
from podsim.launching.key_table import KeyedTool, read_keyed, table_of
from podsim.launching.megatron_model import model_notes
from podsim.launching.plan_comment import add_comment, comment_of
from podsim.launching.tool_limits import Limits
from podsim.safe_yaml import yaml_text
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan

LARGEST = 1 << 20
"""characters of the longest file read"""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """What starts a plan."""

    name: str
    file: str
    limits: tuple[Limits, ...]
    """The limits of what it starts: of its own framework, and of others by the plan's software."""
    write: Callable[[Job], str]
    notes: Callable[[Job], Sequence[str]]
    read: Callable[[str, Context], Reading | None]
    trains: tuple[str, ...] = ("full",)
    """The kinds of training that it runs: full, lora, qlora, frozen, dpo."""
    unsaid: tuple[str, ...] = ("software",)
    """The fields of a plan, or gpus, that its keys cannot state: a comment of the file holds them."""

    def starts(self, software: str) -> bool:
        """Whether it starts a software entry."""
        return any(limits.starts(software) for limits in self.limits)

    def limits_of(self, job: Job) -> Limits:
        """The limits of the framework that the plan's software names."""
        others = (limits for limits in self.limits[1:] if limits.starts(job.plan.software))
        return next(others, self.limits[0])


def _keyed(tool: KeyedTool) -> dict[str, Any]:
    """The limits, the writer and the reader of a tool that a table of keys describes."""
    return {
        "limits": (tool.limits,),
        "write": lambda job: yaml_text(table_of(job, tool)),
        "read": lambda text, context: read_keyed(text, context, tool),
    }


def _started(job: Job) -> list[str]:
    return [f"start it with torchrun --nnodes {job.nodes} --nproc-per-node {job.per_node}"]


def _read_command(text: str, context: Context) -> Reading | None:
    started = command_line.start_of_script(text)
    if started is None:
        raise PodsimError(
            "it starts no training that is known; expected torchrun or the options of Megatron-LM or torchtitan, "
            f"an sbatch script, a torchtitan TOML, a DeepSpeed JSON or a PyTorchJob (starts {json.dumps(text[:40])})"
        )
    return command_line.read_start(started, context)


_SCRIPTED = ("full", "lora", "qlora", "frozen", "dpo")
"""what a training script may do whose framework leaves it the model"""
_BOTH = (megatron.LIMITS, titan.LIMITS)
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(name="megatron", file="arguments.txt", limits=(megatron.LIMITS,),
             write=lambda job: command_line.shell_command(megatron.options(job), indent="") + "\n",
             notes=lambda job: [*_started(job), *megatron.position_notes(job), *model_notes(job.model)],
             read=_read_command, unsaid=("software", "gpus")),
        Tool(name="torchtitan", file="train.toml", limits=(titan.LIMITS,), write=titan.toml,
             notes=lambda job: [*_started(job), *titan.notes(job)], read=titan.read_toml),
        Tool(name="nemo", file="recipe.py", limits=(bridge.LIMITS,), write=bridge.recipe, notes=bridge.notes,
             read=bridge.read_recipe, trains=("full", "lora"), unsaid=("software", "gpus")),
        Tool(name="deepspeed", file="ds_config.json", limits=(deepspeed.LIMITS,), write=deepspeed.text,
             notes=deepspeed.notes, read=deepspeed.read_json, trains=_SCRIPTED, unsaid=("software", "sequence", "flash")),
        Tool(name="torchrun", file="run.sh", limits=_BOTH, write=command_line.torchrun_script,
             notes=lambda job: ["run it on every node, with HEAD_NODE set to the first one's name",
                                *command_line.framework_notes(job)],
             read=_read_command),
        Tool(name="slurm", file="job.sh", limits=_BOTH, write=slurm.script,
             notes=lambda job: ["submit it with sbatch", *slurm.notes(job), *command_line.framework_notes(job)],
             read=slurm.read_slurm),
        Tool(name="kubernetes", file="job.yaml", limits=_BOTH, write=kubernetes.text,
             notes=lambda job: ["start it with kubectl create -f", *kubernetes.notes(job),
                                *command_line.framework_notes(job)],
             read=kubernetes.read_yaml),
        Tool(name="accelerate", file="accelerate.yaml", **_keyed(accelerate.TOOL), notes=accelerate.notes,
             trains=_SCRIPTED, unsaid=("software", "sequence", "micro_batch", "global_batch", "flash")),
        Tool(name="axolotl", file="axolotl.yaml", **_keyed(axolotl.TOOL), notes=axolotl.notes,
             trains=("full", "lora", "qlora", "dpo"), unsaid=("software", "gpus")),
        Tool(name="maxtext", file="maxtext.yml", **_keyed(maxtext.TOOL), notes=maxtext.notes),
    )
}  # fmt: skip
"""by name"""


DEFAULT = "megatron"
"""the tool if none is named"""
SCRIPTS = ("slurm", "torchrun", "kubernetes")
"""tools whose files start a job as they are"""


_MARKS = {
    "accelerate": {
        "compute_environment",
        "distributed_type",
        "num_processes",
        "fsdp_config",
        "mixed_precision",
    },
    "axolotl": {"base_model", "micro_batch_size", "sequence_len", "datasets", "gradient_accumulation_steps"},
    "maxtext": {
        "base_config",
        "per_device_batch_size",
        "ici_fsdp_parallelism",
        "max_target_length",
        "remat_policy",
    },
}
"""keys of which a YAML file of a tool has two"""


def emit(job: Job, tool: str) -> Recipe:
    """What starts a job with a tool; PlanError with everything of the plan that the tool cannot run.

    Reading the text gives the plan again, field by field: what the tool's keys do not say is a comment of the text.
    """
    check_name("tool", tool, TOOLS)
    made = TOOLS[tool]
    if problem := _other_training(job, made):
        raise PlanError([f"{tool}: {problem}"])
    made.limits_of(job).refuse(job)
    text = made.write(job)
    forced = [f"written by force: {problem}" for problem in job.forced]
    if job.model.later and "mtp" not in text:
        forced.append(
            f"multi-token prediction of {job.model.name} is not written: set mtp={len(job.model.later)} yourself"
        )
    unsaid = _unsaid(job, made, text)
    if "global_batch" in unsaid:
        unsaid["batch"] = unsaid.pop("global_batch")
    return Recipe(
        tool=tool, file=made.file, text=add_comment(text, {**job.names, **unsaid}),
        plan=job.plan.describe(), notes=(*forced, *tuning_notes(job, tool), *made.notes(job)),
    )  # fmt: skip


_CHANGES: dict[str, tuple[object, ...]] = {
    "zero": (2, 3, 1, 0), "sequence_parallel": (True,), "schedule": ("1f1b",), "overlap_grad": (True,),
    "overlap_param": (True,), "precision": ("bf16",),
}  # fmt: skip
"""fields of a plan that may differ between tools, with the values to try"""


def closest_options(job: Job, tool: str) -> dict[str, object]:
    """The fewest options to change so that a tool runs the plan and it fits the memory; empty if three are too few."""
    for count in range(1, 4):
        for names in combinations(_CHANGES, count):
            for values in product(*(_CHANGES[name] for name in names)):
                changes = dict(zip(names, values, strict=True))
                plan = job.plan.having(changes)
                try:
                    TOOLS[tool].limits_of(job).refuse(replace(job, plan=plan))
                except PlanError:
                    continue
                legal = not plan.problems(job.model, job.cluster)
                if legal and predict_plan(job.model, job.cluster, plan).fits:
                    return changes
    return {}


def _other_training(job: Job, made: Tool) -> str:
    """The problem of a model that is trained in another way than a tool can; "" if there is none."""
    kinds = {part.partition(":")[0] for part in job.model.training.split("+")}
    if kinds <= {*made.trains}:
        return ""
    able = ", ".join(name for name, tool in TOOLS.items() if kinds <= {*tool.trains})
    return f"train={job.model.training}: it trains {', '.join(made.trains)}; this can be written for {able or 'no tool'}"


def launch_files(job: Job, tools: Sequence[str] = ()) -> dict[str, Recipe | PlanError]:
    """What starts a job with each tool (all of them by default), or why the tool cannot."""
    files: dict[str, Recipe | PlanError] = {}
    for tool in tools or TOOLS:
        try:
            files[tool] = emit(job, tool)
        except PlanError as error:
            files[tool] = error
    return files


def _unsaid(job: Job, made: Tool, text: str) -> dict[str, object]:
    """The fields of the plan that a text leaves unsaid, and its GPUs if it does."""
    plan, model = job.plan, job.model
    gpus = {"gpus": int(plan.gpus)} if "gpus" in made.unsaid else {}
    length = 0 if "sequence" in made.unsaid else plan.length(model)
    context = Context(tool=made.name, gpus=int(plan.gpus), layers=model.layer_count, sequence=length)
    reading = made.read(text, context)
    wanted = plan.having({"sequence": plan.length(model)})
    if reading is None or context.problems:
        assert job.forced, (made.name, context.problems)
        return gpus | wanted.describe()
    hidden = _different(effective(reading.plan, model), effective(plan, model))
    assert job.forced or hidden.keys() <= {*made.unsaid}, (made.name, hidden)
    return gpus | _different(reading.plan, wanted)


def _different(plan: Plan, wanted: Plan) -> dict[str, object]:
    """The fields of a wanted plan that another has not."""
    has = plan.describe()
    return {name: value for name, value in wanted.describe().items() if has[name] != value}


def guess(text: str) -> str:
    """The tool that a text is for, by its looks."""
    start = text.lstrip()
    lines = [line.strip() for line in text.splitlines()]
    keys = {line.partition(":")[0] for line in text.splitlines() if not line[:1].isspace()}
    looks = {
        "deepspeed": start.startswith(("{", "[{")) or (start[:1] == '"' and start[:3] != '"""'),
        "slurm": any(line.startswith("#SBATCH") for line in lines),
        "kubernetes": any(line.replace(" ", "").replace('"', "") == "kind:PyTorchJob" for line in lines),
        "nemo": _imports(text, "megatron.bridge") or bridge.text_is_yaml(text),
        **{tool: len(keys & marks) > 1 for tool, marks in _MARKS.items()},
        "torchtitan": any(line in ("[parallelism]", "[training]", "[model]", "[job]") for line in lines),
        "torchrun": "torchrun" in text or "torch.distributed" in text or ".py" in text,
    }
    return next((tool for tool, is_likely in looks.items() if is_likely), DEFAULT)


def _imports(text: str, package: str) -> bool:
    """Whether a text is Python that imports a package."""
    lines = (line.split() for line in text.splitlines() if line.lstrip().startswith(("from ", "import ")))
    return any(words[1].startswith(package) for words in lines if len(words) > 1)


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
    if _imports(text, "torchtitan"):
        raise PodsimError(
            "torchtitan's configurations in Python are not read; give its TOML file, or its command of torchrun"
        )
    kind = tool or guess(text)
    said = comment_of(text)
    made = TOOLS[kind]
    context = Context(
        tool=kind, gpus=gpus or (said.get("gpus") if "gpus" in made.unsaid else None), layers=layers,
        sequence=sequence or said.get("sequence", 0),
    )  # fmt: skip
    reading = made.read(text, context)
    if context.problems or reading is None:
        raise PlanError(list(dict.fromkeys(context.problems)))
    return _completed(reading, said, made, layers)


def _completed(reading: Reading, said: dict[str, Any], made: Tool, layers: int) -> Reading:
    """What was read, with what a comment says besides: of a field that has a key only if it makes no difference."""
    if "batch" in said:
        said["global_batch"] = said.pop("batch")
    names: dict[str, Any] = {
        name: said.pop(name) for name in ("model", "on", "train", "overrides") if name in said
    }
    layers = layers or int(str(reading.model.get("layers", 0)))
    given = {name: value for name, value in said.items() if name != "gpus"}
    plan = reading.plan.having({name: value for name, value in given.items() if name in made.unsaid})
    same = plan.having(given)
    if plainest(same, layers) == plainest(plan, layers):
        plan = same
    return replace(reading, plan=plan, names=names | dict(reading.names))
