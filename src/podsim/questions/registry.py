"""The registry: every question that podsim answers, in one line each, in the order of the help.

A question is a function in `questions/SECTION/FILE.py`, a command, and a public name of podsim: `podsim storage fio` is
`podsim.storage_fio`. Nothing is imported before it is asked, so that `podsim --help` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "train": "Plan a training run",
        "machine": "Look at a machine",
        "serve": "Serve",
        "learn": "What is learned",
        "operate": "Run and watch it",
        "web": "In a browser",
    }
)
"""the heading of each section"""

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "storage": "Predict storage systems and the input pipeline.",
        "mig": "Divide GPUs into MIG instances.",
        "scale": "Predict losses by size, tokens and batch.",
        "measure": "Run things for real and time them.",
        "serve": "Predict a server: batches, load, best way, streams.",
    }
)
"""the help of groups of commands"""


GROUPS_ASKED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mig": ("", "layouts"),
        "scale": ("loss", "best --days 30 --on"),
        "storage": ("size", "size llama-3.1-8b --on"),
    }
)
"""what groups are asked of a model, and of a cluster, that follows without a command"""

DIVIDED: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = MappingProxyType(
    {
        "serve": (
            ("best", ("ttft", "tpot", "measured")),
            ("streams", ("scenario", "streams", "chunk", "video", "queue_delay")),
            ("load", ("rate", "load", "trace", "clients")),
            ("batches", ()),
        )
    }
)
"""groups that were one command before: each command with the options of the old one that it took over, the first fits"""

PHRASES: Mapping[str, str] = MappingProxyType(
    {
        "allgather": "collective all-gather",
        "allreduce": "collective all-reduce",
        "all-gather": "collective all-gather",
        "all-reduce": "collective all-reduce",
        "alltoall": "collective all-to-all",
        "all-to-all": "collective all-to-all",
        "finetune": "plan",
        "fine-tune": "plan",
        "gpu": "show gpus",
        "gpus": "show gpus",
        "deepstream": "serve streams ssd300-resnet50 --video 1080p30",
        "lora": "plan --train lora:16",
        "merlin": "plan dlrm",
        "qlora": "plan --train qlora:16",
        "riva": "serve streams rnnt --chunk 160ms",
        "version": "--version",
        "autocomplete": "completion",
    }
)
"""the command and option for each other word that users type for them"""

FLAGS_MEANT: Mapping[str, str] = MappingProxyType(
    {
        "--lora": "--train lora:16", "--qlora": "--train qlora:16", "--fsdp": "--zero 3", "--fp8": "--precision fp8",
        **{f"--{tool}": f"--for {tool}" for tool in ("slurm", "deepspeed", "megatron", "torchtitan")},
    }
)  # fmt: skip
"""the option with its value for each flag without one that users type"""

ASKING = frozenset(["how", "what", "which", "when", "where", "can", "is"])
"""words that begin a question of natural language"""
LISTS = frozenset(["list", "ls", "catalog"])
"""words that users type before the name of a list"""
PLANNED = frozenset(["cost", "train", "why"])
"""commands that take no model: `plan` says what a run costs, how long it takes, and what holds it back"""


class Screen(NamedTuple):
    """The rules of asking a question in a browser."""

    is_quick: bool = False
    """Whether it answers in a fraction of a second: it has its own workers, and its answers are kept."""
    uploads: tuple[str, ...] = ()
    """The options that may name an uploaded file."""
    name: str = ""
    """The name in the API, where it is not the question's."""


class Entry(NamedTuple):
    """A question."""

    section: str
    help: str
    example: str = ""
    """The words to type after podsim; without them, it is no command."""
    also: str = ""
    """Other words that users type for it."""
    file: str = ""
    """The module below the section; by default the name."""
    function: str = ""
    """The function; by default the name."""
    screen: Screen | None = None
    """How a browser asks it; None: not at all."""


_MODEL = ("model", "on")

