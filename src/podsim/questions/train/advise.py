"""`podsim advise`: the job of a file that somebody has, and the changes of it that are worth most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.launched import PlanRead
from podsim.answers.served import Served
from podsim.errors import PodsimError
from podsim.foreign_files import read_text
from podsim.hardware.catalog import find
from podsim.hardware.cluster import load_cluster
from podsim.launching import bridge, titan
from podsim.launching.advice import difference, new_problems, single_changes
from podsim.launching.job import Job
from podsim.launching.tools import LARGEST
from podsim.options.plan_options import JobOptions, TrainedFields
from podsim.options.question import like, option, question
from podsim.options.serving_options import ServeOptions
from podsim.questions.registry import ask
from podsim.report.screen import Block, Paragraph, bold, dim, items, raw
from podsim.serving.deployments.deployments import read_serving_plan, server_flags, unread_of_servers
from podsim.training.job_inputs import read_sequence, split_overrides
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.catalog import load_model
from podsim.workload.finetuning import fine_tuned
from podsim.workload.model import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build

_KINDS = (
    "Megatron-LM arguments, a Megatron-Bridge YAML or recipe, a torchtitan TOML, a DeepSpeed JSON, accelerate, axolotl "
    "or MaxText YAML, a Slurm or torchrun script, a PyTorchJob, a vllm, sglang or trtllm server"
)
_LEAST = 0.005
"""share. The smallest gain that is proposed."""


@dataclass(frozen=True, kw_only=True)
class AdviseOptions:
    """A file that starts a training or a server, and what it leaves unsaid."""

    file: str = option(
        "", "The file: arguments, script, TOML, YAML or JSON; - is standard input.", argument=True
    )
    model: str = like(
        JobOptions, "model", "The model, where the file does not state it.", default="", argument=False
    )
    on: str = like(JobOptions, "on", default="")
    gpus: int | None = like(JobOptions, "gpus", "GPUs, where the file does not state them.")
    sequence: int | str | None = like(
        TrainedFields, "sequence", "Tokens of a sequence, where the file is silent."
    )
    software: Any = like(TrainedFields, "software", default=None)
    top: int = option(3, "Changes to show.")
    overrides: Mapping[str, str] | None = like(JobOptions, "overrides")


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of one subject, with what it is worth by the law of the prediction."""

    subject: str = shown("change")
    step_time: float
    """s. The time of a step with it."""
    gain: float = shown("faster", ":+.1%")
    """share. The throughput gained."""
    memory: float
    """B. The memory of the fullest GPU with it."""
    diff: tuple[str, ...]
    """The lines of the file that go and come, in its own keys."""


@dataclass(frozen=True, kw_only=True)
class Advice(Answer, view=View(report="questions.train.advise:advice_report", rows="changes")):
    """The job of a file: its step, its memory, and the changes that are worth most."""

    tool: str
    model: str
    cluster: str
    gpus: int
    step_time: float
    """s. The time of a step as the file has it; of a server, the time per token."""
    low: float | None
    """s. The lower end of its error band; None for a server, which has none."""
    high: float | None
    """s. The upper end of its error band; None for a server, which has none."""
    memory: float
    """B. The memory of the fullest GPU."""
    memory_limit: float
    """B. The memory that a GPU has for it."""
    fits: bool
    changes: tuple[Change, ...]
    unread: tuple[str, ...]
    """The keys of the file that no law reads."""
    assumptions: tuple[str, ...]


