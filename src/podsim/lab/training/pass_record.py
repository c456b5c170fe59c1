"""What a rank did when: passes of micro-batches, exchanges, updates, with the processor time of each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from podsim.lab.wires import load_part

KEPT = 3
"""last steps whose spans are kept"""
_MOST = 2_000
"""spans of a rank that are kept"""


class PassRecord:
    """Spans of the last steps of one rank, and its processor time by kind over all counted steps."""

    def __init__(self) -> None:
        """Nothing was done yet."""
        self.origin = 0.0
        self.spans: list[tuple[str, float, float]] = []
        self.processor: dict[str, float] = defaultdict(float)
        self.is_kept = self.is_counted = False

    def step(self, *, is_counted: bool, is_kept: bool) -> None:
        """A step begins. Its processor time is counted, its spans are kept, or neither."""
        self.is_counted, self.is_kept = is_counted, is_kept

    @contextmanager
    def span(self, kind: str, number: int = -1) -> Iterator[None]:
        """Time what is inside; number: the micro-batch. What waits for others uses no processor time of this thread."""
        start, before = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            if self.is_counted:
                self.processor[kind] += time.thread_time() - before
            if self.is_kept and len(self.spans) < _MOST:
                name = kind if number < 0 else f"{kind} {number}"
                self.spans.append((name, start - self.origin, time.perf_counter() - self.origin))

    def report(self) -> dict[str, Any]:
        """What rank 0 is sent, as plain values."""
        return {"spans": self.spans, "processor": dict(self.processor)}


def recorded_stage(record: PassRecord, back: Any) -> Any:
    """The class of a pipeline stage whose passes are recorded, and whose gradients go over a group of their own.

    gloo moves data one way at a time between two ranks of one group; adapters do not.
    """
    base: Any = load_part("torch.distributed.pipelining").PipelineStage

    class Stage(base):  # type: ignore[misc]
        """A stage of torch's runtime."""

        def forward_one_chunk(self, number: int, *given: Any, **more: Any) -> Any:
            with record.span("forward", number):
                return super().forward_one_chunk(number, *given, **more)

        def backward_one_chunk(self, number: int, *given: Any, **more: Any) -> Any:
            with record.span("backward", number):
                return super().backward_one_chunk(number, *given, **more)

        def backward_weight_one_chunk(self, number: int, *given: Any, **more: Any) -> Any:
            with record.span("backward weight", number):
                return super().backward_weight_one_chunk(number, *given, **more)

        def get_bwd_recv_ops(self, number: int) -> Any:
            return self._back(super().get_bwd_recv_ops, number)

        def get_bwd_send_ops(self, number: int) -> Any:
            return self._back(super().get_bwd_send_ops, number)

        def _back(self, make: Any, number: int) -> Any:
            own: Any = getattr(self, "group")  # noqa: B009 - mypy knows nothing of torch's class
            self.group = back
            try:
                return make(number)
            finally:
                self.group = own

    return Stage