QUESTIONS: Mapping[str, Entry] = MappingProxyType(
    {
        "plan": Entry("train", "Find the best plans among every legal one. Exit status 1: none fits.",
            "plan llama-3.1-8b --on h100 --gpus 64", also="search optimize optimise autotune tune best",
            screen=Screen(uploads=_MODEL)),
        "predict": Entry("train", "Predict step time and memory of one plan. Exit status 1: it does not fit.",
            "predict llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1", also="estimate run time step mfu memory",
            screen=Screen(is_quick=True, uploads=_MODEL)),
        "study": Entry("train",
            "Compare clusters, models and plans, or run jobs in turn. Exit status 1: none fits.",
            "study designs.toml --days 30", also="sweep grid compare-designs jobs"),
        "replay": Entry("train", "Run a saved search again. Exit status 1: no plan fits.",
            "replay kept/experiment.toml", file="plan"),
        "launch": Entry("train",
            "Write what starts a plan, or read what others start. Exit status 1: the plan that was read does not fit.",
            "launch llama-3.1-8b --on h100 --gpus 64 --zero 2 --for torchtitan",
            also="slurm megatron kubernetes script", screen=Screen(is_quick=True, uploads=_MODEL)),
        "advise": Entry("train",
            "Read the file of a job; name the changes worth most. Exit status 1: it does not fit.",
            "advise kept/job.sh --on h100", also="advice improve tune-file review"),
        "simulate": Entry("train",
            "Simulate one training step: timeline, critical path, links. Exit status 1: it does not fit.",
            "simulate llama-3.1-8b --on h100 --gpus 16 --tp 4 --pp 2 --batch 32 --timeline step.html",
            also="sim trace profile"),
        "schedule": Entry("train", "Show a pipeline schedule: order, bubble, memory.",
            "schedule 1f1b --pp 4 --micro-batches 8", also="pipeline", screen=Screen(is_quick=True)),
        "graph": Entry("train",
            "Cost a captured graph, op by op; divide it over devices. Exit status 1: it does not fit.",
            "graph resnet50 --on h100 --batch 256"),
        "shard": Entry("train", "Divide every tensor of a network over GPUs. Exit status 1: it does not fit.",
            "shard mixtral-8x7b --on h100 --gpus 64", also="gspmd gshard sharding annotate alpa"),
        "capture": Entry("train", "Capture a PyTorch module as a graph of ops, uncomputed.",
            "capture net.py:build --input 8x3x224x224"),
        "workers": Entry("train", "Simulate data-parallel workers: idle time against staleness.",
            "workers gpt2 --on h100 --gpus 16 --exchange ssp --staleness 2"),
        "chakra": Entry("train", "Read, mend and rewrite Chakra execution traces.", "chakra trace/rank.0.et"),
        "checkpoint": Entry("train", "Size a checkpoint: bytes, stall, time to read it back.",
            "checkpoint llama-3.1-8b --on h100 --gpus 64"),
        "goodput": Entry("train", "Days of a run with failures, and where they go.",
            "goodput llama-3.1-8b --on h100 --gpus 64 --tokens 1T", also="failures mtbf reliability days",
            screen=Screen(uploads=_MODEL)),
        "fewest_gpus": Entry("train", "The fewest GPUs that train a model in some days.", file="fewest"),
        "collective": Entry("machine", "Time a collective, compare its algorithms, or check a log.",
            "collective all-reduce --on h100 --ranks 64 --sizes 1M:1G:8", also="nccl",
            screen=Screen(is_quick=True)),
        "flows": Entry("machine", "Rates of flows that cross a fabric at once.",
            "flows --on superpod-a100:2su --shift 160", also="fabric routing ecmp routes"),
        "kernel": Entry("machine", "Time one kernel, and compare it with measured ones.",
            "kernel gemm 8192x8192x8192 --on h100", also="gemm"),
        "storage show": Entry("machine", "Show what a storage system has and was shown to do.", "storage show"),
        "storage fio": Entry("machine", "Predict fio for some clients, or check a real run.",
            "storage fio --on weka-ra:4", also="fio"),
        "storage mdtest": Entry("machine", "Predict mdtest: operations on names a second.",
            "storage mdtest --on weka-ra:4", also="mdtest"),
        "storage fail": Entry("machine",
            "Lose servers: reads, writes, rebuild, data loss. Exit status 1: data is lost with the last of them.",
            "storage fail --on weka-ra:4"),
        "storage input": Entry("machine", "Predict the input pipeline: stages, epochs, what limits.",
            "storage input mlperf-resnet50 --on weka-ra:4"),
        "storage size": Entry("machine",
            "Size the storage that a cluster needs for a job. Exit status 1: beyond the guidance.",
            "storage size llama-3.1-8b --on dgx-h100:8"),
        "storage validate": Entry("machine",
            "Compare predictions of storage with published results. Exit status 1: a bar is not met.",
            "storage validate"),
        "power": Entry("machine", "Show what a cluster draws, by load and component.", "power h100",
            also="energy watts"),
        "cost": Entry("machine", "Price GPU-hours: energy, carbon dioxide, money.", "cost h100 --gpu-hours 10000",
            also="price prices money"),
        "mig layouts": Entry("machine", "List the layouts of a GPU: the maximal ones, or all.", "mig layouts h100",
            screen=Screen(is_quick=True, name="mig")),
        "mig show": Entry("machine", "Show one layout: its instances as GPUs, and what makes it.",
            "mig show h100 3g,2g,2g"),
        "mig plan": Entry("machine", "Divide a node's GPUs for a mix of jobs. Exit status 1: they do not fit.",
            "mig plan dgx-a100-40gb --job small:14x1g.5gb"),
        "mig state": Entry("machine", "Read what nvidia-smi prints; can a layout be reached? Exit status 1: no.",
            "mig state nvidia-smi.txt --gpu h100"),
        "mig check": Entry("machine", "Check that a mig-parted file's configurations can stand on a GPU.",
            "mig check mig-parted.yaml --gpu h100"),
        "mig law": Entry("machine", "Compare the laws of slices with what was measured.", "mig law"),
        "models": Entry("machine", "List the models of the catalog.", "models", also="model"),
        "clusters": Entry("machine", "List the systems and clusters of the catalog.", "clusters",
            also="systems cluster"),
        "show": Entry("machine", "Show the sheet of anything in the catalogs.", "show dgx-h100",
            also="roofline bandwidth spec specs info describe"),
        "fabric": Entry("machine", "Servers and switches of a machine as a drawing."),
        "serve": Entry("serve", "Predict inference by batch or under load. Exit status 1: no batch fits."),
        "serve batches": Entry("serve", "Latency, throughput and memory by batch. Exit status 1: no batch fits.",
            "serve batches bert-large --on a100-40gb/1g.5gb --batch 8", file="serve_ways",
            also="inference infer latency throughput kvcache"),
        "serve load": Entry("serve", "Simulate a server under load, request by request.",
            "serve load llama-3.1-8b --on h100 --rate 5/s", file="serve_ways"),
        "serve best": Entry("serve", "Find the best way to serve within limits. Exit status 1: none keeps them.",
            "serve best llama-3.1-8b --on 4xh100 --rate 20/s --ttft 500ms --tpot 30ms", file="serve_ways"),
        "serve streams": Entry("serve", "Networks in MLPerf's scenarios, streams of speech and video.",
            "serve streams resnet-50 --on a100 --scenario offline", file="serve_ways"),
        "scale batch": Entry("learn", "Find the critical batch: what larger batches cost in steps and samples.",
            "scale batch zhang-151m --rate 3e-3 --base-batch 256", file="large_batch"),
        "scale fit": Entry("learn", "Fit a law of the loss to finished runs: parameters, tokens, loss.",
            "scale fit runs.csv"),
        "scale loss": Entry("learn", "Predict the loss of a model after some tokens.",
            "scale loss llama-3.1-8b --tokens 15T", also="scaling loss"),
        "scale best": Entry("learn",
            "Find the network that learns most on a machine in some days. Exit status 1: none fits.",
            "scale best --on selene --gpus 1024 --days 30", screen=Screen(name="scale")),
        "scale ladder": Entry("learn",
            "Train tiny GPTs of several sizes for real, and foretell the largest from the others.",
            "scale ladder runs --steps 300"),
        "scale sharpness": Entry("learn",
            "Train with small and large batches for real: how well each generalises, and how sharp its minimum is.",
            "scale sharpness --seeds 3", also="generalisation hessian keskar"),
        "scale laws": Entry("learn", "Compare named scaling laws: where they disagree, and by how much.",
            "scale laws", also="chinchilla", file="scale_loss"),
        "mlperf": Entry("learn", "Predict minutes to the targets of MLPerf Training.",
            "mlperf v0.7 --on selene-2020-06", also="minutes benchmark benchmarks"),
        "format": Entry("learn", "Show number formats: range, codes, speed, accuracy.", "format e4m3 0.3",
            also="precision dtype formats"),
        "figure": Entry("learn", "Make figures and tables of the DGX A100 white paper again.", "figure 12"),
        "train": Entry("learn", "Train a small network for real under a plan. Exit status 1: it diverged.",
            "train --dp 2 --steps 20"),
        "prune": Entry("learn", "Prune weights 2:4: kept magnitude, compressed size.",
            "prune model.safetensors --to pruned.safetensors"),
        "train_precisions": Entry("learn", "Runs of several precisions, loss scales and seeds.", file="train"),
        "queue": Entry("operate", "Run jobs through a queue. Exit status 1: some fit no machine of this size.",
            "queue philly-1 --on 8x8 --compare", screen=Screen(uploads=("trace",))),
        "pack": Entry("operate", "Pack requests for parts of GPUs onto nodes.", "pack openb"),
        "validate": Entry("operate",
            "Compare predictions with measurements. Exit status 1: a figure is worse than recorded.", "validate",
            also="accuracy"),
        "calibrate": Entry("operate",
            "Fit the constants of the cost laws to measured rows. Exit status 1: --check finds a difference.",
            "calibrate --check"),
        "measure collective": Entry("operate",
            "Run a collective for real, checked and timed. Exit status 1: wrong results.",
            "measure collective all-reduce", file="measure"),
        "measure ranks": Entry("operate", "Time each rank by itself and each pair of ranks, to find the slow one.",
            "measure ranks --ranks 4"),
        "measure ddp": Entry("operate",
            "Time torch's DistributedDataParallel with real communication and compute as pauses.",
            "measure ddp --backward 100ms"),
        "measure host": Entry("operate", "Measure this machine, and make a catalog entry of it.", "measure host"),
        "measure checkpoint": Entry("operate",
            "Write and read a checkpoint for real. Exit status 1: other bytes came back than were written.",
            "measure checkpoint --to checkpoints"),
        "measure serving": Entry("operate",
            "Serve a small language model for real under load, or load a server of others.",
            "measure serving --requests 200 --save run.jsonl"),
        "measure transfer": Entry("operate",
            "Fine-tune, prune 2:4, bring to int8, export and serve a small network for real.",
            "measure transfer --to repository", also="tao transfer qat"),
        "measure tables": Entry("operate",
            "Train a small DLRM for real on embedding tables that parameter servers hold.",
            "measure tables criteo-small --servers 2 --workers 2"),
        "measure loader": Entry("operate",
            "Read samples for real, epoch after epoch. Ctrl-C keeps what was measured; exit status 130.",
            "measure loader data --make 1000x150KB"),
        "verify": Entry("operate", "Compare this machine with what it should be. Exit status 1: it is not.",
            "verify --expect dgx-h100", also="check", function="verify_machine"),
        "compare": Entry("operate",
            "Show a measured run and its prediction side by side. Exit status 1: no row can be compared.",
            "compare run.json"),
        "emulate": Entry("operate", "Run a command on a cluster of network namespaces. Exit status: the command's.",
            "emulate dgx-a100:2 -- hostname"),
        "why": Entry("operate", "Say which link was slow, when, and whose traffic met.",
            "why step.jsonl --link node0/nic3"),
        "exporter": Entry("operate", "Export metrics for Prometheus: a day, a run, a host.",
            "exporter arrivals:200 --on dgx-a100:4 --once", also="prometheus metrics monitor grafana dcgm"),
        "diagnose": Entry("operate", "Name idle, slow and failing parts by metrics. Exit status 1: there are some.",
            "diagnose --prometheus http://localhost:9090", also="doctor health alerts"),
        "web": Entry("web", "Ask and look in a browser: pages served on this machine.", "web --port 9000",
            also="browser ui gui server", file="web_server"),
        "defaults": Entry("web", "What a search takes where an option is not given, each value with its origin.",
            file="default_values", function="default_values", screen=Screen(is_quick=True, uploads=_MODEL)),
        "map": Entry("web", "Every plan of a search, counted in the cells of two axes.", file="plan_map",
            function="plan_map", screen=Screen(uploads=_MODEL)),
        "timeline": Entry("web", "A simulated step with its spans: podsim simulate.", file="step_timeline",
            function="step_timeline", screen=Screen(uploads=(*_MODEL, "against"))),
        "rounds": Entry("web", "An all-reduce round by round.", file="page_questions",
            function="collective_rounds", screen=Screen(is_quick=True)),
        "machine": Entry("web", "The values of a machine that a design changes.", file="page_questions",
            function="machine_levers", screen=Screen(is_quick=True, uploads=("on",))),
        "measured": Entry("web", "The measured runs that stand behind predictions, each with its error.",
            file="page_questions", function="measured_runs", screen=Screen(is_quick=True)),
        "fabric_svg": Entry("web", "The drawing of a server or a fabric: podsim show --fabric.",
            file="page_questions", function="fabric_drawing", screen=Screen(uploads=("on",), name="fabric")),
        "names": Entry("web", "The names that the catalogs know.", file="page_questions", function="catalog_names",
            screen=Screen(is_quick=True)),
    }
)  # fmt: skip
"""by name; of two words, the first is the group of the command"""


