"""A played step for a browser: the data of `podsim simulate --json`, its spans packed, and a real profile against it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.options.question import option, question
from podsim.options.step_options import SimulateOptions
from podsim.questions.train.simulate import simulate
from podsim.report.plain_data import plain_value
from podsim.report.simulation import simulated_data
from podsim.timeline.gantt_page import gantt_data
from podsim.timeline.kineto import read_kineto
from podsim.timeline.kineto_compare import compare_steps
from podsim.timeline.timelines import write_timeline

_MOST_SPANS = 400_000
"""spans that a browser draws fluently"""


@dataclass(frozen=True, kw_only=True)
class TimelineOptions(SimulateOptions):
    """A step to play, and what is shown of it."""

    perfetto: bool = option(False, "Give the trace that Perfetto opens, instead of the spans.")
    against: str | Path | None = option(
        None, "A PyTorch profile (Kineto JSON) of the real step, to compare it with.", kind=Path
    )


@question(TimelineOptions)
def step_timeline(options: TimelineOptions) -> dict[str, Any]:
    """The step as `podsim simulate --json` gives it, with `spans`: their description and their arrays, packed.

    With `perfetto` the trace in base64; with `against` a row for each kind of work, measured and simulated. Raises what
    `podsim.simulate` raises, and PodsimError for more spans than a browser can show.
    """
    step = simulate(
        **{field.name: getattr(options, field.name) for field in dataclass_fields(SimulateOptions)}
    )
    answer = simulated_data(step)
    if options.against is not None:
        answer["compared"] = plain_value(compare_steps(read_kineto(options.against), step))
    if len(step.timeline) > _MOST_SPANS:
        raise PodsimError(
            f"the step has {len(step.timeline):,} spans, a page shows {_MOST_SPANS:,}: ask for a smaller batch"
        )
    if options.perfetto:
        path = Path("step.pftrace")
        write_timeline(step.timeline, path, title=f"{step.model} on {step.cluster}")
        answer["trace"] = base64.b64encode(path.read_bytes()).decode("ascii")
        path.unlink()
        return answer
    described, packed = gantt_data(step.timeline)
    answer["spans"] = {"described": described, "packed": packed}
    return answer
