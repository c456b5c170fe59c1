"""Triton's model repository of an ensemble: a config.pbtxt of each step, and that of the graph, which has no instances.

Steps are joined by one tensor each, named after its step; the maps' keys are to be the names of the models' tensors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from podsim.answers.served import Served
from podsim.errors import PodsimError
from podsim.serving.ensemble_file import EnsembleSpec, StepSpec
from podsim.serving.triton import config_text
from podsim.whole_files import write_files

_INPUT, _OUTPUT = "INPUT", "OUTPUT"


def write_ensemble(spec: EnsembleSpec, served: Mapping[str, Served], directory: Path) -> None:
    """Write the repository. Raises PodsimError where nothing can be written, and for names that Triton would confuse."""
    names = [_word(name) for name in (spec.name, *(step.name for step in spec.steps))]
    if len(set(names)) < len(names):
        raise PodsimError(
            f"triton: {', '.join(names)[:120]}: two names are one; rename a step or the ensemble"
        )
    texts = {_word(spec.name): ensemble_text(spec)}
    for step in spec.steps:
        texts[_word(step.name)] = _model_text(step, served[step.name]) if step.model else _core_text(step)
    try:
        for name, text in texts.items():
            folder = directory / name
            (folder / "1").mkdir(parents=True, exist_ok=True)
            write_files({folder / "config.pbtxt": text})
    except OSError as error:
        raise PodsimError(f"{directory}: cannot be written: {error.strerror}") from None


def ensemble_text(spec: EnsembleSpec) -> str:
    """config.pbtxt of the graph: its steps and the tensors between them."""
    followed = {name for step in spec.steps for name in step.after}
    last = [step for step in spec.steps if step.name not in followed]
    outputs = ",\n".join(
        f'  {{ name: "{_word(step.name)}" data_type: TYPE_FP32 dims: [ -1 ] }}' for step in last
    )
    return (
        "# keys of the maps: rename INPUT and OUTPUT to the tensors of each model\n"
        f'name: "{_word(spec.name)}"\nplatform: "ensemble"\nmax_batch_size: {_batch(spec)}\n'
        f'input [\n  {{ name: "{_INPUT}" data_type: TYPE_UINT8 dims: [ -1 ] }}\n]\n'
        f"output [\n{outputs}\n]\n"
        "ensemble_scheduling {\n  step [\n"
        + ",\n".join(_step_text(step) for step in spec.steps)
        + "\n  ]\n}\n"
    )


def _step_text(step: StepSpec) -> str:
    """One step of the graph: its model, and which tensors it takes and gives."""
    taken = [_word(name) for name in step.after] or [_INPUT]
    inputs = [
        f'      input_map {{ key: "{_INPUT}{number or ""}" value: "{tensor}" }}'
        for number, tensor in enumerate(taken)
    ]
    lines = [
        "    {", f'      model_name: "{_word(step.name)}"', "      model_version: -1", *inputs,
        f'      output_map {{ key: "{_OUTPUT}" value: "{_word(step.name)}" }}', "    }",
    ]  # fmt: skip
    return "\n".join(lines)


def _model_text(step: StepSpec, served: Served) -> str:
    """config.pbtxt of a model, with the largest batch of its step."""
    rows = [row for row in served.rows if row.fits]
    text = config_text(replace(served, model=step.name, best=rows[-1]), delay=step.queue_delay)
    return re.sub(r'^name: ".*"$', f'name: "{_word(step.name)}"', text, count=1, flags=re.MULTILINE)


def _core_text(step: StepSpec) -> str:
    """config.pbtxt of work on processor cores, a model of Triton's Python backend."""
    inputs = ",\n".join(
        f'  {{ name: "{_INPUT}{number or ""}" data_type: TYPE_UINT8 dims: [ -1 ] }}'
        for number in range(max(len(step.after), 1))
    )
    return (
        f'name: "{_word(step.name)}"\nbackend: "python"\nmax_batch_size: 1\ninput [\n{inputs}\n]\n'
        f'output [\n  {{ name: "{_OUTPUT}" data_type: TYPE_FP32 dims: [ -1 ] }}\n]\n'
        f"instance_group [\n  {{ count: {step.cores} kind: KIND_CPU }}\n]\n"
    )


def _batch(spec: EnsembleSpec) -> int:
    """The largest batch of the graph: that of the step that takes the fewest requests."""
    return 1 if any(not step.model for step in spec.steps) else min(step.batch or 1 for step in spec.steps)


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "model"
