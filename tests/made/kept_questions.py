"""What users have of every command, as it was recorded in kept.json.gz before the house was rebuilt.

Options: names, flags, kinds, defaults. Commands: exit status, the keys and numbers of --json, the cells of --csv and the
numbers of the text. Left out, since they wait, need PyTorch or several ranks, run for minutes, or ask this machine:
capture, prune, train, scale ladder, scale sharpness, every `measure`, verify, emulate, exporter, diagnose, web,
calibrate and compare.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from golden_commands import numbers_of

from podsim.cli import app

FILE = Path(__file__).parents[1] / "golden" / "kept.json.gz"
COMMANDS = """
figure 12
mlperf v0.7 --on selene-2020-06
format e4m3 0.3
format tf32
scale batch zhang-151m --rate 3e-3 --base-batch 256
scale fit missing.csv
scale loss llama-3.1-8b --tokens 15T
scale best --on selene --gpus 1024 --days 30
scale laws
why step.jsonl
show dgx-h100
show llama-3.1-8b
models
clusters
predict llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1
predict resnet50 --on dgx-a100:2 --batch 512
predict gpt3-175b --on h100 --gpus 8
plan llama-3.1-8b --on h100 --gpus 16
study study.toml
replay kept/experiment.toml
validate --table korthikanti
collective all-reduce --on h100 --ranks 64 --sizes 1M:1G:8
flows --on superpod-a100:2su --shift 160
kernel gemm 8192x8192x8192 --on h100
schedule 1f1b --pp 4 --micro-batches 8
simulate llama-3.1-8b --on h100 --gpus 16 --tp 4 --pp 2 --batch 32
workers llama-3.1-8b --on h100 --gpus 16 --exchange ssp --staleness 2
workers gpt2 --on dgx-a100:4 --batch 256 --micro-batch 8 --exchange ssp --staleness 4 --servers 4
graph resnet50 --on h100
graph resnet50 --on h100 --batch 32
shard mixtral-8x7b --on h100 --gpus 8
chakra missing.et
checkpoint llama-3.1-8b --on h100 --gpus 64
goodput llama-3.1-8b --on h100 --gpus 64 --tokens 1T
power h100
cost h100 --gpu-hours 10000
queue jobs.csv --on 2x8 --compare
pack openb
serve bert-large --on a100-40gb/1g.5gb --batch 8
serve llama-3.1-8b --on dgx-h100:1 --tp 2 --rate 2 --input 512 --output 64
launch llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1 --for torchtitan
launch gpt3-175b --on selene --gpus 512 --tp 8 --pp 8 --zero 1 --sequence-parallel --batch 1536 --for slurm
storage show
storage show weka-ra
storage fio --on weka-ra:4
storage mdtest --on weka-ra:4
storage fail --on weka-ra:4
storage input mlperf-resnet50 --on weka-ra:4
storage size llama-3.1-8b --on dgx-h100:8
storage validate
mig layouts h100
mig show h100 3g,2g,2g
mig plan dgx-a100-40gb --job small:14x1g.5gb
mig state smi.txt --gpu a100-40gb
mig check mig.yaml --gpu a100-40gb
mig law
predict nothing-like-it
plan llama-3.1-8b
collective all-rediuce --on h100
""".strip().splitlines()
"""the examples of the commands, and where an example would fail or take long, one that works"""
FIRST = {
    "replay ": "plan gpt2 --on dgx-a100:1 --save kept",
    "why ": "simulate gpt2 --on dgx-a100:2 --tp 2 --pp 2 --batch 16 --save step.jsonl",
}
"""the command that writes the file that another reads"""
FILES = {
    "study.toml": (
        '[common]\nmodel = "gpt2"\ntokens = "1G"\n[grid]\nbatch = [8, 64]\n'
        '[[design]]\nname = "A"\non = "dgx-a100:1"\n[[design]]\nname = "H"\non = "dgx-h100:1"\n'
    ),
    "jobs.csv": "job,submit,gpus,duration\n1,0,1,10\n2,5,8,20\n3,6,16,30\n4,7,2,500\n",
    "smi.txt": (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n"
    ),
    "mig.yaml": (
        "version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.5gb: 7}\n"
    ),
}
"""what lies in the folder of a command"""
ONCE = ("pack ", "shard ", "scale best", "study ", "kernel ", "mlperf ", "flows ", "mig law")
"""commands that take a second, and are asked for JSON only"""
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
OF_THE_CLOCK = re.compile(r"plans (?:evaluated )?in [\d.]+ \w+")


@cache
def recorded() -> dict[str, Any]:
    """The record, read once: `options` by command, `commands` by command line."""
    kept: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return kept


def options() -> dict[str, dict[str, Any]]:
    """Each command's options: by name the flags, the kind, the default and whether it is required."""
    return {
        name: {str(each.name): _described(each) for each in parameters}
        for name, parameters in _commands(app, "")
    }


def asked(command: str, folder: Path) -> dict[str, Any]:
    """What a command answers in a folder: exit status, keys and numbers of JSON, columns of CSV, numbers of the text."""
    _fill(folder)
    first = next((line for start, line in FIRST.items() if command.startswith(start)), "")
    if first:
        assert _run(first).exit_code == 0, first
    as_json = _run(f"{command} --json")
    answer: dict[str, Any] = {"status": as_json.exit_code}
    if not as_json.stdout:
        return answer | {"error": sorted(set(NUMBER.findall(as_json.stderr)))}
    plain = json.loads(as_json.stdout)
    if command.startswith(("plan ", "replay ", "study ")):
        plain.pop("seconds")  # that it took on this machine
    answer |= {"keys": sorted(set(_keys(plain))), "numbers": numbers_of(plain)}
    if command.startswith(ONCE):
        return answer
    as_csv = _run(f"{command} --csv")
    if as_csv.exit_code != 2:
        header, *rows = csv.reader(io.StringIO(as_csv.stdout))
        answer["csv"] = {name: [row[at] for row in rows] for at, name in enumerate(header)}
    text = OF_THE_CLOCK.sub("", _run(command).stdout)
    return answer | {"text": sorted(set(NUMBER.findall(text)))}


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, list[click.Parameter]]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path}{name} ")
        else:
            yield path + name, command.get_params(click.Context(command))


def _described(option: click.Parameter) -> dict[str, Any]:
    default = None if repr(option.default).startswith("Sentinel") else option.default
    return {
        "flags": sorted([*option.opts, *option.secondary_opts]),
        "kind": option.type.name,
        "choices": [str(choice) for choice in getattr(option.type, "choices", ())],
        "default": default if isinstance(default, bool | int | float | str | None) else str(default),
        "required": option.required,
        "many": option.multiple or option.nargs == -1,
        "argument": isinstance(option, click.Argument),
    }


def _run(command: str) -> Any:
    return CliRunner(env={"COLUMNS": "400"}).invoke(app, shlex.split(command))


def _keys(value: Any, path: str = "") -> Iterator[str]:
    """The paths of a JSON value, without the positions in lists."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"{path}.{key}"
            yield from _keys(part, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part, f"{path}[]")


def _fill(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
