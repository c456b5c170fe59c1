"""A working model of an AI supercomputer, and of the distributed training that runs on it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from podsim import moved as moved  # old imports work, with a warning
from podsim.version import __version__ as __version__

if TYPE_CHECKING:
    from podsim.errors import NoFitError as NoFitError
    from podsim.errors import PlanError as PlanError
    from podsim.errors import PodsimError as PodsimError
    from podsim.hardware.catalog import load_gpu as load_gpu
    from podsim.hardware.cluster import Cluster as Cluster
    from podsim.hardware.cluster import load_cluster as load_cluster
    from podsim.hardware.parts import Gpu as Gpu
    from podsim.hardware.parts import Link as Link
    from podsim.answers.job_chain import JobChain as JobChain
    from podsim.answers.prediction import PlanResult as PlanResult
    from podsim.answers.prediction import Prediction as Prediction
    from podsim.answers.served import Figure as Figure
    from podsim.answers.served import Served as Served
    from podsim.answers.simulated import SimulatedStep as SimulatedStep
    from podsim.answers.study import StudyResult as StudyResult
    from podsim.answers.study import StudyRow as StudyRow
    from podsim.training.plan import Plan as Plan
    from podsim.verbs.calibrate import calibrate as calibrate
    from podsim.verbs.capture import capture as capture
    from podsim.verbs.chakra import chakra as chakra
    from podsim.verbs.checkpoint import checkpoint as checkpoint
    from podsim.verbs.collective import collective as collective
    from podsim.verbs.compare import compare as compare
    from podsim.verbs.diagnose import diagnose as diagnose
    from podsim.verbs.emulate import emulate as emulate
    from podsim.verbs.exporter import exporter as exporter
    from podsim.verbs.fabric import fabric as fabric
    from podsim.verbs.fewest import fewest_gpus as fewest_gpus
    from podsim.verbs.figure import figure as figure
    from podsim.verbs.flows import flows as flows
    from podsim.verbs.format import format as format
    from podsim.verbs.goodput import goodput as goodput
    from podsim.verbs.graph import graph as graph
    from podsim.verbs.jobs import jobs as jobs
    from podsim.verbs.kernel import kernel as kernel
    from podsim.verbs.large_batch import scale_batch as scale_batch
    from podsim.verbs.launch import launch as launch
    from podsim.verbs.measure import measure_collective as measure_collective
    from podsim.verbs.measure_checkpoint import measure_checkpoint as measure_checkpoint
    from podsim.verbs.measure_ddp import measure_ddp as measure_ddp
    from podsim.verbs.measure_host import measure_host as measure_host
    from podsim.verbs.measure_loader import measure_loader as measure_loader
    from podsim.verbs.measure_ranks import measure_ranks as measure_ranks
    from podsim.verbs.measure_serving import measure_serving as measure_serving
    from podsim.verbs.measure_tables import measure_tables as measure_tables
    from podsim.verbs.mig import mig_check as mig_check
    from podsim.verbs.mig import mig_law as mig_law
    from podsim.verbs.mig import mig_layouts as mig_layouts
    from podsim.verbs.mig import mig_show as mig_show
    from podsim.verbs.mig import mig_state as mig_state
    from podsim.verbs.mig_plan import mig_plan as mig_plan
    from podsim.verbs.mlperf import mlperf as mlperf
    from podsim.verbs.plan import plan as plan
    from podsim.verbs.plan import replay as replay
    from podsim.verbs.power import cost as cost
    from podsim.verbs.power import power as power
    from podsim.verbs.predict import predict as predict
    from podsim.verbs.prune import prune as prune
    from podsim.verbs.queue import pack as pack
    from podsim.verbs.queue import queue as queue
    from podsim.verbs.scale_best import scale_best as scale_best
    from podsim.verbs.scale_fit import scale_fit as scale_fit
    from podsim.verbs.scale_ladder import scale_ladder as scale_ladder
    from podsim.verbs.scale_loss import scale_laws as scale_laws
    from podsim.verbs.scale_loss import scale_loss as scale_loss
    from podsim.verbs.schedule import schedule as schedule
    from podsim.verbs.serve import serve as serve
    from podsim.verbs.shard import shard as shard
    from podsim.verbs.show import clusters as clusters
    from podsim.verbs.show import models as models
    from podsim.verbs.show import show as show
    from podsim.verbs.simulate import simulate as simulate
    from podsim.verbs.storage import storage_fail as storage_fail
    from podsim.verbs.storage import storage_fio as storage_fio
    from podsim.verbs.storage import storage_mdtest as storage_mdtest
    from podsim.verbs.storage import storage_show as storage_show
    from podsim.verbs.storage_input import storage_input as storage_input
    from podsim.verbs.storage_size import storage_size as storage_size
    from podsim.verbs.storage_validate import storage_validate as storage_validate
    from podsim.verbs.study import study as study
    from podsim.verbs.train import train as train
    from podsim.verbs.train_precisions import train_precisions as train_precisions
    from podsim.verbs.validate import validate as validate
    from podsim.verbs.verify import verify_machine as verify_machine
    from podsim.verbs.why import why as why
    from podsim.verbs.workers import workers as workers
    from podsim.workload.catalog import load_model as load_model
    from podsim.workload.model import Model as Model

_PUBLIC = {
    "Cluster": "hardware.cluster",
    "Figure": "answers.served",
    "Gpu": "hardware.parts",
    "Link": "hardware.parts",
    "Model": "workload.model",
    "NoFitError": "errors",
    "Plan": "training.plan",
    "PlanError": "errors",
    "PlanResult": "answers.prediction",
    "PodsimError": "errors",
    "Prediction": "answers.prediction",
    "Served": "answers.served",
    "SimulatedStep": "answers.simulated",
    "JobChain": "answers.job_chain",
    "StudyResult": "answers.study",
    "StudyRow": "answers.study",
    "calibrate": "verbs.calibrate",
    "capture": "verbs.capture",
    "chakra": "verbs.chakra",
    "clusters": "verbs.show",
    "collective": "verbs.collective",
    "cost": "verbs.power",
    "compare": "verbs.compare",
    "diagnose": "verbs.diagnose",
    "emulate": "verbs.emulate",
    "exporter": "verbs.exporter",
    "fabric": "verbs.fabric",
    "figure": "verbs.figure",
    "flows": "verbs.flows",
    "fewest_gpus": "verbs.fewest",
    "format": "verbs.format",
    "graph": "verbs.graph",
    "checkpoint": "verbs.checkpoint",
    "goodput": "verbs.goodput",
    "scale_best": "verbs.scale_best",
    "scale_fit": "verbs.scale_fit",
    "scale_ladder": "verbs.scale_ladder",
    "scale_laws": "verbs.scale_loss",
    "scale_loss": "verbs.scale_loss",
    "kernel": "verbs.kernel",
    "launch": "verbs.launch",
    "load_cluster": "hardware.cluster",
    "load_gpu": "hardware.catalog",
    "load_model": "workload.catalog",
    "mig_check": "verbs.mig",
    "mig_law": "verbs.mig",
    "mig_layouts": "verbs.mig",
    "mig_plan": "verbs.mig_plan",
    "mig_show": "verbs.mig",
    "mig_state": "verbs.mig",
    "measure_checkpoint": "verbs.measure_checkpoint",
    "measure_collective": "verbs.measure",
    "measure_loader": "verbs.measure_loader",
    "measure_serving": "verbs.measure_serving",
    "measure_ddp": "verbs.measure_ddp",
    "measure_ranks": "verbs.measure_ranks",
    "measure_host": "verbs.measure_host",
    "measure_tables": "verbs.measure_tables",
    "models": "verbs.show",
    "pack": "verbs.queue",
    "mlperf": "verbs.mlperf",
    "plan": "verbs.plan",
    "power": "verbs.power",
    "predict": "verbs.predict",
    "prune": "verbs.prune",
    "queue": "verbs.queue",
    "replay": "verbs.plan",
    "scale_batch": "verbs.large_batch",
    "schedule": "verbs.schedule",
    "serve": "verbs.serve",
    "shard": "verbs.shard",
    "show": "verbs.show",
    "simulate": "verbs.simulate",
    "storage_fail": "verbs.storage",
    "storage_fio": "verbs.storage",
    "storage_input": "verbs.storage_input",
    "storage_mdtest": "verbs.storage",
    "storage_show": "verbs.storage",
    "storage_size": "verbs.storage_size",
    "storage_validate": "verbs.storage_validate",
    "jobs": "verbs.jobs",
    "study": "verbs.study",
    "train": "verbs.train",
    "train_precisions": "verbs.train_precisions",
    "validate": "verbs.validate",
    "verify_machine": "verbs.verify",
    "why": "verbs.why",
    "workers": "verbs.workers",
}

__all__ = [*_PUBLIC, "__version__"]  # noqa: PLE0604 - names from the table above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `podsim --help` imports nothing heavy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'podsim' has no attribute {name!r}")
    return getattr(import_module(f"podsim.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
