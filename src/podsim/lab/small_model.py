"""A small network that trains on what a loader reads: there to use the samples, not to learn from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from podsim.lab.training.residual import residual_network
from podsim.lab.wires import load_part, load_torch

MODELS = {"resnet": "resnet-8 of podsim train, on 64 x 64 pixels"}
"""name -> what it is"""
_CLASSES = 10


def make_trainer(name: str, threads: int) -> Callable[[NDArray[np.uint8] | None], None]:
    """A function that takes one training step on a batch of pixels (sample, colour, row, column).

    threads: of the processor, where there is no GPU. Labels are drawn at random. Raises LabError where PyTorch is not
    installed.
    """
    assert name in MODELS
    torch, nn = load_torch(), load_part("torch.nn")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(threads)
    model = residual_network("resnet-8", classes=_CLASSES, seed=0).to(device)
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