def function_of(name: str) -> Any:
    """The function of a question."""
    entry, own = QUESTIONS[name], name.replace(" ", "_")
    room = "web" if entry.section == "web" else f"questions.{entry.section}"
    return getattr(import_module(f"podsim.{room}.{entry.file or own}"), entry.function or own)


def ask(name: str, /, *arguments: Any, **options: Any) -> Any:
    """The answer of a question by its Python name, which is loaded only now; raises what the question raises."""
    return getattr(import_module("podsim"), name)(*arguments, **options)


def public_names() -> Mapping[str, str]:
    """The Python names of the questions, each with the name in the registry."""
    return {
        entry.function or name.replace(" ", "_"): name
        for name, entry in QUESTIONS.items()
        if entry.section != "web"
    }


def commands() -> Mapping[str, Entry]:
    """The questions that are commands."""
    return {name: entry for name, entry in QUESTIONS.items() if entry.example}


def screens() -> Mapping[str, tuple[str, Entry]]:
    """What a browser may ask, by its name in the API: the name in the registry, and its entry."""
    return {
        entry.screen.name or name: (name, entry)
        for name, entry in QUESTIONS.items()
        if entry.screen is not None
    }


def words_meant() -> Mapping[str, str]:
    """The command for each other word that users type."""
    return {word: name for name, entry in QUESTIONS.items() for word in entry.also.split()} | dict(PHRASES)
