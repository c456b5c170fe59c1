"""ResNet-50 trained for real by some ranks: images a second, epoch by epoch, with records read from a file.

A record is as large as an image of ImageNet and is read whole; the pixels are made of its bytes, so that reading is
real and decoding is left out. The first epoch finds nothing in the page cache, later ones what fits it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.lab.places import drop
from podsim.lab.ranks import Note
from podsim.lab.wires import Wires

RECORD = 114_660
"""B of an image of ImageNet-1k as MLPerf's records hold it"""
_WARM = 2
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""(width, blocks, stride of the first block): He et al. 2015, with the stride in the 3 x 3 convolution (v1.5)"""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained."""

    records: Path
    image: int
    """The side of an image in pixels."""
    batch: int
    """The number of images of one rank's step."""
    steps: int
    """The number of steps of an epoch."""
    epochs: int
    backend: str = "auto"


def write_records(path: Path, count: int) -> None:
    """Write a file of `count` records to the disk, and drop it from the page cache."""
    block = os.urandom(RECORD)
    with path.open("wb") as file:
        for _ in range(count):
            file.write(block)
    drop(path)


def _model(nn: Any) -> Any:
    """ResNet-50."""

    class Block(nn.Module):  # type: ignore[misc]
        """1 x 1 down, 3 x 3, 1 x 1 up, with a shortcut."""

        def __init__(self, channels: int, width: int, stride: int) -> None:
            super().__init__()
            wide = 4 * width
            self.inner = nn.Sequential(
                nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width),
                nn.ReLU(inplace=True), nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide),
            )  # fmt: skip
            same = channels == wide and stride == 1
            self.shortcut = nn.Identity() if same else nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide)
            )  # fmt: skip
            self.last = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.last(self.inner(x) + self.shortcut(x))

    layers = [nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, stride=2, padding=1))
    channels = 64
    for width, count, stride in _STAGES:
        for number in range(count):
            layers.append(Block(channels, width, stride if number == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def train_resnet(training: Training, wires: Wires, note: Note) -> dict[str, Any] | None:
    """Images a second of all ranks in each epoch, and parameters, at rank 0; None at the others."""
    torch = wires.torch
    torch.manual_seed(1)
    model = _model(torch.nn).to(wires.device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    several = wires.world > 1
    if several:
        ids = [wires.device.index] if wires.backend == "nccl" else None
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    note("ResNet-50: the first steps")  # allocate, and choose algorithms: belong to no epoch
    first = _images(torch, [os.urandom(RECORD)] * training.batch, training.image)
    for _ in range(_WARM):
        _step(torch, model, optimizer, first, wires)
    rates = []
    for epoch in range(training.epochs):
        note(f"ResNet-50: epoch {epoch}")
        if several:
            wires.barrier()
        start = time.perf_counter()
        for records in _read(training, wires):
            _step(torch, model, optimizer, _images(torch, records, training.image), wires)
        if several:
            wires.barrier()
        wires.settle()
        rates.append(training.batch * training.steps * wires.world / (time.perf_counter() - start))
    return {"rates": rates, "parameters": parameters} if wires.rank == 0 else None


def _read(training: Training, wires: Wires) -> Iterator[list[bytes]]:
    """The records of each step; each rank has its own."""
    with training.records.open("rb") as file:
        for step in range(training.steps):
            first = (step * wires.world + wires.rank) * training.batch
            file.seek(first * RECORD)
            yield [file.read(RECORD) for _ in range(training.batch)]


def _images(torch: Any, records: list[bytes], side: int) -> Any:
    """Pixels made of the bytes of records."""
    needed = 3 * side * side
    rows = [
        torch.frombuffer(bytearray((record * (needed // len(record) + 1))[:needed]), dtype=torch.uint8)
        for record in records
    ]
    return torch.stack(rows).view(len(rows), 3, side, side).float() / 255.0


def _step(torch: Any, model: Any, optimizer: Any, images: Any, wires: Wires) -> None:
    images = images.to(wires.device)
    classes = torch.zeros(len(images), dtype=torch.long, device=wires.device)
    loss = torch.nn.functional.cross_entropy(model(images), classes)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
