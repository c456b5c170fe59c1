"""The last steps of a training run as a timeline: a lane for each rank."""

from __future__ import annotations

import numpy as np

from podsim.answers.timeline import Lane, Timeline
from podsim.answers.trained import MeasuredTraining
from podsim.errors import TimelineError


def trained_timeline(run: MeasuredTraining) -> Timeline:
    """Passes, exchanges and updates of each rank. Raises TimelineError for a run that kept none."""
    if not run.span_rank:
        raise TimelineError(f"this run of {run.model} kept no spans; train again with this version of podsim")
    plan, spans = run.plan, [name.rsplit(" ", 1) for name in run.span_name]
    is_pass = [len(words) == 2 and words[1].isdigit() for words in spans]
    kind_of = [
        words[0] if passed else name
        for words, passed, name in zip(spans, is_pass, run.span_name, strict=True)
    ]
    stage = int(plan["tp"]) * int(plan["dp"])
    names, name = np.unique(np.array(run.span_name), return_inverse=True)
    kinds, kind = np.unique(np.array(kind_of), return_inverse=True)
    start = np.array(run.span_start)
    return Timeline(
        lanes=tuple(Lane(process=f"stage {rank // stage}", name=f"rank {rank}") for rank in range(run.ranks)),
        names=tuple(names.tolist()), kinds=tuple(kinds.tolist()), lane=np.array(run.span_rank, np.int64),
        name=name.astype(np.int64), kind=kind.astype(np.int64), start=start - start.min(),
        end=np.array(run.span_end) - start.min(),
        arguments={
            "micro_batch": np.array(
                [int(words[1]) if passed else -1 for words, passed in zip(spans, is_pass, strict=True)]
            )
        },
    )  # fmt: skip
