"""Random command lines from the table of commands: the documents' lines, changed; legal values, edges, and wrong ones."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

from podsim.cli.command import Command
from podsim.cli.mistakes import option_flag
from podsim.options.question import Option
from podsim.questions.registry import commands

ROOT = Path(__file__).resolve().parents[2]
WORDS = (
    "", " ", "-", "--", "---", "=", "==", ":", "::", ",", "@", "/", "#", "%", "*", "**", "?", "~", "a=b", "a=", "=1",
    "0=1", "-1=2", "0=0", "0=nan", "0=2@1s", "0=2@-1s", "0=2@", "99999=1.5", "1=dgx-a100", "x", "none", "None", "all",
    "auto", "true", "é", "\U0001d538", "²", "1²", "١٢", "\uff11",
    "\u202e", "\udcff", "\0", "a\0b", "\n", "\t", "x" * 5000, "(" * 300,
    "[" * 300, "{}", "{0}", "%s", "%n", "$HOME", "`x`", "'", '"', "../..", "gpt2", "h100", "dgx-a100:2", "8x8",
    "model.layers=2", "gpu.memory=1", "gpu.memory=-1", "nvlink.bandwidth=0", "model.layers=²", "network.x=1", "tp=2",
    "tp=0", "zero=1,2", "tp=x", "http://localhost:1", "s3://a/b", "file:///proc", "h100@0.4", "2x3GB", "3g,2g", "1g.5gb",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "8", "-1", "-0", "00", "+1", "1.5", "-1.5", ".5", "1.", "1e3", "1e-3", "1e308", "1e309", "1e-320",
    "nan", "inf", "-inf", "Infinity", "9" * 25, "9" * 400, "9" * 5000, "0x10", "1_000", "1,000", "1 000", "2**31",
    "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1000000", "1000000000",
    "1:2", "2:1", "1:1:0", "1:2:1", "1M:1K:2", "1:1e300:2", "0:0", "1-2", "2-1", "1..2", "1/0", "1/1000", "0/1",
    "1k", "1K", "1M", "1G", "1T", "1 GiB", "1GB", "4k", "10 s", "1h", "1 d", "30min", "1 parsec", "5 s s", "-5 s", "0 s",
    "1e400 s", "1W", "300W", "5%", "50 %", "100GB/s", "1e18", "1e30 B", "nan s", "inf B",
)  # fmt: skip
BOUNDED = {
    **dict.fromkeys(("train", "verify", "measure collective", "measure ranks", "measure ddp", "measure host",
                     "measure checkpoint"), "--ranks=999999"),
    "scale ladder": "--steps=0", "scale sharpness": "--rate=0",
    "measure serving": "--requests=0", "measure transfer": "--requests=0", "measure tables": "--workers=0",
    "measure loader": "--workers=0", "web": "--port=0", "exporter": "--port=-1", "calibrate": "--software=none",
    "validate": "--rows=jobs.csv", "mlperf": "--benchmark=bert", "diagnose": "--prometheus=http://localhost:1",
    "scale fit": "--form=x",
}  # fmt: skip
"""commands that would work for long, or wait, and what keeps each from it"""
SMALL = {
    "gpt3-175b": "gpt2", "gpt-1t": "gpt2", "llama-3.1-8b": "gpt2", "llama-3.1-70b": "gpt2", "llama3-8b": "gpt2",
    "selene": "dgx-a100:2", "superpod-a100:2su": "dgx-a100:4", "superpod-h100:2su": "dgx-h100:4", "512": "16",
    "1024": "16", "3072": "16", "1536": "64", "8:16G:2": "1M:64M:8", "philly-1": "jobs.csv", "philly-3": "jobs.csv",
    "arrivals:jobs=10000,load=0.9,median=2h": "arrivals:jobs=50,load=0.9,median=2h",
}  # fmt: skip
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64,
    "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
FILES: Mapping[str, str | bytes] = {
    "config.json": json.dumps(CONFIG),
    "lab.toml": 'inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 2\n',
    "plan.toml": 'model = "gpt2"\non = "dgx-a100:2"\nbatch = 64\n[plan]\ntp = 2\n',
    "study.toml": '[common]\nmodel = "gpt2"\n[grid]\nbatch = [8, 64]\n[[design]]\nname = "A"\non = "dgx-a100:1"\n',
    "jobs.csv": "job,submit,gpus,duration\n1,0,1,10\n2,5,8,20\n",
    "runs.csv": "params,tokens,loss\n1e6,1e8,4.0\n2e6,1e8,3.8\n4e6,2e8,3.5\n8e6,2e8,3.4\n1e7,4e8,3.2\n2e7,8e8,3.0\n",
    "run.jsonl": '{"format": "podsim-run", "version": 1, "kind": "collectives"}\n{}\n',
    "trace.json": '{"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "name": "a", "pid": 0, "tid": 0}]}',
    "smi.txt": "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 3g.20gb Device 0: (UUID: MIG-1)\n",
    "mig.yaml": "version: v1\nmig-configs:\n  a:\n  - devices: all\n    mig-devices: {1g.5gb: 7}\n",
    "log.txt": "# nThread 1\n  8388608 2097152 float sum -1 100 80 150 0\n",
    "empty.json": "", "list.json": "[]", "null.json": "null", "deep.json": "[" * 100_000, "nan.json": '{"a": NaN}',
    "latin.csv": b"a,b\n\xe9,1\n", "packed.gz": b"\x1f\x8b\x08\x00", "rubbish.npz": bytes(range(256)),
    "build.py": "def build():\n    raise KeyError('x')\n", "net.svg": "<svg/>",
}  # fmt: skip
"""what lies in the folder in which a command runs"""
LINKS = {
    "full": "/dev/full",
    "null": "/dev/null",
    "zero": "/dev/zero",
    "gone": "nowhere/at/all",
    "self": "self",
}
PATHS = (*FILES, *LINKS, "folder", "folder/", ".", "..", "missing.json", "missing/a/b.svg", "out.svg", "out.png",
         "out.html", "out.toml", "out.pftrace", "empty.json/x", "full/x", "build.py:build", "a" * 300 + ".svg",
         "config.json#x")  # fmt: skip


def write_files(folder: Path) -> None:
    """Make the files that random commands name."""
    (folder / "folder").mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)


@cache
def _lines() -> Mapping[str, Sequence[Sequence[str]]]:
    """The lines of the documents and of the help by command, without the command."""
    texts = [text.partition(" >")[0] for text in (entry.example for entry in commands().values())]
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "decisions" not in page.parts:
            texts += re.findall(r"(?m)^\s*\$? ?podsim ([a-z][^\n`|<>&;]*)", page.read_text("utf-8"))
    found: dict[str, list[list[str]]] = {name: [] for name in commands()}
    for text in dict.fromkeys(texts):
        try:
            words = [SMALL.get(word, word) for word in shlex.split(text, comments=True)]
        except ValueError:
            continue
        for length in (2, 1):
            if (name := " ".join(words[:length])) in found:
                found[name].append(words[length:])
                break
    return found


@cache
def _options(name: str) -> tuple[Option, ...]:
    return tuple(Command(name, commands()[name]).options.values())


@cache
def _said(flag: str) -> tuple[str, ...]:
    """The values that the documents give an option."""
    lines = [line for lines in _lines().values() for line in lines]
    return tuple(
        dict.fromkeys(line[at + 1] for line in lines for at, word in enumerate(line[:-1]) if word == flag)
    )


def _value(rng: Random, known: Option) -> str:
    """A value of an option: one that the documents give it, one at an edge, a wrong one, a path."""
    legal = [*known.choices, *_said(option_flag(known)), *([known.example] if known.example else [])]
    if legal and rng.random() < 0.5:
        return rng.choice(legal)
    kinds = [NUMBERS, WORDS, PATHS]
    likely = PATHS if known.kind is Path else NUMBERS if known.kind in (int, float) else rng.choice(kinds)
    return rng.choice(likely if rng.random() < 0.7 else rng.choice(kinds))


def _given(rng: Random, known: Option) -> list[str]:
    """An option as words."""
    if known.argument and not known.flag:
        return [_value(rng, known)]
    if known.kind is bool:
        return [rng.choice([option_flag(known), f"--no-{known.name.replace('_', '-')}"])]
    flag, value = option_flag(known), _value(rng, known)
    return [f"{flag}={value}"] if rng.random() < 0.2 else [flag, value]


def _changed(rng: Random, words: list[str], options: Sequence[Option]) -> list[str]:
    """A line with one thing changed."""
    how = rng.random()
    if how < 0.6 or not words:
        return words + (_given(rng, rng.choice(options)) if options else [rng.choice(WORDS)])
    at = rng.randrange(len(words))
    if how < 0.75:  # another value in the place of one
        return [*words[:at], rng.choice(rng.choice([NUMBERS, WORDS, PATHS])), *words[at + 1 :]]
    if how < 0.85:
        return words[:at] + words[at + 1 :]
    if how < 0.92:
        return words + words[at : at + 2]
    return [*words[at:], *words[:at]]


def random_command(rng: Random) -> list[str]:
    """A command line without the program's name, for a folder of `write_files`."""
    if rng.random() < 0.02:
        return rng.choices(
            [*WORDS, *NUMBERS, "help", "completion", "mig", "storage", "--help", "--version"],
            k=rng.randint(0, 4),
        )
    name = rng.choice(list(commands()))
    options = _options(name)
    lines = _lines()[name]
    if lines and rng.random() < 0.8:
        words = list(rng.choice(lines))
    else:
        words = [word for known in options if known.is_required for word in _given(rng, known)]
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        words = _changed(rng, words, options)
    if name == "emulate":  # what stands after -- would run
        words = ["--nothing", *words]
    elif name in BOUNDED:
        words += [BOUNDED[name], BOUNDED[name]]  # an option without a value takes the first
    return [*name.split(), *words]
