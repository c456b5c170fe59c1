"""`podsim launch`: what one runs to start a plan, and the plan of what others run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from podsim.errors import PlanError, PodsimError, unknown_name
from podsim.hardware.cluster import load_cluster
from podsim.launching.job import GIVE_GPUS, IMAGE, Job, Reading
from podsim.results.launched import PlanRead, Recipe
from podsim.training.inputs import split_overrides
from podsim.training.plan import Plan
from podsim.training.plan_inputs import LayoutOptions, read_plan
from podsim.units import parse_quantity
from podsim.verbs.predict import describe
from podsim.workload.catalog import load_model
from podsim.workload.graph import Model
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build


def launch(
    model: str = "",
    *,
    on: str = "",
    tool: str = "",
    read: str = "",
    software: str | None = None,
    image: str | None = None,
    mount: Sequence[str] = (),
    partition: str = "",
    time_limit: str = "1 d",
    **options: Unpack[LayoutOptions],
) -> Recipe | PlanRead:
    """What starts a plan of a model on a cluster with a tool; or, with `read`, the plan of a file that others run.

    `tool` is megatron (default), torchtitan, deepspeed, torchrun, slurm or kubernetes. The plan's arguments are those of
    `predict`; `software` is by default the tool's own era, and `torchrun`, `slurm` and `kubernetes` start torchtitan if
    it is one of torchtitan's, else Megatron-LM. `image` (empty for none), `mount`, `partition` and `time_limit` are for
    schedulers. `read` names a file, or "-" for standard input; what is read may need `gpus`, `model` or `sequence`, and
    is predicted if `on` names a cluster. Raises PlanError with everything that the tool cannot run, or that a file
    contradicts itself in, and PodsimError for anything unusable.
    """
    if read:
        wrong = [
            f"--{name.replace('_', '-')}"
            for name, plain in _OF_THE_FILE.items()
            if _said(options, name) != plain
        ]
        if wrong:
            raise PodsimError(f"--read takes the plan from the file; leave out {', '.join(wrong)}")
        given = (options.get("gpus"), options.get("sequence"), software, options.get("overrides"))
        return _read(model, read, on, tool, *given)
    if not model or not on:
        raise PodsimError("give MODEL and --on CLUSTER to write a launch file, or --read FILE to read one")
    wishes = {"image": image, "mounts": tuple(mount), "partition": partition, "limit": time_limit}
    return _write(model, on, tool or "megatron", software, options, wishes)


_OF_THE_FILE = {"tp": 1, "pp": 1, "dp": 1, "cp": 1, "ep": 1, "zero": 0, "micro_batch": 1}
"""what a file that is read says itself, and its value where the user said nothing"""


def _said(options: LayoutOptions, name: str) -> object:
    """What the user gave; no number of replicas is one."""
    given = options.get(name, _OF_THE_FILE[name])
    return given or 1 if name == "dp" else given


def _write(
    model: str, on: str, tool: str, software: str | None, options: LayoutOptions, wishes: dict[str, Any]
) -> Recipe:
    from podsim.launching.tools import TOOLS, emit

    if tool not in TOOLS:
        raise PodsimError(unknown_name("tool", tool, TOOLS))
    limit = _limit(wishes["limit"])
    mounts = _mounts(wishes["mounts"])
    if tool == "deepspeed" and options.get("overlap_param") is None:
        options = {**options, "overlap_param": options.get("zero", 0) == 3}
    network, cluster, plan, _ = read_plan(model, on=on, software=software or TOOLS[tool].eras[0], **options)
    image = IMAGE if wishes["image"] is None else wishes["image"]
    if any(c.isspace() or not c.isprintable() for c in image):
        raise PodsimError(f"image {image[:80]!r}: an image is named without spaces: REGISTRY#IMAGE:TAG")
    job = Job(
        model=network, cluster=cluster.subset(int(plan.gpus)), plan=plan, image=image, mounts=mounts,
        partition=wishes["partition"], limit=limit,
    )  # fmt: skip
    return emit(job, tool)


def _limit(text: str) -> float:
    limit = parse_quantity(text, "s", what="time limit")
    if not 60 <= limit <= 366 * 86400:
        raise PodsimError(f"time limit {text[:40]!r}: a job has 1 min to 366 d")
    return limit


def _mounts(mounts: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [
        m
        for m in mounts
        if not all(part.startswith("/") for part in m.split(":")[:2]) or m.count(":") not in (1, 2)
    ]
    if wrong:
        raise PodsimError(f"mount {wrong[0][:80]!r}: expected /SOURCE:/TARGET")
    if odd := [m for m in mounts if "," in m or not m.isprintable()]:
        raise PodsimError(f"mount {odd[0][:80]!r}: a comma or a line break cannot be mounted")
    return mounts


def _read(
    model: str, path: str, on: str, tool: str, gpus: int | None, sequence: int | None, software: str | None,
    overrides: Mapping[str, str] | None,
) -> PlanRead:  # fmt: skip

    if gpus is not None and gpus < 1:
        raise PodsimError(f"gpus={gpus}: a job has 1 GPU or more")
    text = _text(path)
    if not on:
        network = _named(model, sequence, overrides) if model else None
        reading = _reading(text, path, tool, gpus, network, sequence)
        _agree(reading, network)
        return _result(PlanRead, reading, network, software)
    return _predicted(model, text, path, on, tool, gpus, sequence, software, overrides)


def _predicted(
    model: str, text: str, path: str, on: str, tool: str, gpus: int | None, sequence: int | None,
    software: str | None, overrides: Mapping[str, str] | None,
) -> PlanRead:  # fmt: skip

    cluster = load_cluster(on, split_overrides(overrides)[1])
    network = _named(model, sequence, overrides) if model else None
    try:
        reading = _reading(text, path, tool, gpus, network, sequence)
    except PlanError as error:
        if gpus is not None or not any(GIVE_GPUS in problem for problem in error.problems):
            raise
        reading = _reading(text, path, tool, cluster.gpus, network, sequence)
    _agree(reading, network)
    network = network or (
        _named(reading.named, sequence, overrides) if reading.named else _built(reading, path)
    )
    plan = _plan(reading, network, software)
    part = cluster.subset(reading.gpus)
    problems = plan.problems(network, part)
    if problems:
        raise PlanError(problems)
    return replace(_result(PlanRead, reading, network, software), prediction=describe(network, part, plan))


def _named(model: str, sequence: int | None, overrides: Mapping[str, str] | None) -> Model:
    wanted = split_overrides(overrides)[0] | ({"sequence": str(sequence)} if sequence is not None else {})
    return load_model(model, wanted)


def _reading(
    text: str, path: str, tool: str, gpus: int | None, network: Model | None, sequence: int | None
) -> Reading:
    """What the text says; problems begin with the name of the file."""
    from podsim.launching.tools import read

    layers = network.layer_count if network else 0
    length = sequence or (network.sequence if network else 0)
    name = "standard input" if path == "-" else path[-200:]
    try:
        return read(text, tool=tool, gpus=gpus, layers=layers, sequence=length)
    except PlanError as error:
        raise PlanError([f"{name}: {problem}" for problem in error.problems]) from None
    except PodsimError as error:
        raise PodsimError(f"{name}: {error}") from None


def _agree(reading: Reading, network: Model | None) -> None:
    """Raise PlanError where a command gives another shape than the model that is named."""
    if network is None:
        return
    ours = {"layers": network.layer_count, "hidden": network.hidden}
    wrong = [
        f"the file has {name}={reading.model[name]}, but {network.name} has {value}; leave MODEL out, or name another"
        for name, value in ours.items()
        if name in reading.model and reading.model[name] != value
    ]
    if wrong:
        raise PlanError(wrong)


def _built(reading: Reading, path: str) -> Model:
    if not reading.model:
        raise PodsimError("the file does not give the shape of the model; give MODEL as well")
    return build(Transformer(name="model of the command", source=path, **reading.model))  # type: ignore[arg-type]


def _plan(reading: Reading, network: Model | None, software: str | None) -> Plan:
    changes: dict[str, Any] = {"software": software} if software else {}
    if network is not None and not reading.plan.sequence:
        changes["sequence"] = network.sequence
    return reading.plan.having(changes)


def _result(kind: type[PlanRead], reading: Reading, network: Model | None, software: str | None) -> PlanRead:
    return kind(
        tool=reading.tool, gpus=reading.gpus, plan=_plan(reading, network, software).describe(), shape=reading.model,
        ignored=reading.ignored, assumptions=reading.assumptions,
    )  # fmt: skip


def _text(path: str) -> str:
    """Text of a file or of standard input, at most a mebibyte."""
    from podsim.launching.tools import LARGEST

    name = "standard input" if path == "-" else path[-200:]
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(LARGEST + 1)
        else:
            file = Path(path)
            if not file.is_file():
                raise PodsimError(f"{name}: no such file; give a file to read, or - for standard input")
            with file.open("rb") as opened:
                raw = opened.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise PodsimError(f"{name}: larger than 1 MiB, so it starts no training")
        return raw.decode("utf-8")
    except PodsimError:
        raise
    except UnicodeDecodeError as error:
        raise PodsimError(f"{name} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except (OSError, ValueError) as error:
        raise PodsimError(f"{name}: {getattr(error, 'strerror', None) or error}") from None
