"""The command that starts every rank: a torchrun line around Megatron-LM or torchtitan, written and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.launching import megatron, titan
from podsim.launching.flags import Flags, flags_of
from podsim.launching.job import GIVE_GPUS, Context, Job, Reading
from podsim.launching.megatron_model import model_notes, read_model
from podsim.launching.shell import commands
from podsim.quoting import shell_word

_LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed")
_MARKS = ("--tensor-model-parallel-size", "--num-layers", "--micro-batch-size", "--parallelism.")
PORT = 29500
_PRETRAIN, _DATA = '"$MEGATRON/pretrain_gpt.py"', '"${data[@]}"'
SHELL_WORDS = (_PRETRAIN, _DATA, '"$DATA"')
"""words of the command that a shell fills in, by the variables of `script_head`"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A start command taken apart."""

    scheduler: tuple[str, ...]
    """The words before the launcher, such as srun and its options."""
    launcher: tuple[str, ...] | None
    """The options of torchrun; None if a script is started without it."""
    script: str
    arguments: tuple[str, ...]


def script_head(job: Job) -> list[str]:
    """Lines of a shell script that stop it, with a sentence, while it is not said where code and data are.

    MEGATRON or TORCHTITAN is a clone of the framework, DATA what it trains on, WORKDIR where it runs (the clone).
    """
    if titan.LIMITS.starts(job.plan.software):
        return [
            "# 100 steps: set the number in --training.steps",
            ': "${TORCHTITAN:?set TORCHTITAN to the folder of a clone of torchtitan, release 0.2.2 or older}"',
            ': "${DATA:?set DATA to a data set that torchtitan names, such as c4_test for a trial}"',
            'WORKDIR="${WORKDIR:-$TORCHTITAN}"',
        ]
    return [
        "# 100 iterations with a null tokenizer: set your own in the last line of options",
        ': "${MEGATRON:?set MEGATRON to the folder of a clone of Megatron-LM, where pretrain_gpt.py is}"',
        ': "${DATA:?set DATA to mock for mock data, or to the prefix of a data set (PREFIX.bin, PREFIX.idx)}"',
        'WORKDIR="${WORKDIR:-$MEGATRON}"',
        'data=(--data-path "$DATA")',
        'if [ "$DATA" = mock ]; then data=(--mock-data); fi',
    ]


def framework_command(job: Job) -> tuple[list[str], list[list[str]]]:
    """(script, options in groups) of the framework that the plan's software names."""
    if titan.LIMITS.starts(job.plan.software):
        words = titan.overrides(job)
        words[words.index("--training.dataset") + 1] = '"$DATA"'
        return ["-m", "torchtitan.train"], [words]
    *groups, last = megatron.options(job)
    return [_PRETRAIN], [*groups, [_DATA if word == "--mock-data" else word for word in last]]


def framework_notes(job: Job) -> list[str]:
    """What a user has to look over before the command is run."""
    if titan.LIMITS.starts(job.plan.software):
        return ["set TORCHTITAN (a clone of it) and DATA; it stops if one is missing", *titan.notes(job)]
    return [
        "set MEGATRON (a clone of Megatron-LM) and DATA (mock, or the prefix of a data set); it stops if one is missing",
        "trains for 100 iterations: replace --tokenizer-type, --train-iters and --lr by yours",
        *megatron.position_notes(job),
        *model_notes(job.model),
    ]


def torchrun_words(job: Job, *, rendezvous: Sequence[str]) -> list[list[str]]:
    """Words of the command in groups, one for each line."""
    script, groups = framework_command(job)
    first = ["torchrun", "--nnodes", str(job.nodes), "--nproc-per-node", str(job.per_node), *rendezvous]
    return [first, script, *groups]


def shell_command(groups: Sequence[Sequence[str]], *, indent: str = "    ", raw: Sequence[str] = ()) -> str:
    """Groups of words as lines of one shell command; words of `raw` are left to the shell as they are."""
    lines = [
        " ".join(word if word in raw else shell_word(word) for word in group) for group in groups if group
    ]
    return f" \\\n{indent}".join(lines)


