"""The command that asks podsim for what `validate` compares with a row, and that figure in its answer."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner

from podsim.accuracy.kernel_case import OPERATIONS
from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_settings
from podsim.accuracy.price_collectives import read_call
from podsim.accuracy.price_engines import engine_gpu, engine_run
from podsim.accuracy.price_inference import is_inference
from podsim.accuracy.price_llm import training_run
from podsim.cli import app
from podsim.graphs.recommender import tables_of
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import PRECISIONS
from podsim.kernels.gemm import peak_of
from podsim.options.plan_options import PlanOptions
from podsim.training.plan import plan_command
from podsim.workload.convolution import CONVOLUTIONAL

_LARGEST_SERVED = 65_536
"""samples of a batch that serve takes"""
_OF_ENGINES = ("fp8", "int8")
"""formats whose products are timed in an engine"""
_SHAPES = {
    "gemm": ("m", "n", "k"), "attention": ("batch_size", "isl"), "mla": ("batch_size", "isl"),
    "decode": ("batch_size", "step"), "mla-decode": ("batch_size", "step"), "moe": ("num_tokens",),
}  # fmt: skip
"""kernel -> the columns of its shape"""
_FLAGS = {
    "heads": "num_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "window": "window_size",
    "hidden": "hidden_size", "inner": "inter_size", "top": "topk", "experts": "num_experts", "tp": "moe_tp_size",
    "ep": "moe_ep_size",
}  # fmt: skip
"""flag of `podsim kernel` -> its column"""


def row_command(kind: str, row: Mapping[str, str]) -> str:
    """The command that predicts a row of a kind of table; NotExpressible if there is none."""
    if reason := cell_text(row, "reason"):
        raise NotExpressible(reason)
    return _COMMANDS[kind](row)


def answer_of(command: str) -> dict[str, Any]:
    """The answer of a command, run in this process."""
    result = CliRunner().invoke(app, [*shlex.split(command)[1:], "--json"])
    assert result.stdout, (command, result.output)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def answered(kind: str, what: str, row: Mapping[str, str], answer: Mapping[str, Any]) -> float:
    """The row's quantity in the answer of its command."""
    if kind == "llm":
        return _trained(what, row, answer)
    if kind in ("vision", "mlperf"):
        if is_inference(row):
            return float(answer["rows"][0]["throughput"])
        rate = (answer["data_parallel"] or answer)["samples_per_second"]
        return float(rate) * float(read_settings(row["plan"])[1]["items"])
    if kind == "collectives":
        return float(answer["rows"][0]["seconds"])
    seconds = float((answer["rows"][0]["run"] if kind == "minutes" else answer)["seconds"])
    if kind == "kernels" and what == "FLOP/s per GPU":
        return 2.0 * float(row["m"]) * float(row["n"]) * float(row["k"]) / seconds
    return seconds


def _trained(what: str, row: Mapping[str, str], answer: Mapping[str, Any]) -> float:
    if what == "tokens/s per GPU":
        return float(answer["tokens_per_second"]) / float(answer["gpus"])
    if what == "FLOP/s per GPU":
        run = training_run(row)
        peak = run.cluster.gpu.peaks[PRECISIONS[run.plan.precision].matmul]
        is_hardware = bool(cell_text(row, "hfu")) and not cell_text(row, "mfu")
        return float(answer["hfu" if is_hardware else "mfu"]) * peak
    return float(answer["step_time"])


def _command(*words: object, changes: Mapping[str, str] | None = None, **flags: object) -> str:
    """A command with its flags; those that are blank are left out."""
    given = [
        (f"--{name.replace('_', '-')}", str(value))
        for name, value in flags.items()
        if value not in ("", None)
    ]
    given += [("--set", f"{name}={value}") for name, value in (changes or {}).items()]
    return shlex.join(["podsim", *map(str, words), *(word for pair in given for word in pair)])


def _training_command(row: Mapping[str, str]) -> str:
    run = training_run(row)
    if run.layer_only:
        raise NotExpressible("one layer was measured, not a step")
    (model, sizes), (on, changes) = read_settings(row["network"]), read_settings(row["cluster"])
    options = PlanOptions(
        model=model, on=on, gpus=int(run.plan.gpus), batch=str(run.plan.global_batch), sequence=run.plan.sequence,
        software=run.plan.software, overrides={f"model.{name}": value for name, value in sizes.items()} | changes,
    )  # fmt: skip
    return plan_command(options, run.plan, run.cluster)


