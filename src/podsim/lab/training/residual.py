"""Residual networks (He et al. 2015) for images, small ones; norms are over groups of channels.

Batch norm would see only the samples of its own replica, so that every number of replicas would train another network;
group norm (Wu and He 2018) looks at one sample at a time, and all layouts give one loss curve.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

from podsim.lab.wires import load_torch

RESIDUAL = {
    "resnet-8": ((16, 32, 64), (1, 1, 1)),
    "resnet-20": ((16, 32, 64), (3, 3, 3)),
    "resnet-18": ((64, 128, 256, 512), (2, 2, 2, 2)),
}
"""(channels, blocks) of each level; 6n + 2 layers for small images as in the paper's section 4.2, 18 as in its table 1"""
_GROUPS = 8


def residual_network(name: str, *, classes: int, seed: int) -> Any:
    """The module, with its first weights drawn from the seed."""
    torch = load_torch()
    module = _classes()(*RESIDUAL[name], classes)
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            draws = torch.Generator().manual_seed((seed << 32) + zlib.crc32(key.encode()))
            if parameter.ndim > 1:
                parameter.normal_(0.0, (2.0 / parameter[0].numel()) ** 0.5, generator=draws)
            else:
                parameter.fill_(0.0 if key.endswith("bias") else 1.0)
    return module


@lru_cache(maxsize=1)
def _classes() -> Any:
    """The class of a network; made when PyTorch is there."""
    torch = load_torch()
    nn = torch.nn
    base: Any = nn.Module

    class Block(base):  # type: ignore[misc]
        """Two convolutions, and what came in added."""

        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            self.one = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.norm1 = nn.GroupNorm(_GROUPS, width)
            self.two = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.norm2 = nn.GroupNorm(_GROUPS, width)
            same = stride == 1 and before == width
            self.short = None if same else nn.Conv2d(before, width, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            inner = self.norm2(self.two(self.norm1(self.one(x)).relu()))
            return (inner + (x if self.short is None else self.short(x))).relu()

    class Network(base):  # type: ignore[misc]
        """Images in, logits out."""

        def __init__(self, widths: tuple[int, ...], blocks: tuple[int, ...], classes: int) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
            self.norm = nn.GroupNorm(_GROUPS, widths[0])
            made, before = {}, widths[0]
            for level, (width, count) in enumerate(zip(widths, blocks, strict=True)):
                for number in range(count):
                    made[f"{level}-{number}"] = Block(before, width, 2 if level and not number else 1)
                    before = width
            self.layers = nn.ModuleDict(made)
            self.head = nn.Linear(before, classes)

        def forward(self, x: Any) -> Any:
            x = self.norm(self.stem(x)).relu()
            for block in self.layers.values():
                x = block(x)
            return self.head(x.mean((2, 3)))

    return Network
