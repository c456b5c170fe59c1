"""An sbatch script with pyxis and enroot containers, and read back.

Sources: Slurm's sbatch manual; NVIDIA/pyxis and NVIDIA/enroot READMEs.
"""

from __future__ import annotations

import re
import shlex
from math import ceil

from podsim.errors import PodsimError
from podsim.launching import titan
from podsim.launching.command_line import (
    PORT,
    SHELL_WORDS,
    read_start,
    script_head,
    shell_command,
    start_of_script,
    torchrun_words,
)
from podsim.launching.flags import Flags, flags_of
from podsim.launching.job import Context, Job, Reading
from podsim.launching.nccl_settings import settings
from podsim.quoting import shell_word

_CHDIR, _MOUNTS, _CONTAINER_WORKDIR = _SHELL_WORDS = (
    '--chdir="$WORKDIR"', '--container-mounts="$MOUNTS"', '--container-workdir="$WORKDIR"',
)  # fmt: skip
_VALUE = re.compile(r"[A-Za-z0-9.,:=_+-]*")
"""a value that sbatch reads as it stands: no space, quote, # or line break"""
_LONGEST_LINE = 10_000
"""characters: the time that shlex takes grows as their square"""
_SHORT = {"N": "nodes", "n": "ntasks", "p": "partition", "t": "time", "J": "job-name", "G": "gpus", "o": "output",
          "e": "error", "c": "cpus-per-task", "A": "account", "w": "nodelist", "C": "constraint"}  # fmt: skip


def duration(seconds: float) -> str:
    """A time limit as Slurm takes it, rounded up to minutes: "1-00:00:00"."""
    minutes = ceil(seconds / 60)
    return f"{minutes // 1440}-{minutes % 1440 // 60:02}:{minutes % 60:02}:00"


def script(job: Job) -> str:
    """The script: one torchrun on each node, which starts a rank for each GPU."""
    _check_directives(job)
    directives = [
        f"--job-name={job.name}", *([f"--partition={job.partition}"] if job.partition else []), f"--nodes={job.nodes}",
        "--ntasks-per-node=1", _gpus(job), *(["--exclusive", "--mem=0"] if job.whole else []),
        f"--time={duration(job.limit)}", "--output=%x-%j.out", "--open-mode=append",
    ]  # fmt: skip
    exports = [f"export {name}={shell_word(value)}" for name, value in settings(job).items()]
    meet = f'"$head:{PORT}"'
    number = '"$SLURM_JOB_ID"'
    groups = torchrun_words(
        job, rendezvous=["--rdzv-backend", "c10d", "--rdzv-id", number, "--rdzv-endpoint", meet]
    )
    command = shell_command(
        [["srun", *_container(job)], *groups], raw=[meet, number, *SHELL_WORDS, *_SHELL_WORDS]
    )
    return "\n".join([
        "#!/bin/bash", *(f"#SBATCH {line}" for line in directives), "", "set -euo pipefail", *script_head(job),
        *_mounts(job), *exports,
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)', "", command, "",
    ])  # fmt: skip


def _check_directives(job: Job) -> None:
    """Raise PodsimError for text that sbatch would take for more than a value: a line break starts a shell line."""
    for option, text in (("--partition", job.partition), ("the GPU's name", _gpus(job))):
        if not _VALUE.fullmatch(text):
            raise PodsimError(
                f"{option} {text[:60]!r}: a line #SBATCH takes letters, digits and . , : = _ + - only"
            )


def notes(job: Job) -> list[str]:
    """What to look over where the job does not have whole nodes."""
    if job.instance:
        return [
            "the instance's type is the one that gres.conf has with AutoDetect=nvml; a site may name it otherwise"
        ]
    return (
        []
        if job.whole
        else ["it shares its node: give --cpus-per-gpu and --mem-per-gpu where the site has no default"]
    )


def _gpus(job: Job) -> str:
    """The resources requested of a node; an instance by the type that Slurm detects, as a100_3g.20gb."""
    kind = job.cluster.gpu.name.partition("-")[0]
    return f"--gres=gpu:{kind}_{job.instance}:1" if job.instance else f"--gpus-per-node={job.per_node}"


def _container(job: Job) -> list[str]:
    """pyxis options of srun: which image, what it sees, and the environment it keeps."""
    if not job.image:
        return [_CHDIR]
    kept = ",".join(settings(job))
    return [
        f"--container-image={job.image}",
        _MOUNTS,
        _CONTAINER_WORKDIR,
        "--no-container-mount-home",
        f"--container-env={kept}",
    ]


def _mounts(job: Job) -> list[str]:
    """Lines that say what the container sees: the clone, the data, and the user's mounts."""
    if not job.image:
        return []
    code = "TORCHTITAN" if titan.LIMITS.starts(job.plan.software) else "MEGATRON"
    data = 'if [ "$DATA" != mock ]; then MOUNTS+=",$(dirname "$DATA"):$(dirname "$DATA")"; fi'
    return [
        f'MOUNTS="${{MOUNTS:-${code}:${code}}}"', *([data] if code == "MEGATRON" else []),
        *([f"MOUNTS+={shell_word(',' + ','.join(job.mounts))}"] if job.mounts else []),
    ]  # fmt: skip


def read_slurm(text: str, context: Context) -> Reading | None:
    """The plan of an sbatch script; None where nothing can be built."""
    problems = context.problems
    words: list[str] = []
    for line in text.splitlines():
        if line.startswith("#SBATCH") and len(line) > _LONGEST_LINE:
            problems.append(f"{line[:80]!r}: {len(line):,} characters; a line has at most {_LONGEST_LINE:,}")
        elif line.startswith("#SBATCH"):
            try:
                words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                problems.append(f"{line[:80]!r}: {error}")
    flags = flags_of(words, _SHORT)
    nodes, gpus = flags.number("nodes"), _gpus_of_node(flags)
    tasks = flags.number("ntasks-per-node")
    problems += flags.problems
    known = {
        **({"SLURM_NNODES": str(nodes), "SLURM_JOB_NUM_NODES": str(nodes)} if nodes else {}),
        **({"SLURM_GPUS_ON_NODE": str(gpus), "SLURM_GPUS_PER_NODE": str(gpus)} if gpus else {}),
        **({"SLURM_NTASKS_PER_NODE": str(tasks)} if tasks else {}),
    }
    command = start_of_script(text, known)
    if command is None:
        problems.append(
            "the script starts no training that is known: torchrun or a script of Megatron-LM or torchtitan"
        )
        return None
    around = nodes * (gpus or tasks or 1) if nodes and (gpus or tasks) else None
    return read_start(command, context.on(around, "#SBATCH asks for"))


def _gpus_of_node(flags: Flags) -> int | None:
    """GPUs of a node from --gpus-per-node or --gres, in any of their forms: 8, a100:8, gpu:a100:8."""
    for name in ("gpus-per-node", "gres"):
        text = flags.word(name)
        if text and (name == "gpus-per-node" or text.startswith("gpu")):
            last = text.split("(")[0].rpartition(":")[2]
            if last.isascii() and last.isdecimal() and int(last[:6]) > 0:
                return int(last[:6])
            flags.problems.append(f"--{name} {text[:60]!r} names no number of GPUs")
    return None