@question(AdviseOptions, status=lambda answer: int(not answer.fits))
def advise(options: AdviseOptions) -> Advice:
    """Step and memory of a job's file, and the changes of one subject that are worth most, in the file's own keys.

    Batch, sequence and GPUs stay. Raises PodsimError for a file of no known kind, and for what it leaves unsaid.
    """
    if not options.file:
        raise PodsimError(f"give a FILE to read: {_KINDS}").offer(file="job.sh")
    if not options.on:
        raise PodsimError(
            "a file does not say which GPUs it runs on; give --on CLUSTER, e.g. --on h100"
        ).offer(on="h100")
    path = Path(options.file)
    if options.file != "-" and path.is_file() and (unread := unread_of_servers(path)) is not None:
        return _served(options, path, read_serving_plan(path), unread)
    read: PlanRead = ask(
        "launch", read=options.file, model=options.model, on=options.on, gpus=options.gpus, sequence=options.sequence,
        software=options.software, overrides=options.overrides,
    )  # fmt: skip
    prediction = read.prediction
    assert prediction is not None  # a cluster is given
    model = _model(options, read, prediction.model)
    cluster = load_cluster(options.on, split_overrides(options.overrides)[1], read.gpus)
    job = Job(model=model, cluster=cluster, plan=Plan().having(dict(read.plan)))
    band, hint = prediction.band, "nothing that starts a training is"
    text = "" if options.file == "-" else read_text(path, most=LARGEST, error=PodsimError, hint=hint)
    return Advice(
        tool=read.tool, model=model.name, cluster=cluster.name, gpus=read.gpus, step_time=prediction.step_time,
        low=prediction.step_time * (1 + (band.low if band else 0)),
        high=prediction.step_time * (1 + (band.high if band else 0)),
        memory=prediction.memory, memory_limit=prediction.memory_limit, fits=prediction.fits,
        changes=_best(job, read.tool, text, options.top), unread=read.ignored, assumptions=read.assumptions,
    )  # fmt: skip


def _stated(lines: tuple[str, ...], text: str) -> tuple[str, ...]:
    """The lines of a diff without the removed keys that a text leaves to their defaults; all without a text."""
    known = text.replace("_", "-")
    keys = {line: line[2:].lstrip("-").split()[0].rstrip(":").rpartition(".")[2] for line in lines}
    return tuple(
        line for line in lines if not text or line[0] == "+" or keys[line].replace("_", "-") in known
    )


def _served(options: AdviseOptions, path: Path, said: Mapping[str, Any], unread: tuple[str, ...]) -> Advice:
    """The server of a file at a batch of 32, and what changes its time per token."""
    words = {**said, "on": options.on, "batch": "32"}
    words |= {"model": options.model} if options.model else {}
    kind, _ = find(options.on) or ("", "")
    needed = int(said.get("tp", 1)) * int(said.get("pp", 1)) * int(said.get("replicas", 1))
    words |= {"on": f"{options.gpus or needed}x{options.on}"} if kind == "gpu" else {}
    base: Served = ask("serve", **words)
    row = base.rows[0]
    changes = [change for moves in _SERVING for change in _served_change(words, moves, row.token)]
    text = path.read_text("utf-8", errors="replace")
    changes = [replace(change, diff=_stated(change.diff, text)) for change in changes]
    return Advice(
        tool=base.engine, model=base.model, cluster=base.gpu, gpus=options.gpus or needed, step_time=row.token,
        low=None, high=None, memory=row.memory, memory_limit=base.memory_limit, fits=row.fits,
        changes=tuple(sorted(changes, key=lambda change: change.step_time)[: options.top]),
        unread=unread, assumptions=base.assumptions,
    )  # fmt: skip


_SERVING = ({"precision": "fp8"}, {"kv": "fp8"}, {"tp": 2, "pp": -2}, {"tp": -2, "pp": 2})
"""changes of a server: a format, or factors of degrees, -2 a half"""


