"""Measurements for `podsim validate --rows` and `podsim calibrate`: tables, logs of nccl-tests, and runs of the lab.

A file of `podsim measure collective --save` gives a row for each size of the library's own collective. A file of
`podsim train --save` gives a row with its median step. `podsim compare` compares the lab's other runs and algorithms
with their predictions.
"""

from __future__ import annotations

import re
from pathlib import Path

from podsim.accuracy.measured_runs import write_settings
from podsim.accuracy.nccl_tests import gpu_name, make_rows, read_any
from podsim.accuracy.tables import Rows
from podsim.answers.lab import MeasuredCollectives
from podsim.answers.saved_run import read_run
from podsim.answers.trained import MeasuredTraining
from podsim.errors import PodsimError, TableError
from podsim.foreign_files import read_start
from podsim.hardware.catalog import load_system
from podsim.hardware.cluster_names import catalog_name, server_of
from podsim.training.software import load_software
from podsim.workload.catalog import load_specification
from podsim.workload.specification import resolve

_START = re.compile(rb'\s*\{[^\n]*"format"\s*:\s*"podsim-run"')
_HEAD = 4096
_COLLECTIVES = {"all-to-all": "alltoall", "send-recv": "sendrecv"}
"""Name of a collective in the lab -> its name in tables, if an underscore for the dash is not enough."""
_CELLS = {
    "tp": "tp", "pp": "pp", "dp": "dp", "virtual_stages": "virtual_pp", "micro_batch": "micro_batch",
    "global_batch": "global_batch", "precision": "precision", "recompute": "recompute",
}  # fmt: skip
"""Field of a plan -> its column of tables."""
_PLANNED = (*_CELLS, "zero", "shard", "sequence_parallel")
_STAGES = 4
"""The stages of ZeRO, 0 to 3."""
_SOFTWARE = "pytorch-eager"
"""The software entry of `podsim train`."""


def read_measured(path: str | Path) -> Rows:
    """Rows of a file of measurements; TableError if it holds none that fit a table."""
    path = Path(path)
    if _START.match(read_start(path, _HEAD)) is None:
        return read_any(path)

    run = read_run(path)
    if isinstance(run, MeasuredCollectives):
        return _collectives(run, path)
    if isinstance(run, MeasuredTraining):
        return _training(run, path)
    raise TableError(
        f"{path.name}: no table has rows of such a run; those of podsim measure collective and podsim train are read. "
        "podsim compare compares it with its prediction"
    )


def _collectives(run: MeasuredCollectives, path: Path) -> Rows:
    rows = [row for row in run.rows if row.algorithm == "library" and not row.wrong]
    if run.emulated is not None or not rows:
        why = (
            "ran on emulated links"
            if run.emulated is not None
            else "holds no right result of the library's own"
        )
        raise TableError(
            f"{path.name}: {why}; tables hold the library's collectives on real links (--algo library). podsim compare "
            "compares the others with their predictions"
        )
    shared = {
        "id": path.stem, "source": path.name, "gpu": gpu_name(run.device), "nodes": str(len(set(run.hosts))),
        "gpus": str(run.ranks), "algo": "auto", "proto": "auto", "confirmed": "yes",
        "collective": _COLLECTIVES.get(run.collective, run.collective.replace("-", "_")),
        "launch": "process",
    }  # fmt: skip
    return make_rows("collectives", path.stem, [
        {
            **shared, "size_bytes": f"{row.size:.0f}", "time_us": repr(1e6 * row.seconds),
            "algbw_GBps": repr(1e-9 * row.algorithm_bandwidth), "busbw_GBps": repr(1e-9 * row.bus_bandwidth),
        }
        for row in rows
    ])  # fmt: skip


def _training(run: MeasuredTraining, path: Path) -> Rows:
    if run.exchange != "bsp" or not run.sequence or run.emulated is not None:
        what = f"exchange {run.exchange}" if run.exchange != "bsp" else "a residual network"
        raise TableError(
            f"{path.name}: {'emulated links' if run.emulated is not None else what}; rows of training are of GPTs that "
            "all-reduce, on real links"
        )
    plan, device = run.plan, gpu_name(run.device)
    if lacking := [name for name in _PLANNED if name not in plan]:
        raise TableError(
            f"{path.name}: its plan lacks {', '.join(lacking)}, which every run of podsim train has"
        )
    if plan["zero"] not in range(_STAGES):
        raise TableError(f"{path.name}: zero={str(plan['zero'])[:40]}: its plan has no such stage, 0 to 3")
    server = server_of(catalog_name(device))
    memory = re.search(r"(\d{1,6})GB", device)
    cells = {column: str(plan[name]) for name, column in _CELLS.items()} | {
        "id": path.stem, "source": path.name, "year": run.started[:4], "model": run.model, "seq_len": str(run.sequence),
        "gpu": device, "gpu_mem_gb": memory[1] if memory else "", "n_gpus": str(run.ranks), "framework": _SOFTWARE,
        "step_time_s": repr(run.step_time), "confirmed": "yes", "network": _network(run),
        "cluster": f"{server}:{-(-run.ranks // load_system(server).gpus)}" if server else "",
        "plan": _plan(run) if server else "",
        "reason": "" if server else f"no server of the catalog has GPUs like {device}",
    }  # fmt: skip
    return make_rows("llm", path.stem, [cells | _shape(run)])


def _network(run: MeasuredTraining) -> str:
    """The network of a run, as read_model reads it."""
    changes = {name.removeprefix("model."): value for name, value in run.changes.items()}
    return write_settings(run.model, {**changes, "sequence": run.sequence})


def _plan(run: MeasuredTraining) -> str:
    """The plan of a run with what its software does by itself, as read_plan reads it."""
    plan, software = run.plan, load_software(_SOFTWARE)
    splits = int(plan["tp"]) > 1
    settings = {
        **{name: plan[name] for name in _PLANNED}, "shard": plan["shard"] if plan["zero"] else 0,
        "sequence_parallel": splits and plan["sequence_parallel"], "sequence": run.sequence,
        "schedule": "interleaved" if int(plan["virtual_stages"]) > 1 else "1f1b", "software": _SOFTWARE,
        "flash": "flash" not in software.lacks, "overlap_tp": splits and software.overlaps_tp,
        "overlap_grad": "overlap_grad" in software.can_overlap, "overlap_param": "overlap_param" in software.can_overlap,
    }  # fmt: skip
    return write_settings("", {k: str(v).lower() if isinstance(v, bool) else v for k, v in settings.items()})


def _shape(run: MeasuredTraining) -> dict[str, str]:
    """The widths of a changed catalog network, by column; empty if it is unchanged or unknown."""
    changes = {name.removeprefix("model."): value for name, value in run.changes.items()}
    if not changes:
        return {}
    try:
        network = resolve(load_specification(run.model, changes))
    except PodsimError:
        return {}
    names = {"layers": "layers", "hidden": "hidden", "heads": "heads", "kv_heads": "kv_heads", "ffn_hidden": "ffn",
             "vocab": "vocab"}  # fmt: skip
    return {column: str(getattr(network, name)) for column, name in names.items()}