def _network_command(row: Mapping[str, str]) -> str:
    on, changes = read_settings(row["cluster"])
    _, plan = read_settings(row["plan"])
    if is_inference(row):
        return _served_command(row, on, plan)
    if plan["accumulate"] != "1":
        raise NotExpressible("accumulated micro-batches of a network are no option of graph")
    layout = "channels-first" if plan["channels_first"] == "true" else ""
    given = {name: plan[name] for name in ("gpus", "batch", "precision", "fuse", "optimizer", "software")}
    return _command("graph", row["network"], on=on, **given, layout=layout, changes=changes)


def _served_command(row: Mapping[str, str], on: str, plan: Mapping[str, str]) -> str:
    if plan["concurrency"] != "1" or int(plan["batch"]) > _LARGEST_SERVED:
        raise NotExpressible("concurrent requests, and batches so large, are no options of serve")
    if row["network"] in CONVOLUTIONAL:
        raise NotExpressible("serve answers for this network by the law of its own engines")
    gpu = load_gpu(on.partition("/")[0])
    peak_of(gpu, plan["precision"])  # serve refuses int8 on a V100
    if tables_of(row["network"]) is not None and gpu.memory < 20e9:
        raise NotExpressible("serve adds the lookups of tables in host memory")
    where = on if plan["gpus"] == "1" else f"{plan['gpus']}x{on}"
    return _command(
        "serve", row["network"], on=where, batch=plan["batch"], precision=plan["precision"], engine=plan["engine"]
    )  # fmt: skip


def _collective_command(row: Mapping[str, str]) -> str:
    call = read_call(row)
    if isinstance(call, str):
        raise NotExpressible(call)
    if call.gpus != call.nodes * min(call.gpus, call.cluster.gpus_per_node):
        raise NotExpressible("ranks that leave GPUs of their nodes idle are no option of collective")
    if call.cluster.system.topology == "nvlink" and cell_text(row, "in_switch") == "no":
        raise NotExpressible("NVSwitches that do not reduce are no option of collective")
    on, changes = read_settings(cell_text(row, "cluster"))
    settings = call.settings
    is_reducing = settings.sharp and settings.assumed(call.cluster).network == "infiniband"
    return _command(
        "collective", call.collective.replace("_", "-"), *(["--sharp"] if is_reducing else []), on=on, ranks=call.gpus,
        sizes=f"{call.size:.0f}", launch=settings.launch, nccl=settings.release, algo=settings.algorithm,
        proto=settings.protocol, changes=changes,
    )  # fmt: skip


def _minutes_command(row: Mapping[str, str]) -> str:
    given = {"benchmark": row["benchmark"], "gpus": row["n_accelerators"], "batch": row["global_batch"],
             "framework": row["framework"]}  # fmt: skip
    on, changes = read_settings(cell_text(row, "cluster") or f"{row['n_accelerators']}x{row['accelerator']}")
    return _command("mlperf", row["version"], on=on, **given, changes=changes)


def _engine_command(row: Mapping[str, str]) -> str:
    name = next((name for name, known in OPERATIONS.items() if row["op_name"] in known), "")
    if not name:
        raise NotExpressible(f"no command times one {row['op_name']} of an engine")
    run = engine_run(row)
    sides = [
        int(float(row[column])) + ("decode" in name and column == "step")  # a prompt's token, then the steps
        for column in _SHAPES[name]
    ]
    skew = cell_text(row, "distribution").removeprefix("power_law_").replace("balanced", "")
    return _command(
        "kernel", name, "x".join(map(str, sides)), on=engine_gpu(row["device"]).name, engine=run.engine,
        release=run.release, source=run.kernel, dtype=run.precision, cache=run.cache, skew=skew,
        **{flag: cell_text(row, column) for flag, column in _FLAGS.items()},
    )  # fmt: skip


def _kernel_command(row: Mapping[str, str]) -> str:
    if row["kernel"] != "gemm" or cell_text(row, "batch") not in ("", "1") or cell_text(row, "accumulate"):
        raise NotExpressible("no command times this kernel of a library")
    clock = cell_text(row, "clock")
    return _command(
        "kernel", "gemm", "x".join((row["m"], row["n"], row["k"])), on=row["device"], dtype=row["precision"],
        engine="trtllm" if row["precision"] in _OF_ENGINES else "", changes={"gpu.clock": clock} if clock else {},
    )  # fmt: skip


_COMMANDS = {
    "llm": _training_command, "vision": _network_command, "mlperf": _network_command, "minutes": _minutes_command,
    "collectives": _collective_command, "engines": _engine_command, "kernels": _kernel_command,
}  # fmt: skip
"""kind of table -> what makes the command of a row"""
KINDS = tuple(_COMMANDS)
