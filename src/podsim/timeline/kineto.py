"""Steps of a real run, from a profile of torch.profiler: seconds by kind of op, hidden time and idle time.

Names give the kind of an op (`kineto_kinds`). The call that launched an op gives its step and its phase: backward if
autograd launched it (one of its functions, or its thread), optimizer if Optimizer.step did.

Known error: files that count microseconds since 1970 resolve times to a quarter of a microsecond only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from podsim.answers.measured import KindTime, MeasuredStep
from podsim.answers.timeline import Lane, Timeline
from podsim.axes import Floats, Ints
from podsim.errors import TimelineError
from podsim.options.question import Progress
from podsim.timeline.kineto_kinds import ARITHMETIC, COLLECTIVES, kind_of, parallelism_of
from podsim.timeline.kineto_read import Profile, Work, read_profile
from podsim.timeline.spans import covered_seconds, uncovered_seconds

_NONE: Floats = np.zeros((0, 2))
_UNKNOWN = 0.05
"""the share of the time above which kernels with unknown names cause a warning"""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Steps:
    names: tuple[str, ...]
    of: Ints
    """The position of the step of each op; -1 if it belongs to none."""
    start: Floats
    end: Floats


def read_kineto(
    path: str | Path,
    *,
    step: int | None = None,
    cpu: bool = False,
    progress: Progress | None = None,
) -> MeasuredStep:
    """The steps of a profile, or step number `step` alone; figures are means over them.

    The last step ends with the recording, so the idle time after it is unknown. It is left out if there are other steps.

    A trace without work on a GPU is refused, unless `cpu` asks for the outermost ops of its threads instead. `progress`
    gets (characters read, of all). Raises TimelineError on a file that is truncated, of another kind, or without the
    step asked for.
    """
    name = Path(path).name
    profile = read_profile(path, progress)
    work = profile.work or (_outermost(profile.ops) if cpu else [])
    if not work:
        raise TimelineError(_no_kernel_text(name, profile))
    warnings: list[str] = []
    steps = _steps(name, profile, work, step, warnings)
    chosen = np.flatnonzero(steps.of >= 0)
    timeline, groups = _timeline(
        profile, [work[k] for k in chosen.tolist()], steps.of[chosen], float(steps.start[0])
    )
    lengths = steps.end - steps.start
    return _make_step(name, profile, steps, lengths, timeline, groups, warnings)


def _no_kernel_text(name: str, profile: Profile) -> str:
    if profile.ops:
        return (
            f"{name}: {len(profile.ops):,} ops of the CPU and no GPU kernel; profile on a GPU with activities=[CPU, "
            "CUDA], or read it as a trace of the CPU (cpu=True)"
        )
    return (
        f"{name}: no GPU kernel among {profile.events:,} events; expected a profile of PyTorch, as export_chrome_trace "
        "writes it"
    )


def _outermost(ops: Sequence[Work]) -> list[Work]:
    """CPU ops that are in no other op of their thread; the ops inside autograd's frames count instead of the frames."""
    kept: list[Work] = []
    until: dict[int, float] = {}
    for op in sorted(ops, key=lambda op: (op.start, -op.end)):
        if op.name.startswith(("autograd::", "torch::autograd")) or op.end <= until.get(op.stream, -np.inf):
            continue
        kept.append(op)
        until[op.stream] = op.end
    return kept


def _steps(
    name: str, profile: Profile, work: Sequence[Work], wanted: int | None, warnings: list[str]
) -> _Steps:
    """The steps to read, and the ops of each."""
    ranges = profile.steps or profile.gpu_steps
    known = sorted(ranges, key=lambda step: ranges[step][0])
    start = np.array([op.start for op in work])
    end = np.array([op.end for op in work])
    if not known:
        if wanted is not None:
            raise TimelineError(
                f"{name}: no step {wanted}: the profile names no step; call profiler.step() in the loop"
            )
        warnings.append("the profile names no step (ProfilerStep#N): all of it is taken as one")
        of = np.zeros(len(work), dtype=np.int64)
        return _Steps(
            names=("whole trace",), of=of, start=start.min(keepdims=True), end=end.max(keepdims=True)
        )
    edges = np.array([ranges[step] for step in known])
    when, exact = _launch_seconds(profile, work, start)
    step_of_op = np.searchsorted(edges[:, 0], when, side="right") - 1
    step_of_op[(step_of_op < 0) | (exact & (when > edges[np.clip(step_of_op, 0, None), 1]))] = -1
    return _bounds(name, known, edges, step_of_op, start, end, wanted, cpu=not profile.work)


