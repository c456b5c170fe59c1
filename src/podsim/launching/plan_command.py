"""The command that predicts a plan again, as a user types it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from podsim.hardware.cluster import Cluster
from podsim.options.plan_options import LayoutFields, PlanOptions, SearchOptions, TrainedFields
from podsim.options.question import options_of
from podsim.training.plan import Plan, following


def plan_command(options: PlanOptions | SearchOptions, plan: Plan, cluster: Cluster) -> str:
    """The command that predicts a plan of a job again, as a user types it."""
    fields = plan.describe()
    words = ["podsim", "predict", str(options.model), "--on", str(options.on)]
    gpus = int(plan.gpus)
    if options.gpus is not None or gpus != cluster.gpus:
        words += ["--gpus", str(gpus)]
    if options.batch is not None:
        words += ["--batch", str(plan.global_batch)]
    if options.sequence is not None:
        words += ["--sequence", str(options.sequence)]
    if options.train != "full":
        words += ["--train", options.train]
    words += ["--sparse"] if getattr(options, "sparse", False) else []
    for key, value in (options.overrides or {}).items():
        words += ["--set", f"{key}={value}"]
    return shlex.join([*words, *_flags(options, fields, cluster)])


def _flags(options: PlanOptions | SearchOptions, fields: Mapping[str, Any], cluster: Cluster) -> list[str]:
    """The flags of the fields that differ from what follows without them."""
    declared = {**options_of(LayoutFields), **options_of(TrainedFields)}
    given = PlanOptions(
        model=options.model,
        on=options.on,
        software=options.software,
        virtual_stages=fields["virtual_stages"],
    )
    defaults = following(given, cluster, int(fields["dp"]))
    flags: list[str] = []
    for name, known in declared.items():
        value, default = fields.get(name), defaults.get(name, known.default)
        if name in ("dp", "sequence") or value is None or value == default:
            continue
        if name == "software" and not options.software:
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags += [flag, str(value)]
    return flags
