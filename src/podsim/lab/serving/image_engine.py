"""Dynamic batching on a real exported network: images in, classes out, through the server of `stream_server`.

An image is a request whose prompt is its bytes, and its class the one token of the answer. A step takes what waits, up
to the largest batch, as Triton's dynamic batcher does without a queue delay.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from podsim.lab.serving.batching_engine import EngineRequest, EngineStep
from podsim.lab.wires import load_torch


class ImageEngine:
    """Images in, steps out. It runs on one thread."""

    def __init__(self, file: Path, side: int, largest: int, pixels: Callable[[Any], Any]) -> None:
        """An engine of a TorchScript file, whose input `pixels` makes of bytes, [image, row, column]."""
        self.torch = load_torch()
        self.torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch speaks of the successor of TorchScript
            self.network = self.torch.jit.load(str(file))
        self.side, self.largest, self.pixels = side, largest, pixels
        self.waiting: deque[EngineRequest] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether a step has something to do."""
        return bool(self.waiting)

    def step(self) -> EngineStep:
        """Compute one batch."""
        taken = [self.waiting.popleft() for _ in range(min(len(self.waiting), self.largest))]
        images = self.torch.tensor([request.prompt for request in taken], dtype=self.torch.uint8)
        with self.torch.inference_mode():
            scores = self.network(self.pixels(images.view(-1, self.side, self.side)))
        answers = zip(taken, scores.argmax(1).tolist(), strict=True)
        return EngineStep(
            decoding=0, context=0.0, prompts=len(taken), new=images.numel(), pairs=0.0,
            tokens=tuple((request.number, token, True) for request, token in answers),
        )  # fmt: skip
