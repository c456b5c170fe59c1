"""`podsim launch`: the files that start a plan, written, and read back."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.accuracy.stated_prediction import describe
from podsim.answers.launched import PlanRead, Recipe
from podsim.errors import NoFitError, PlanError, PodsimError, check_name, raise_all
from podsim.foreign_files import read_text, shown
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.launching.fine_tuning import default_tool
from podsim.launching.job import GIVE_GPUS, IMAGE, Job, Reading
from podsim.launching.tools import LARGEST, TOOLS, closest_options, emit, read
from podsim.options.output_options import Output
from podsim.options.plan_options import FiledPlanOptions, JobOptions, TrainedFields
from podsim.options.question import PLAN_FILE, like, option, options_of, question
from podsim.quoting import visible
from podsim.training.job_inputs import read_sequence, split_overrides
from podsim.training.plan import Plan, read_plan, software_of
from podsim.training.predict import predict_plan
from podsim.units import parse_quantity
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(FiledPlanOptions):
    """A plan to write a launch file of, or a launch file to read."""

    model: str = like(
        JobOptions, "model", "A model, as for predict; with --read only if the file names none.", default=""
    )
    on: str = like(JobOptions, "on", "Cluster, as for predict.", default="")
    tool: str = option(
        "",
        "megatron (default), nemo, torchtitan, deepspeed, accelerate, axolotl, maxtext, torchrun, slurm or kubernetes.",
        flag="--for",
    )
    read: str = option("", "Instead: read the plan of this file, or of standard input (-).")
    software: Any = like(
        TrainedFields, "software", "Framework and its version; default the tool's own.", default=None
    )
    image: str | None = option(None, "Container image, REGISTRY#IMAGE:TAG; empty for none.")
    mount: Sequence[str] = option((), "Container mount, /SOURCE:/TARGET. Repeatable.")
    partition: str = option("", "Partition of the scheduler.")
    time_limit: str = option("1 d", "Time limit of the scheduler, e.g. 4h.")
    force: bool = option(False, "Write a plan that breaks a rule or does not fit the memory.", flag="--force")


def _print_notes(answer: Recipe | PlanRead, output: Output, options: Mapping[str, Any]) -> None:
    """Print the notes of files that start a plan apart from them."""
    if isinstance(answer, Recipe) and not (output.json or output.csv):
        sys.stderr.writelines(f"podsim: note: {visible(note)}\n" for note in answer.notes)


@question(
    LaunchOptions,
    fill=PLAN_FILE,
    reads=lambda options: options.read or read_plan(options),
    after=_print_notes,
    status=lambda answer: int(not getattr(getattr(answer, "prediction", None), "fits", True)),
)
def launch(options: LaunchOptions) -> Recipe | PlanRead:
    """Write the files that start a plan with a tool; or, with `read`, read the plan of a file.

    torchrun, slurm and kubernetes start torchtitan if the software is one of torchtitan's, else Megatron-LM. What is
    read may need `gpus`, `model` or `sequence`, and is predicted if `on` names a cluster. Raises PlanError with
    everything that the tool cannot run, or that a file contradicts itself in, and PodsimError for anything unusable.
    """
    if options.read:
        wrong = [
            f"--{name.replace('_', '-')}"
            for name, plain in _OF_THE_FILE.items()
            if getattr(options, name) not in (plain, options_of(LaunchOptions)[name].default)
        ]
        if wrong:
            raise PodsimError(f"--read takes the plan from the file; leave out {', '.join(wrong)}")
        return _read(options)
    if not options.model or not options.on:
        raise PodsimError(
            "give MODEL and --on CLUSTER to write a launch file, or --read FILE to read one"
        ).offer(
            **({} if options.model else {"model": "llama-3.1-8b"}),
            **({} if options.on else {"on": "h100", "gpus": 64}),
        )
    return _write(options)


_OF_THE_FILE = {"tp": 1, "pp": 1, "dp": 1, "cp": 1, "ep": 1, "zero": 0, "micro_batch": None}
"""what a file that is read says itself, and its value where the user said nothing"""


def _write(options: LaunchOptions) -> Recipe:
    tool = options.tool or default_tool(_named(options.model, options), options.train)
    check_name("tool", tool, TOOLS)
    if options.partition and tool != "slurm":
        raise PodsimError(f"--partition {options.partition[:40]}: {tool} has none; take --for slurm")
    limit = _limit(options.time_limit)
    mounts = _mounts(tuple(options.mount))
    if tool == "deepspeed" and options.overlap_param is None:
        options = replace(options, overlap_param=options.zero == 3)
    network, cluster, plan, *_ = read_plan(options, forced=options.force)
    if not options.software and not TOOLS[tool].starts(plan.software):
        options = replace(options, software=TOOLS[tool].limits[0].software[0])
        network, cluster, plan, *_ = read_plan(options, forced=options.force)
    part = cluster.subset(int(plan.gpus))
    forced = tuple(plan.problems(network, cluster)) or _too_large(network, part, plan, options)
    image = IMAGE if options.image is None else options.image
    if any(c.isspace() or not c.isprintable() for c in image):
        raise PodsimError(f"image {image[:80]!r}: an image is named without spaces: REGISTRY#IMAGE:TAG")
    named = {"model": options.model, "on": options.on, "overrides": dict(options.overrides or {})}
    named |= {"train": options.train} if options.train != "full" else {}
    job = Job(
        model=network, cluster=part, plan=plan, image=image, mounts=mounts, partition=options.partition, limit=limit,
        names={name: str(value) if name != "overrides" else value for name, value in named.items() if value},
        forced=forced,
    )  # fmt: skip
    try:
        return emit(job, tool)
    except PlanError as error:
        raise error.offer(**closest_options(job, tool)) from None


def _too_large(model: Model, cluster: Cluster, plan: Plan, options: LaunchOptions) -> tuple[str, ...]:
    """The problem of a plan that does not fit the memory, if the user wants it all the same; else NoFitError."""
    prediction = predict_plan(model, cluster, plan)
    if prediction.fits:
        return ()
    need, room = prediction.memory / 1e9, prediction.memory_limit / 1e9
    problem = f"the plan needs {need:.1f} GB on its fullest stage, a GPU has {room:.1f} GB"
    if options.force:
        return (problem,)
    finds = f"podsim plan {options.model} --on {options.on} --gpus {cluster.gpus}"
    raise NoFitError([f"{problem}; `{finds}` finds plans that fit, and --force writes this one"])


def _limit(text: str) -> float:
    limit = parse_quantity(text, "s", what="time limit")
    if not 60 <= limit <= 366 * 86400:
        raise PodsimError(f"time limit {text[:40]!r}: a job has 1 min to 366 d")
    return limit


def _mounts(mounts: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [
        m
        for m in mounts
        if not all(part.startswith("/") for part in m.split(":")[:2]) or m.count(":") not in (1, 2)
    ]
    if wrong:
        raise PodsimError(f"mount {wrong[0][:80]!r}: expected /SOURCE:/TARGET")
    if odd := [m for m in mounts if "," in m or not m.isprintable()]:
        raise PodsimError(f"mount {odd[0][:80]!r}: a comma or a line break cannot be mounted")
    return mounts


def _read(options: LaunchOptions) -> PlanRead:
    """The plan of a file, predicted where there is a cluster."""
    if options.gpus is not None and options.gpus < 1:
        raise PodsimError(f"gpus={options.gpus}: a job has 1 GPU or more")
    text = _text(options.read)
    if options.on:
        return _predicted(options, text)
    network = _named(options.model, options) if options.model else None
    reading = _reading(text, options, options.gpus, network)
    _agree(reading, network)
    return _result(reading, network, options.software)


def _predicted(options: LaunchOptions, text: str) -> PlanRead:
    """The plan of a text, with its prediction."""
    cluster = load_cluster(options.on, split_overrides(options.overrides)[1])
    network = _named(options.model, options) if options.model else None
    try:
        reading = _reading(text, options, options.gpus, network)
    except PlanError as error:
        if options.gpus is not None or not any(GIVE_GPUS in problem for problem in error.problems):
            raise
        reading = _reading(text, options, cluster.gpus, network)
    _agree(reading, network)
    network = network or (_named(reading.named, options) if reading.named else _built(reading, options.read))
    network = fine_tuned(network, reading.names.get("train", "full"))
    plan = _plan(reading, network, options.software)
    part = load_cluster(options.on, split_overrides(options.overrides)[1], reading.gpus)
    software = options.software
    if problems := plan.problems(network, part):
        software = software or software_of(None, part.gpu)  # what it was calibrated with may fold experts
        plan = _plan(reading, network, software)
        if plan.problems(network, part):
            raise PlanError(problems)
    result = _result(reading, network, software)
    return replace(result, prediction=describe(network, part, plan))


def _named(model: str, options: LaunchOptions) -> Model:
    length = {} if options.sequence is None else {"sequence": str(read_sequence(options.sequence))}
    return load_model(model, split_overrides(options.overrides)[0] | length)


def _reading(text: str, options: LaunchOptions, gpus: int | None, network: Model | None) -> Reading:
    """What the text says; problems begin with the name of the file."""
    layers = network.layer_count if network else 0
    length = read_sequence(options.sequence or 0) or (network.sequence if network else 0)
    name = "standard input" if options.read == "-" else options.read[-200:]
    try:
        return read(text, tool=options.tool, gpus=gpus, layers=layers, sequence=length)
    except PlanError as error:
        raise PlanError([f"{name}: {problem}" for problem in error.problems]) from None
    except PodsimError as error:
        raise PodsimError(f"{name}: {error}") from None


def _agree(reading: Reading, network: Model | None) -> None:
    """Raise PlanError if a command gives another shape than that of the named model."""
    if network is None:
        return
    ours = {"layers": network.layer_count, "hidden": network.hidden}
    wrong = [
        f"the file has {name}={reading.model[name]}, but {network.name} has {value}; leave MODEL out, or name another"
        for name, value in ours.items()
        if name in reading.model and reading.model[name] != value
    ]
    raise_all(wrong, PlanError)


def _built(reading: Reading, path: str) -> Model:
    if not reading.model:
        raise PodsimError("the file does not state the model; give MODEL as well").offer(model="llama-3.1-8b")
    return build(Transformer(name="model of the command", source=path, **reading.model))  # type: ignore[arg-type]


def _plan(reading: Reading, network: Model | None, software: str | None) -> Plan:
    changes: dict[str, Any] = {"software": software} if software else {}
    if network is not None and not reading.plan.sequence:
        changes["sequence"] = network.sequence
    return reading.plan.having(changes)


def _result(reading: Reading, network: Model | None, software: str | None) -> PlanRead:
    return PlanRead(
        tool=reading.tool, gpus=reading.gpus, plan=_plan(reading, network, software).describe(), shape=reading.model,
        ignored=reading.ignored, assumptions=reading.assumptions, train=str(reading.names.get("train", "full")),
    )  # fmt: skip


def _text(path: str) -> str:
    """Text of a file or of standard input, at most a mebibyte."""
    if path != "-" and ("\0" in path or not Path(path).is_file()):
        raise PodsimError(f"{shown(path)!r}: no such file; give a file to read, or - for standard input")
    return read_text(path, most=LARGEST, error=PodsimError, hint="nothing that starts a training is")
