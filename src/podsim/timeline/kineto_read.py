"""The relevant events of a PyTorch profile: GPU work, its launches, and the ranges of steps.

Format: torch.profiler's export_chrome_trace (Kineto). GPU work has cat kernel, gpu_memcpy or gpu_memset and names its
stream; args.correlation leads to the runtime call (cuda_runtime, cuda_driver) that launched it. Steps and the optimizer
are user_annotation ranges: ProfilerStep#N, Optimizer.step#…
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podsim.errors import TimelineError
from podsim.options.question import Progress
from podsim.timeline.trace_events import read_events

_GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "concurrent_kernel", "memcpy", "memset"))
_RUNTIME = frozenset(("cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime"))
_ANNOTATION = frozenset(("user_annotation", "gpu_user_annotation"))
_STEP = re.compile(r"ProfilerStep\s*#?\s*(\d{1,15})")
_KEPT = (
    "Process Group Description",
    "Process Group Name",
    "Collective name",
    "In msg nelems",
    "dtype",
    "Group size",
)


@dataclass(frozen=True, slots=True)
class Work:
    """One op: a kernel, a copy, or a CPU op in a trace without a GPU. Times in s."""

    name: str
    start: float
    end: float
    device: int
    stream: int
    correlation: int
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class Profile:
    """The content of a file; lists grow as it is read. Ranges are (start, end, …) in s."""

    work: list[Work] = field(default_factory=list)
    """The work of the GPU."""
    ops: list[Work] = field(default_factory=list)
    """The ops of the CPU; their stream is the thread."""
    launches: dict[int, tuple[float, int]] = field(default_factory=dict)
    """The time and thread of the runtime call of each correlation."""
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    gpu_steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    optimizer: list[tuple[float, float]] = field(default_factory=list)
    backward: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """The ranges of autograd's functions, by thread."""
    main: set[int] = field(default_factory=set)
    """The threads of the ranges of steps and optimizers; forward passes are launched there."""
    events: int = 0
    header: dict[str, Any] = field(default_factory=dict)

    def whole(self, key: str, default: int) -> int:
        """A number that the file states of its process group; the default where it states none."""
        group = self.header.get("distributedInfo")
        value = group.get(key) if isinstance(group, dict) else None
        return default if value is None else _number(value)


def read_profile(path: str | Path, progress: Progress | None = None) -> Profile:
    """The content of a profile. Raises TimelineError on a file that cannot be read or whose events break the format."""
    profile = Profile()
    name = Path(path).name
    threads: dict[Any, int] = {}

    def each(event: Mapping[str, Any]) -> None:
        profile.events += 1
        if event.get("ph") != "X":
            return
        try:
            _take(profile, event, threads)
        except (KeyError, TypeError, ValueError) as problem:
            what = f"{type(problem).__name__}: {problem}"
            raise TimelineError(
                f"{name}: event {profile.events:,} is no event of a profiler ({what}): {str(dict(event))[:120]}"
            ) from None

    profile.header = read_events(path, each, progress)
    return profile


def _take(profile: Profile, event: Mapping[str, Any], threads: dict[Any, int]) -> None:
    """Add one event that has a duration."""
    kind = str(event.get("cat", "")).lower()
    if kind not in _GPU | _RUNTIME | _ANNOTATION and kind not in ("cpu_op", "operator"):
        return
    start = float(event["ts"]) / 1e6
    end = start + max(float(event.get("dur", 0.0)), 0.0) / 1e6
    arguments = event.get("args") or {}
    name = str(event.get("name", ""))
    thread = threads.setdefault((event.get("pid"), event.get("tid")), len(threads))
    if kind in _GPU:
        stream = arguments.get("stream", event.get("tid", 0))
        kept = {key: arguments[key] for key in _KEPT if key in arguments}
        profile.work.append(
            Work(name, start, end, _number(arguments.get("device", event.get("pid", 0))), _number(stream),
                 _number(arguments.get("correlation", -1)), kept)
        )  # fmt: skip
    elif kind in _RUNTIME:
        if "correlation" in arguments:
            profile.launches[_number(arguments["correlation"])] = (start, thread)
    elif kind in _ANNOTATION:
        _annotation(profile, kind, name, start, end, thread)
    else:
        if name.startswith("autograd::engine::evaluate_function"):
            profile.backward.setdefault(thread, []).append((start, end))
        profile.ops.append(Work(name, start, end, 0, thread, -1, {}))


def _annotation(profile: Profile, kind: str, name: str, start: float, end: float, thread: int) -> None:
    step = _STEP.search(name)
    if kind == "user_annotation" and (step or name.startswith("Optimizer.step")):
        profile.main.add(thread)
    if step:
        (profile.gpu_steps if kind == "gpu_user_annotation" else profile.steps)[f"ProfilerStep#{step[1]}"] = (
            start,
            end,
        )
    elif name.startswith("Optimizer.step") and kind == "user_annotation":
        profile.optimizer.append((start, end))


def _number(value: Any) -> int:
    """A whole number, also from text such as "stream 7"; -1 if there is none."""
    if isinstance(value, (int, float)):
        return int(value) if abs(value) < 1 << 62 else -1
    digits = re.search(r"-?\d{1,18}", str(value))
    return int(digits[0]) if digits else -1
