"""A working model of an AI supercomputer, and of the distributed training that runs on it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from podsim.version import __version__ as __version__

if TYPE_CHECKING:
    from podsim.answers.prediction import PlanResult as PlanResult
    from podsim.answers.prediction import Prediction as Prediction
    from podsim.answers.served import Figure as Figure
    from podsim.answers.served import Served as Served
    from podsim.answers.simulated import SimulatedStep as SimulatedStep
    from podsim.answers.study import StudyResult as StudyResult
    from podsim.answers.study import StudyRow as StudyRow
    from podsim.errors import NoFitError as NoFitError
    from podsim.errors import PlanError as PlanError
    from podsim.errors import PodsimError as PodsimError
    from podsim.hardware.catalog import load_gpu as load_gpu
    from podsim.hardware.cluster import Cluster as Cluster
    from podsim.hardware.cluster import load_cluster as load_cluster
    from podsim.hardware.parts import Gpu as Gpu
    from podsim.hardware.parts import Link as Link
    from podsim.questions.learn.figure import figure as figure
    from podsim.questions.learn.format import format as format
    from podsim.questions.learn.large_batch import scale_batch as scale_batch
    from podsim.questions.learn.mlperf import mlperf as mlperf
    from podsim.questions.learn.prune import prune as prune
    from podsim.questions.learn.scale_best import scale_best as scale_best
    from podsim.questions.learn.scale_fit import scale_fit as scale_fit
    from podsim.questions.learn.scale_ladder import scale_ladder as scale_ladder
    from podsim.questions.learn.scale_loss import scale_laws as scale_laws
    from podsim.questions.learn.scale_loss import scale_loss as scale_loss
    from podsim.questions.learn.train import train as train
    from podsim.questions.learn.train_precisions import train_precisions as train_precisions
    from podsim.questions.machine.collective import collective as collective
    from podsim.questions.machine.fabric import fabric as fabric
    from podsim.questions.machine.flows import flows as flows
    from podsim.questions.machine.kernel import kernel as kernel
    from podsim.questions.machine.mig import mig_check as mig_check
    from podsim.questions.machine.mig import mig_law as mig_law
    from podsim.questions.machine.mig import mig_layouts as mig_layouts
    from podsim.questions.machine.mig import mig_show as mig_show
    from podsim.questions.machine.mig import mig_state as mig_state
    from podsim.questions.machine.mig_plan import mig_plan as mig_plan
    from podsim.questions.machine.power import cost as cost
    from podsim.questions.machine.power import power as power
    from podsim.questions.machine.show import clusters as clusters
    from podsim.questions.machine.show import models as models
    from podsim.questions.machine.show import show as show
    from podsim.questions.machine.storage import storage_fail as storage_fail
    from podsim.questions.machine.storage import storage_fio as storage_fio
    from podsim.questions.machine.storage import storage_mdtest as storage_mdtest
    from podsim.questions.machine.storage import storage_show as storage_show
    from podsim.questions.machine.storage_input import storage_input as storage_input
    from podsim.questions.machine.storage_size import storage_size as storage_size
    from podsim.questions.machine.storage_validate import storage_validate as storage_validate
    from podsim.questions.operate.calibrate import calibrate as calibrate
    from podsim.questions.operate.compare import compare as compare
    from podsim.questions.operate.diagnose import diagnose as diagnose
    from podsim.questions.operate.emulate import emulate as emulate
    from podsim.questions.operate.exporter import exporter as exporter
    from podsim.questions.operate.measure import measure_collective as measure_collective
    from podsim.questions.operate.measure_checkpoint import measure_checkpoint as measure_checkpoint
    from podsim.questions.operate.measure_ddp import measure_ddp as measure_ddp
    from podsim.questions.operate.measure_host import measure_host as measure_host
    from podsim.questions.operate.measure_loader import measure_loader as measure_loader
    from podsim.questions.operate.measure_ranks import measure_ranks as measure_ranks
    from podsim.questions.operate.measure_serving import measure_serving as measure_serving
    from podsim.questions.operate.measure_tables import measure_tables as measure_tables
    from podsim.questions.operate.queue import pack as pack
    from podsim.questions.operate.queue import queue as queue
    from podsim.questions.operate.validate import validate as validate
    from podsim.questions.operate.verify import verify_machine as verify_machine
    from podsim.questions.operate.why import why as why
    from podsim.questions.serve.serve import serve as serve
    from podsim.questions.train.capture import capture as capture
    from podsim.questions.train.chakra import chakra as chakra
    from podsim.questions.train.checkpoint import checkpoint as checkpoint
    from podsim.questions.train.fewest import fewest_gpus as fewest_gpus
    from podsim.questions.train.goodput import goodput as goodput
    from podsim.questions.train.graph import graph as graph
    from podsim.questions.train.launch import launch as launch
    from podsim.questions.train.plan import plan as plan
    from podsim.questions.train.plan import replay as replay
    from podsim.questions.train.predict import predict as predict
    from podsim.questions.train.schedule import schedule as schedule
    from podsim.questions.train.shard import shard as shard
    from podsim.questions.train.simulate import simulate as simulate
    from podsim.questions.train.study import study as study
    from podsim.questions.train.workers import workers as workers
    from podsim.training.plan import Plan as Plan
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
    "StudyResult": "answers.study",
    "StudyRow": "answers.study",
    "calibrate": "questions.operate.calibrate",
    "capture": "questions.train.capture",
    "chakra": "questions.train.chakra",
    "clusters": "questions.machine.show",
    "collective": "questions.machine.collective",
    "cost": "questions.machine.power",
    "compare": "questions.operate.compare",
    "diagnose": "questions.operate.diagnose",
    "emulate": "questions.operate.emulate",
    "exporter": "questions.operate.exporter",
    "fabric": "questions.machine.fabric",
    "figure": "questions.learn.figure",
    "flows": "questions.machine.flows",
    "fewest_gpus": "questions.train.fewest",
    "format": "questions.learn.format",
    "graph": "questions.train.graph",
    "checkpoint": "questions.train.checkpoint",
    "goodput": "questions.train.goodput",
    "scale_best": "questions.learn.scale_best",
    "scale_fit": "questions.learn.scale_fit",
    "scale_ladder": "questions.learn.scale_ladder",
    "scale_laws": "questions.learn.scale_loss",
    "scale_loss": "questions.learn.scale_loss",
    "kernel": "questions.machine.kernel",
    "launch": "questions.train.launch",
    "load_cluster": "hardware.cluster",
    "load_gpu": "hardware.catalog",
    "load_model": "workload.catalog",
    "mig_check": "questions.machine.mig",
    "mig_law": "questions.machine.mig",
    "mig_layouts": "questions.machine.mig",
    "mig_plan": "questions.machine.mig_plan",
    "mig_show": "questions.machine.mig",
    "mig_state": "questions.machine.mig",
    "measure_checkpoint": "questions.operate.measure_checkpoint",
    "measure_collective": "questions.operate.measure",
    "measure_loader": "questions.operate.measure_loader",
    "measure_serving": "questions.operate.measure_serving",
    "measure_ddp": "questions.operate.measure_ddp",
    "measure_ranks": "questions.operate.measure_ranks",
    "measure_host": "questions.operate.measure_host",
    "measure_tables": "questions.operate.measure_tables",
    "models": "questions.machine.show",
    "pack": "questions.operate.queue",
    "mlperf": "questions.learn.mlperf",
    "plan": "questions.train.plan",
    "power": "questions.machine.power",
    "predict": "questions.train.predict",
    "prune": "questions.learn.prune",
    "queue": "questions.operate.queue",
    "replay": "questions.train.plan",
    "scale_batch": "questions.learn.large_batch",
    "schedule": "questions.train.schedule",
    "serve": "questions.serve.serve",
    "shard": "questions.train.shard",
    "show": "questions.machine.show",
    "simulate": "questions.train.simulate",
    "storage_fail": "questions.machine.storage",
    "storage_fio": "questions.machine.storage",
    "storage_input": "questions.machine.storage_input",
    "storage_mdtest": "questions.machine.storage",
    "storage_show": "questions.machine.storage",
    "storage_size": "questions.machine.storage_size",
    "storage_validate": "questions.machine.storage_validate",
    "study": "questions.train.study",
    "train": "questions.learn.train",
    "train_precisions": "questions.learn.train_precisions",
    "validate": "questions.operate.validate",
    "verify_machine": "questions.operate.verify",
    "why": "questions.operate.why",
    "workers": "questions.train.workers",
}

__all__ = [*_PUBLIC, "__version__"]  # noqa: PLE0604 - names from the table above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `podsim --help` imports nothing heavy."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'podsim' has no attribute {name!r}")
    return getattr(import_module(f"podsim.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
