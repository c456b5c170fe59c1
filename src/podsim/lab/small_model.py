"""A small network that trains on what a loader reads: there to use the samples, not to learn from them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.lab.wires import load_part, load_torch

__all__ = ["MODELS", "trainer"]

MODELS = {"resnet": "a residual network of 10 layers on 64 x 64 pixels"}
"""name -> what it is"""
_CLASSES = 10


def trainer(name: str, threads: int) -> Callable[[NDArray[np.uint8] | None], None]:
    """A function that takes one training step on a batch of pixels (sample, colour, row, column).

    threads: of the processor, where there is no GPU. Labels are drawn at random. Raises LabError where PyTorch is not
    installed.
    """
    assert name in MODELS
    torch, nn = load_torch(), load_part("torch.nn")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = _residual(torch, nn).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step(pixels: NDArray[np.uint8] | None) -> None:
        assert pixels is not None
        data = torch.from_numpy(pixels).to(device).float().div_(127.5).sub_(1.0)
        labels = torch.randint(_CLASSES, (len(pixels),), device=device)
        optimizer.zero_grad()
        loss_of(model(data), labels).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return step


def _residual(torch: Any, nn: Any) -> Any:
    """A residual network of 10 layers: a convolution, four blocks of two, a classifier (He et al. 2016)."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.way = nn.Sequential(
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after),
            )  # fmt: skip
            self.short = nn.Conv2d(before, after, 1, stride=2, bias=False)

        def forward(self, given: Any) -> Any:
            return torch.relu(self.way(given) + self.short(given))

    widths = (16, 32, 64, 128, 128)
    return nn.Sequential(
        nn.Conv2d(3, widths[0], 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(),
        *(Block(one, other) for one, other in pairwise(widths)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], _CLASSES),
    )  # fmt: skip