def _launch_seconds(
    profile: Profile, work: Sequence[Work], start: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """s. The launch time of each op, or its start where the file has no launch; and whether that time is exact."""
    if not profile.steps:
        return start, np.ones(len(work), dtype=bool)
    launches = [profile.launches.get(op.correlation) for op in work]
    times = np.array(
        [launch[0] if launch else begins for launch, begins in zip(launches, start.tolist(), strict=True)]
    )
    return times, np.array([launch is not None for launch in launches]) | (not profile.work)


def _bounds(
    name: str,
    known: list[str],
    edges: Floats,
    step_of_op: Ints,
    start: Floats,
    end: Floats,
    wanted: int | None,
    *,
    cpu: bool,
) -> _Steps:
    """Each step, from its first op to the first op of the next: complete steps if there are any, or the requested step.

    The last step of a file ends with its last op, or is as long as its range on the CPU.
    """
    filled = [k for k in range(len(known)) if np.any(step_of_op == k)]
    if not filled:
        raise TimelineError(f"{name}: none of its {len(known)} steps has an op; profile with CUDA activities")
    first = {k: float(start[step_of_op == k].min()) for k in filled}
    last = {k: float(end[step_of_op == k].max()) for k in filled}
    if cpu:
        first = {k: float(edges[k, 0]) for k in filled}
    complete = [k for k in filled if k + 1 in first and _number(known[k + 1]) == _number(known[k]) + 1]
    ends = {k: max(last[k], first[k] + float(edges[k, 1] - edges[k, 0])) for k in filled}
    ends |= {k: first[k + 1] for k in complete}
    taken = filled if cpu or not complete else complete
    if wanted is not None:
        taken = [k for k in filled if _number(known[k]) == wanted]
        if not taken:
            there = ", ".join(str(_number(known[k])) for k in filled)
            raise TimelineError(f"{name}: no step {wanted}; it holds steps {there}")
    new = np.full(len(known) + 1, -1, dtype=np.int64)
    new[taken] = np.arange(len(taken))
    return _Steps(
        names=tuple(known[k] for k in taken), of=new[step_of_op], start=np.array([first[k] for k in taken]),
        end=np.array([ends[k] for k in taken]),
    )  # fmt: skip


def _number(step: str) -> int:
    digits = re.search(r"\d+", step)
    return int(digits[0]) if digits else -1


def _timeline(profile: Profile, work: Sequence[Work], step: Ints, zero: float) -> tuple[Timeline, list[str]]:
    """The ops, on one lane per stream, and the group of each op."""
    where = [(op.device, op.stream) for op in work]
    lanes = {key: index for index, key in enumerate(sorted(set(where)))}
    cpu = not profile.work
    names = {name: index for index, name in enumerate(dict.fromkeys(op.name for op in work))}
    kind = [kind_of(op.name, str(op.arguments.get("Collective name", ""))) for op in work]
    kinds = {label: index for index, label in enumerate(dict.fromkeys(kind))}
    groups = _groups(profile, work, kind)
    start = np.array([op.start for op in work]) - zero
    timeline = Timeline(
        lanes=tuple(
            Lane(process="CPU" if cpu else f"GPU {device}", name=f"{'thread' if cpu else 'stream'} {stream}")
            for device, stream in lanes
        ),
        names=tuple(names), kinds=tuple(kinds), lane=np.array([lanes[key] for key in where], dtype=np.int64),
        name=np.array([names[op.name] for op in work], dtype=np.int64),
        kind=np.array([kinds[label] for label in kind], dtype=np.int64),
        start=start, end=np.maximum(np.array([op.end for op in work]) - zero, start),
        arguments={"group": np.array(groups), "step": step},
    )  # fmt: skip
    return timeline, groups


def _groups(profile: Profile, work: Sequence[Work], kinds: Sequence[str]) -> list[str]:
    """The group of each op: forward, backward, optimizer or compute; the parallelism of communication; or copy."""
    steps = _merge_ranges(profile.optimizer)
    backward = {thread: _merge_ranges(ranges) for thread, ranges in profile.backward.items()}
    alone = set(backward) - profile.main
    groups = []
    for op, kind in zip(work, kinds, strict=True):
        launch = profile.launches.get(op.correlation) if profile.work else (op.start, op.stream)
        if kind in COLLECTIVES:
            groups.append(parallelism_of(kind, op.arguments))
        elif kind not in ARITHMETIC:
            groups.append("copy")
        elif kind == "optimizer" or (launch is not None and _is_inside(steps, launch[0])):
            groups.append("optimizer")
        elif launch is None or not backward:
            groups.append("compute")
        else:
            ours = launch[1] in alone or _is_inside(backward.get(launch[1], _NONE), launch[0])
            groups.append("backward" if ours else "forward")
    return groups


def _merge_ranges(ranges: Sequence[tuple[float, float]]) -> Floats:
    """Ranges in order, without those inside others, [ranges, 2]."""
    held: list[tuple[float, float]] = []
    for start, end in sorted(ranges):
        if not held or end > held[-1][1]:
            held.append((start, end))
    return np.array(held).reshape(-1, 2)


def _is_inside(ranges: Floats, time: float) -> bool:
    last = int(np.searchsorted(ranges[:, 0], time, side="right")) - 1
    return last >= 0 and time <= float(ranges[last, 1])


def _make_step(
    name: str,
    profile: Profile,
    steps: _Steps,
    lengths: Floats,
    timeline: Timeline,
    groups: list[str],
    warnings: list[str],
) -> MeasuredStep:
    kinds = np.array([timeline.kinds[k] for k in timeline.kind.tolist()])
    arithmetic = np.isin(kinds, sorted(ARITHMETIC))
    talks = np.isin(kinds, sorted(COLLECTIVES))
    many = len(lengths)
    start, end = timeline.start, timeline.end
    if not profile.work:
        warnings.append("a trace of the CPU alone: times are of its ops, nothing ran on a GPU")
    unknown = float((end - start)[kinds == "other"].sum())
    if unknown > _UNKNOWN * float((end - start).sum()):
        odd = sorted({timeline.names[k] for k in timeline.name[kinds == "other"].tolist()})[:3]
        share = unknown / float((end - start).sum())
        text = f"no rule of names knows kernels of {share * 100:.0f} % of the busy time: {', '.join(odd)}"
        warnings.append(text)
    return MeasuredStep(
        source=name, device=_device(profile), rank=profile.whole("rank", 0),
        ranks=profile.whole("world_size", 1), steps=steps.names,
        step_times=tuple(lengths.tolist()), step_time=float(lengths.mean()),
        kinds=_kinds(timeline, kinds, np.array(groups), arithmetic, many),
        arithmetic=covered_seconds(start[arithmetic], end[arithmetic]) / many,
        exposed=uncovered_seconds(start[talks], end[talks], start[arithmetic], end[arithmetic]) / many,
        idle=max(0.0, float(lengths.sum()) - covered_seconds(start, end)) / many,
        timeline=timeline, warnings=tuple(warnings),
    )  # fmt: skip


def _device(profile: Profile) -> str:
    if not profile.work:
        return "CPU"
    properties = profile.header.get("deviceProperties") or []
    used = profile.work[0].device
    for device in properties if isinstance(properties, list) else []:
        if isinstance(device, dict) and device.get("id") == used:
            return str(device.get("name", "GPU"))
    return "GPU"


def _kinds(
    timeline: Timeline,
    kinds: NDArray[np.str_],
    groups: NDArray[np.str_],
    arithmetic: NDArray[np.bool_],
    many: int,
) -> tuple[KindTime, ...]:
    times = []
    start, end = timeline.start, timeline.end
    for kind, group in dict.fromkeys(zip(kinds.tolist(), groups.tolist(), strict=True)):
        here = (kinds == kind) & (groups == group)
        wall = covered_seconds(start[here], end[here])
        hidden = not arithmetic[here][0]
        exposed = (
            uncovered_seconds(start[here], end[here], start[arithmetic], end[arithmetic]) if hidden else wall
        )
        times.append(
            KindTime(
                kind=kind,
                group=group,
                count=float(here.sum()) / many,
                busy=float((end - start)[here].sum()) / many,
                wall=wall / many,
                exposed=exposed / many,
            )
        )
    return tuple(sorted(times, key=lambda row: -row.busy))