def torchrun_script(job: Job) -> str:
    """The torchrun line, for each node alike; HEAD_NODE names the first."""
    meet = f'"${{HEAD_NODE:-localhost}}:{PORT}"'
    several = ["--rdzv-backend", "c10d", "--rdzv-id", job.name, "--rdzv-endpoint", meet]
    groups = torchrun_words(job, rendezvous=several if job.nodes > 1 else ["--standalone"])
    command = shell_command(groups, raw=[meet, *SHELL_WORDS])
    return "\n".join(
        ["#!/bin/bash", "set -euo pipefail", *script_head(job), "", 'cd "$WORKDIR"', command, ""]
    )


def start_of_script(text: str, known: Mapping[str, str] | None = None) -> Command | None:
    """The start command of a shell script or of bare options; None if there is none."""
    all_commands = commands(text, known)
    bare = [word for words in all_commands if words[0].startswith("--") for word in words]
    for words in all_commands:
        command = start_of_words(words)
        if command is not None:
            return command
        for position, word in enumerate(words[:-1]):
            if word in ("-c", "-lc") and (deep := start_of_script(words[position + 1], known)):
                return Command(
                    scheduler=tuple(words[:position]),
                    launcher=deep.launcher,
                    script=deep.script,
                    arguments=deep.arguments,
                )
    if any(word.startswith(_MARKS) for word in bare):
        return Command(scheduler=(), launcher=None, script="", arguments=tuple(bare))
    return None


def start_of_words(words: Sequence[str]) -> Command | None:
    """A command taken apart; None if it starts no training."""
    start = next((i for i, word in enumerate(words) if word.rpartition("/")[2] in _LAUNCHERS), None)
    after = 0 if start is None else start + 1
    script = next(
        (
            i
            for i in range(after, len(words))
            if words[i].endswith(".py")
            or (i > after and words[i - 1] in ("-m", "--module") and words[i] not in _LAUNCHERS)
        ),
        None,
    )
    if script is None or (start is None and not any(word.startswith(_MARKS) for word in words)):
        return None
    before = words[:script] if start is None else words[:start]
    options = (
        None
        if start is None
        else tuple(word for word in words[after:script] if word not in ("-m", "--module"))
    )
    return Command(
        scheduler=tuple(before), launcher=options, script=words[script], arguments=tuple(words[script + 1 :])
    )


def started_ranks(command: Command, problems: list[str]) -> int | None:
    """Ranks that a launcher starts; None where it does not say."""
    if command.launcher is None:
        return None
    flags = flags_of(command.launcher)
    nodes = _count(flags, ("nnodes", "num-nodes"), 1)
    ranks = _count(flags, ("nproc-per-node", "num-gpus"), None)
    problems += flags.problems
    return None if nodes is None or ranks is None else nodes * ranks


def _count(flags: Flags, names: tuple[str, ...], default: int | None) -> int | None:
    """A number of a launcher's option; elastic ranges such as 1:4 count their most; words such as gpu say nothing."""
    values = next((flags.given[name] for name in names if name in flags.given), None)
    if values is None:
        return default
    last = values[0].rpartition(":")[2] if values else ""
    if last in ("gpu", "auto", "cpu"):
        return None
    if not (last.isascii() and last.isdecimal() and 0 < len(last) < 9 and int(last)):
        flags.problems.append(f"--{names[0]} {' '.join(values)[:60]!r} is no whole number from 1")
        return None
    return int(last)


def read_start(command: Command, context: Context) -> Reading | None:
    """The plan of a start command; None where nothing can be built. The launcher must start the context's GPUs."""
    problems, gpus = context.problems, context.gpus
    started = started_ranks(command, problems)
    if started and gpus and started != gpus:
        problems.append(
            f"torchrun starts {started} ranks, but {gpus} GPUs are given around it; make them equal"
        )
    count = started or gpus
    if count is None:
        problems.append(f"it does not say how many GPUs it runs on; {GIVE_GPUS}")
    if command.script.startswith("torchtitan") or any(
        w.startswith("--parallelism.") for w in command.arguments
    ):
        return titan.read_overrides(command.arguments, context.on(count))
    flags = flags_of(command.arguments)
    assumed: list[str] = []
    shape = read_model(flags, assumed)
    plan, more = megatron.read_plan(flags, count or 1, context.layers or int(str(shape.get("layers", 0))))
    problems += (
        flags.problems if count else [p for p in flags.problems if "does not divide the world" not in p]
    )
    if count is None:
        return None
    return Reading(
        tool=context.tool,
        plan=plan,
        gpus=count,
        model=shape,
        ignored=flags.rest(),
        assumptions=tuple(assumed + more),
    )
