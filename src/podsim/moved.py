"""Old places of names that the documents of version 0.1 imported: they still work, with a warning.

Importing this module is what makes them work.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_TABLE_NAMES = ("bubble", "build", "check_schedule", "held", "play_table", "unit_seconds")
MOVED: dict[str, dict[str, str]] = {
    "podsim.lab.checkpoints": dict.fromkeys(("opened", "saving"), "podsim.lab.checkpoint_files"),
    "podsim.training.schedules": dict.fromkeys(_TABLE_NAMES, "podsim.schedules"),
    "podsim.verbs.tables_networks": {"price_networks": "podsim.accuracy.price_networks"},
    "podsim.verify": {
        "compare_steps": "podsim.timeline.kineto_compare",
        "read_kineto": "podsim.timeline.kineto",
    },
    "podsim.verify.tables": {"load": "podsim.accuracy.tables"},
}
"""An old module -> its names -> the module that has each of them now."""


class _OldModule(ModuleType):
    """An old place of names."""

    def __getattr__(self, name: str) -> Any:
        home = MOVED[self.__name__].get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        warnings.warn(f"{self.__name__}.{name} is now {home}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)


sys.modules.update(zip(MOVED, map(_OldModule, MOVED), strict=True))


class _Alias(MetaPathFinder, Loader):
    """Imports a package under its old name while its users are moved."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module under an old name."""
        return ModuleSpec(name, self) if any(name == old or name.startswith(old + ".") for old in ALIASES) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        return import_module(new_name(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """The module is made already."""


ALIASES: dict[str, str] = {
    "podsim.verbs.collective_against": "podsim.questions.machine.collective_against",
    "podsim.verbs.measure_checkpoint": "podsim.questions.operate.measure_checkpoint",
    "podsim.verbs.storage_validate": "podsim.questions.machine.storage_validate",
    "podsim.verbs.train_precisions": "podsim.questions.learn.train_precisions",
    "podsim.verbs.network_answers": "podsim.questions.train.network_answers",
    "podsim.verbs.measure_serving": "podsim.questions.operate.measure_serving",
    "podsim.verbs.serve_captured": "podsim.questions.serve.serve_captured",
    "podsim.verbs.serve_ensemble": "podsim.questions.serve.serve_ensemble",
    "podsim.verbs.serve_measured": "podsim.questions.serve.serve_measured",
    "podsim.verbs.serve_scenario": "podsim.questions.serve.serve_scenario",
    "podsim.verbs.measure_loader": "podsim.questions.operate.measure_loader",
    "podsim.verbs.measure_tables": "podsim.questions.operate.measure_tables",
    "podsim.verbs.measured_rows": "podsim.questions.train.measured_rows",
    "podsim.verbs.storage_input": "podsim.questions.machine.storage_input",
    "podsim.verbs.serve_batches": "podsim.questions.serve.serve_batches",
    "podsim.verbs.serve_network": "podsim.questions.serve.serve_network",
    "podsim.verbs.serve_streams": "podsim.questions.serve.serve_streams",
    "podsim.verbs.measure_ranks": "podsim.questions.operate.measure_ranks",
    "podsim.verbs.storage_size": "podsim.questions.machine.storage_size",
    "podsim.verbs.serve_launch": "podsim.questions.serve.serve_launch",
    "podsim.verbs.serve_static": "podsim.questions.serve.serve_static",
    "podsim.verbs.serving_kind": "podsim.questions.serve.serving_kind",
    "podsim.verbs.scale_ladder": "podsim.questions.learn.scale_ladder",
    "podsim.verbs.format_trade": "podsim.questions.learn.format_trade",
    "podsim.verbs.measure_host": "podsim.questions.operate.measure_host",
    "podsim.verbs.plan_target": "podsim.questions.train.plan_target",
    "podsim.verbs.sparse_step": "podsim.questions.train.sparse_step",
    "podsim.verbs.load_inputs": "podsim.questions.serve.load_inputs",
    "podsim.verbs.large_batch": "podsim.questions.learn.large_batch",
    "podsim.verbs.measure_ddp": "podsim.questions.operate.measure_ddp",
    "podsim.verbs.plan_trade": "podsim.questions.train.plan_trade",
    "podsim.verbs.study_rows": "podsim.questions.train.study_rows",
    "podsim.verbs.checkpoint": "podsim.questions.train.checkpoint",
    "podsim.verbs.collective": "podsim.questions.machine.collective",
    "podsim.verbs.serve_best": "podsim.questions.serve.serve_best",
    "podsim.verbs.serve_load": "podsim.questions.serve.serve_load",
    "podsim.verbs.scale_best": "podsim.questions.learn.scale_best",
    "podsim.verbs.scale_loss": "podsim.questions.learn.scale_loss",
    "podsim.verbs.whole_run": "podsim.questions.train.whole_run",
    "podsim.verbs.scale_fit": "podsim.questions.learn.scale_fit",
    "podsim.verbs.loss_time": "podsim.questions.learn.loss_time",
    "podsim.verbs.calibrate": "podsim.questions.operate.calibrate",
    "podsim.verbs.simulate": "podsim.questions.train.simulate",
    "podsim.verbs.schedule": "podsim.questions.train.schedule",
    "podsim.verbs.mig_plan": "podsim.questions.machine.mig_plan",
    "podsim.verbs.exporter": "podsim.questions.operate.exporter",
    "podsim.verbs.diagnose": "podsim.questions.operate.diagnose",
    "podsim.verbs.validate": "podsim.questions.operate.validate",
    "podsim.verbs.predict": "podsim.questions.train.predict",
    "podsim.verbs.workers": "podsim.questions.train.workers",
    "podsim.verbs.capture": "podsim.questions.train.capture",
    "podsim.verbs.goodput": "podsim.questions.train.goodput",
    "podsim.verbs.storage": "podsim.questions.machine.storage",
    "podsim.verbs.compare": "podsim.questions.operate.compare",
    "podsim.verbs.measure": "podsim.questions.operate.measure",
    "podsim.verbs.emulate": "podsim.questions.operate.emulate",
    "podsim.verbs.fewest": "podsim.questions.train.fewest",
    "podsim.verbs.launch": "podsim.questions.train.launch",
    "podsim.verbs.chakra": "podsim.questions.train.chakra",
    "podsim.verbs.fabric": "podsim.questions.machine.fabric",
    "podsim.verbs.kernel": "podsim.questions.machine.kernel",
    "podsim.verbs.mlperf": "podsim.questions.learn.mlperf",
    "podsim.verbs.figure": "podsim.questions.learn.figure",
    "podsim.verbs.format": "podsim.questions.learn.format",
    "podsim.verbs.verify": "podsim.questions.operate.verify",
    "podsim.verbs.study": "podsim.questions.train.study",
    "podsim.verbs.graph": "podsim.questions.train.graph",
    "podsim.verbs.shard": "podsim.questions.train.shard",
    "podsim.verbs.flows": "podsim.questions.machine.flows",
    "podsim.verbs.power": "podsim.questions.machine.power",
    "podsim.verbs.serve": "podsim.questions.serve.serve",
    "podsim.verbs.prune": "podsim.questions.learn.prune",
    "podsim.verbs.train": "podsim.questions.learn.train",
    "podsim.verbs.queue": "podsim.questions.operate.queue",
    "podsim.verbs.plan": "podsim.questions.train.plan",
    "podsim.verbs.jobs": "podsim.questions.train.jobs",
    "podsim.verbs.save": "podsim.questions.train.save",
    "podsim.verbs.show": "podsim.questions.machine.show",
    "podsim.verbs.mig": "podsim.questions.machine.mig",
    "podsim.verbs.why": "podsim.questions.operate.why",
    "podsim.verbs": "podsim.questions",
}


def new_name(name: str) -> str:
    """The name of a module now."""
    old = next(old for old in ALIASES if name == old or name.startswith(old + "."))
    return ALIASES[old] + name.removeprefix(old)


sys.meta_path.insert(0, _Alias())