def _served_change(words: Mapping[str, Any], moves: Mapping[str, Any], seconds: float) -> Iterator[Change]:
    """A change of a server, if it is possible and makes its tokens faster than `seconds`."""
    new = dict(words)
    for name, value in moves.items():
        old = words.get(name, 1)
        new[name] = value if isinstance(value, str) else old * 2 if value > 0 else old // 2
    before = ServeOptions(**{name: value for name, value in words.items() if name != "batch"})
    try:
        served: Served = ask("serve", **new)
        after = server_flags(replace(before, **{name: new[name] for name in moves}))
    except PodsimError:
        return  # this model, GPU or engine cannot
    row, flags = served.rows[0], server_flags(before)
    lines = [
        f"{sign} {some[name]}"
        for name in dict.fromkeys([*flags, *after])
        for sign, some in (("-", flags), ("+", after))
        if name in some and flags.get(name) != after.get(name)
    ]
    if row.fits and lines and row.token < seconds / (1 + _LEAST):
        subject = ", ".join(f"{name} {words.get(name, 'plain')} → {new[name]}" for name in moves)
        yield Change(
            subject=subject,
            step_time=row.token,
            gain=seconds / row.token - 1,
            memory=row.memory,
            diff=tuple(lines),
        )


def _model(options: AdviseOptions, read: PlanRead, name: str) -> Model:
    if read.shape and not options.model:
        shape: Mapping[str, Any] = read.shape
        return build(Transformer(name="model of the command", source=options.file, **shape))
    length = {} if options.sequence is None else {"sequence": str(read_sequence(options.sequence))}
    keys = split_overrides(options.overrides)[0] | length
    return fine_tuned(load_model(options.model or name, keys), read.train)


def _own_names(text: str, tool: str) -> Mapping[str, str]:
    """The names that a file of an older release has for today's keys."""
    readers = {"torchtitan": titan.older_names, "nemo": bridge.older_names}
    return readers[tool](text) if tool in readers and text else {}


def _best(job: Job, tool: str, text: str, top: int) -> tuple[Change, ...]:
    """The changes that gain most, the best of each field; where the plan does not fit, those that make it fit."""
    base = predict_plan(job.model, job.cluster, job.plan)
    changes, names = [], _own_names(text, tool)
    for subject, plan in single_changes(job.plan):
        changed = replace(job, plan=plan)
        if plan.problems(job.model, job.cluster) or new_problems(tool, job, changed):
            continue
        prediction = predict_plan(job.model, job.cluster, plan)
        gain = base.step_time / prediction.step_time - 1
        lines = _stated(difference(tool, job, changed, names), text)
        if prediction.fits and lines and (gain > _LEAST or not base.fits):
            changes.append(Change(
                subject=subject, step_time=prediction.step_time, gain=gain, memory=prediction.memory, diff=lines,
            ))  # fmt: skip
    best: dict[str, Change] = {}
    for change in sorted(changes, key=lambda change: change.step_time):
        best.setdefault(change.subject.split()[0], change)
    return tuple(best.values())[:top]


def advice_report(advice: Advice) -> Iterator[Block]:
    """The job as it is, and each change as a diff."""
    gpus = f"{advice.gpus} GPU{'s' * (advice.gpus > 1)}"
    yield bold(f"{advice.model} on {gpus} of {advice.cluster.partition(' (')[0]} ({advice.tool})")
    room = "" if advice.fits else ": it does not fit"
    step, band = ("time per token, batch 32:", "") if advice.low is None else (
        "step", f" (band {advice.low:.4g} to {advice.high:.4g} s)"
    )  # fmt: skip
    yield Paragraph(
        f"{step} {advice.step_time:.4g} s{band}, memory "
        f"{advice.memory / 1e9:.1f} of {advice.memory_limit / 1e9:.1f} GB{room}"
    )
    if not advice.changes:
        yield Paragraph(
            "no single change makes it faster" if advice.fits else "no single change makes it fit"
        )
    for number, change in enumerate(advice.changes, 1):
        yield ""
        yield bold(
            f"{number}. {change.subject}: {change.step_time:.4g} s ({change.gain:+.1%} throughput), "
            f"memory {change.memory / 1e9:.1f} GB"
        )
        yield from (raw(line, indent="   ") for line in change.diff)
    yield from items("Not used by the prediction, or misspelt", advice.unread)
    yield from (dim(f"Assumed: {text}") for text in advice.assumptions)
