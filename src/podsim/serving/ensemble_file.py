"""Ensembles as users write them: a TOML file with one [[step]] for each model and each work of processor cores.

[[step]]                     [[step]]
name = "decode"              name = "detect"
seconds = "3 ms"             model = "ssd300-resnet50"
cores = 8                    after = ["decode"]
                             batch = 16
                             queue_delay = "1 ms"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import read_text, read_toml
from podsim.units import parse_quantity

_LARGEST = 1 << 20
_MOST_STEPS = 64
_KEYS = {
    "name": str, "model": str, "seconds": str, "cores": int, "after": list, "batch": int, "queue_delay": str,
    "samples": int, "precision": str, "engine": str, "tokens": int,
}  # fmt: skip
_BOUNDS = {"cores": 4096, "batch": 65_536, "samples": 10_000, "tokens": 1 << 22}
"""the largest value of each whole number"""


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """One step as its file states it."""

    name: str
    model: str = ""
    """The model; "" for work of processor cores."""
    seconds: float = 0.0
    """s. The time of a core for a request."""
    cores: int = 1
    after: tuple[str, ...] = ()
    batch: int | None = None
    """The largest batch; None: the largest that fits."""
    queue_delay: float = 0.0
    """s. The longest wait for a fuller batch."""
    samples: int = 1
    """The samples of a request."""
    precision: str | None = None
    engine: str = ""
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class EnsembleSpec:
    """An ensemble as its file states it, its steps in an order in which each follows those it comes after."""

    name: str
    steps: tuple[StepSpec, ...]


def read_ensemble(path: Path) -> EnsembleSpec:
    """The ensemble of a file. Raises PodsimError, with everything wrong, for a file that is none."""
    shown = str(path)[-120:]
    text = read_text(path, most=_LARGEST, error=PodsimError, hint="no ensemble is")
    table = read_toml(text, name=shown, error=PodsimError)
    steps = table.get("step")
    if (
        not isinstance(steps, list)
        or not 1 <= len(steps) <= _MOST_STEPS
        or not all(isinstance(s, dict) for s in steps)
    ):
        raise PodsimError(f"{shown}: an ensemble has 1 to {_MOST_STEPS} tables [[step]] (docs/serving.md)")
    problems = [unknown_name("key", key, ("name", "step")) for key in table if key not in ("name", "step")]
    problems += [text for number, step in enumerate(steps, 1) for text in _problems(number, step)]
    _raise(shown, problems)
    made = [_spec(step) for step in steps]
    return EnsembleSpec(name=str(table.get("name", path.stem))[:80], steps=_ordered(shown, made))


def _problems(number: int, step: Mapping[str, Any]) -> list[str]:
    """Everything wrong with one table."""
    where = f"step {str(step.get('name', number))[:40]}"
    problems = [f"{where}: {unknown_name('key', str(key)[:40], _KEYS)}" for key in step if key not in _KEYS]
    problems += [
        f"{where}: {key}={str(step[key])[:40]!r} must be {_WORDS[kind]}"
        for key, kind in _KEYS.items()
        if key in step and (not isinstance(step[key], kind) or isinstance(step[key], bool))
    ]
    problems += [
        f"{where}: {key}={step[key]}: 1 to {most:,}"
        for key, most in _BOUNDS.items()
        if isinstance(step.get(key), int) and not 1 <= step[key] <= most
    ]
    if not step.get("name"):
        problems.append(f"{where}: has no name")
    if bool(step.get("model")) == ("seconds" in step):
        problems.append(f'{where}: give a model, or the seconds of a core for a request, such as "3 ms"')
    return problems


_WORDS = {str: "text", int: "a whole number", list: "a list of names"}


def _spec(step: Mapping[str, Any]) -> StepSpec:
    given: dict[str, Any] = {key: value for key, value in step.items() if key != "after"}
    for key in ("seconds", "queue_delay"):
        if key in given:
            given[key] = parse_quantity(step[key], "s", what=key)
            if not 0 <= given[key] <= 60:
                raise PodsimError(f"step {step['name'][:40]}: {key}={step[key]}: 0 s to 60 s")
    return StepSpec(**given, after=tuple(str(name) for name in step.get("after", ())))


def _ordered(shown: str, steps: Sequence[StepSpec]) -> tuple[StepSpec, ...]:
    """The steps, each after those it follows. Raises PodsimError for names twice, unknown ones, and circles."""
    names = [step.name for step in steps]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [f"{name} is the name of two steps" for name in twice]
    problems += [
        f"step {step.name[:40]}: after: {unknown_name('step', name[:40], names)}"
        for step in steps
        for name in step.after
        if name not in names
    ]
    _raise(shown, problems)
    done: list[StepSpec] = []
    while len(done) < len(steps):
        passed = {step.name for step in done}
        ready = [step for step in steps if step.name not in passed and passed.issuperset(step.after)]
        if not ready:
            circle = ", ".join(name for name in names if name not in passed)
            raise PodsimError(f"{shown}: each of these steps waits for another of them: {circle[:120]}")
        done += ready
    return tuple(done)


def _raise(shown: str, problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise PodsimError(f"{shown}: " + "; ".join(problems[:4]) + more)
