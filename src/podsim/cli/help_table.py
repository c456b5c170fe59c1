"""The help of commands: their sections, an example of each, and other words for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "storage": "Predict storage systems and the input pipeline.",
        "mig": "Divide GPUs into MIG instances.",
        "scale": "Predict losses by size, tokens and batch.",
        "measure": "Run things for real and time them.",
    }
)
"""the help of groups of commands"""

SECTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Plan a training run": (
            "plan",
            "predict",
            "study",
            "replay",
            "launch",
            "scale",
            "mlperf",
            "web",
        ),
        "Look closer": (
            "simulate",
            "collective",
            "flows",
            "schedule",
            "kernel",
            "format",
            "graph",
            "shard",
            "capture",
            "workers",
            "chakra",
        ),
        "Run it for weeks": ("checkpoint", "goodput", "storage", "power", "cost", "queue", "pack"),
        "Serve": ("serve", "mig"),
        "What podsim knows": ("models", "clusters", "show", "figure", "validate", "calibrate"),
        "On real machines": (
            "measure",
            "verify",
            "train",
            "prune",
            "compare",
            "emulate",
            "why",
            "exporter",
            "diagnose",
        ),
        "podsim itself": ("help", "completion"),
    }
)
"""the commands and groups under each heading"""

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "plan": "plan llama-3.1-8b --on h100 --gpus 64",
        "predict": "predict llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1",
        "study": "study designs.toml --days 30",
        "figure": "figure 12",
        "mlperf": "mlperf v0.7 --on selene-2020-06",
        "replay": "replay kept/experiment.toml",
        "launch": "launch llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1 --for torchtitan",
        "web": "web --port 9000",
        "why": "why step.jsonl --link node0/nic3",
        "simulate": "simulate llama-3.1-8b --on h100 --gpus 16 --tp 4 --pp 2 --batch 32 --timeline step.html",
        "collective": "collective all-reduce --on h100 --ranks 64 --sizes 1M:1G:8",
        "flows": "flows --on superpod-a100:2su --shift 160",
        "schedule": "schedule 1f1b --pp 4 --micro-batches 8",
        "kernel": "kernel gemm 8192x8192x8192 --on h100",
        "format": "format e4m3 0.3",
        "graph": "graph resnet50 --on h100",
        "shard": "shard mixtral-8x7b --on h100 --gpus 64",
        "capture": "capture net.py:build --input 8x3x224x224",
        "workers": "workers llama-3.1-8b --on h100 --gpus 16 --exchange ssp --staleness 2",
        "chakra": "chakra trace.0.et trace.1.et",
        "checkpoint": "checkpoint llama-3.1-8b --on h100 --gpus 64",
        "goodput": "goodput llama-3.1-8b --on h100 --gpus 64 --tokens 1T",
        "power": "power h100",
        "cost": "cost h100 --gpu-hours 10000",
        "queue": "queue philly-1 --on 8x8 --compare",
        "pack": "pack openb",
        "serve": "serve bert-large --on a100-40gb/1g.5gb --batch 8",
        "models": "models",
        "clusters": "clusters",
        "show": "show dgx-h100",
        "validate": "validate",
        "calibrate": "calibrate --check",
        "verify": "verify --expect dgx-h100",
        "train": "train --dp 2 --steps 20",
        "compare": "compare run.json",
        "exporter": "exporter arrivals:200 --on dgx-a100:4 --once",
        "diagnose": "diagnose --prometheus http://localhost:9090",
        "prune": "prune model.safetensors --to pruned.safetensors",
        "scale batch": "scale batch zhang-151m --rate 3e-3 --base-batch 256",
        "emulate": "emulate dgx-a100:2 -- hostname",
        "help": "help plan",
        "completion": "completion bash > ~/.local/share/bash-completion/completions/podsim",
        "scale fit": "scale fit runs.csv",
        "scale loss": "scale loss llama-3.1-8b --tokens 15T",
        "scale best": "scale best --on selene --gpus 1024 --days 30",
        "scale ladder": "scale ladder runs --steps 300",
        "scale laws": "scale laws",
        "storage show": "storage show",
        "storage fio": "storage fio --on weka-ra:4",
        "storage mdtest": "storage mdtest --on weka-ra:4",
        "storage fail": "storage fail --on weka-ra:4",
        "storage input": "storage input mlperf-resnet50 --on weka-ra:4",
        "storage size": "storage size llama-3.1-8b --on dgx-h100:8",
        "storage validate": "storage validate",
        "mig layouts": "mig layouts h100",
        "mig show": "mig show h100 3g,2g,2g",
        "mig plan": "mig plan dgx-a100-40gb --job small:14x1g.5gb",
        "mig state": "mig state nvidia-smi.txt --gpu h100",
        "mig check": "mig check mig-parted.yaml --gpu h100",
        "mig law": "mig law",
        "measure collective": "measure collective all-reduce",
        "measure ranks": "measure ranks --ranks 4",
        "measure ddp": "measure ddp --backward 100ms",
        "measure host": "measure host",
        "measure checkpoint": "measure checkpoint --to checkpoints",
        "measure loader": "measure loader /data",
        "measure tables": "measure tables criteo-small --servers 2 --workers 2",
        "measure serving": "measure serving --requests 200 --save run.jsonl",
    }
)
"""what to type after podsim, by command"""

MEANT: Mapping[str, str] = MappingProxyType(
    {
        "search": "plan", "optimize": "plan", "optimise": "plan", "autotune": "plan", "tune": "plan", "best": "plan",
        "estimate": "predict", "run": "predict", "time": "predict", "step": "predict", "mfu": "predict",
        "memory": "predict", "sim": "simulate", "trace": "simulate", "profile": "simulate", "sweep": "study",
        "grid": "study", "compare-designs": "study", "nccl": "collective", "allreduce": "collective",
        "all-reduce": "collective", "alltoall": "collective", "gemm": "kernel", "pipeline": "schedule",
        "gspmd": "shard", "gshard": "shard", "sharding": "shard", "annotate": "shard", "alpa": "shard",
        "failures": "goodput", "mtbf": "goodput", "reliability": "goodput", "days": "goodput", "energy": "power",
        "watts": "power", "price": "cost", "prices": "cost", "money": "cost", "jobs": "study", "slurm": "launch",
        "megatron": "launch", "kubernetes": "launch", "script": "launch", "inference": "serve", "list": "models",
        "model": "models", "systems": "clusters", "gpus": "clusters", "gpu": "clusters", "cluster": "clusters",
        "accuracy": "validate", "check": "verify", "fio": "storage fio", "mdtest": "storage mdtest",
        "precision": "format", "dtype": "format", "formats": "format",
        "version": "--version", "autocomplete": "completion", "browser": "web", "ui": "web", "gui": "web",
        "server": "web", "scaling": "scale loss", "chinchilla": "scale laws", "loss": "scale loss",
        "minutes": "mlperf", "benchmark": "mlperf", "benchmarks": "mlperf",
        "fabric": "flows", "routing": "flows", "ecmp": "flows", "routes": "flows",
        "prometheus": "exporter", "metrics": "exporter", "monitor": "exporter", "grafana": "exporter",
        "dcgm": "exporter", "doctor": "diagnose", "health": "diagnose", "alerts": "diagnose",
    }
)  # fmt: skip
"""other words that users type for a command"""
