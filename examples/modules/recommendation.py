r"""Recommendation: NeuMF (He et al. 2017), DLRM (Naumov et al. 2019), Wide & Deep (Cheng et al. 2016), to capture.

podsim capture examples/modules/recommendation.py:ncf --input 65536:int64 --input 65536:int64 --input 65536 --out ncf.json

Sizes are those that NVIDIA's DeepLearningExamples train: NeuMF on MovieLens-20M; DLRM on Criteo's terabyte with the rare
values of a feature dropped ("small", frequency limit 15), and DCNv2 on the same; Wide & Deep on Outbrain's clicks.
DLRM's and DCNv2's tables are one, as their implementations look all up with one kernel; its gradient is sparse: only
the rows of a batch are touched.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

USERS, ITEMS, FACTORS = 138_493, 26_744, 64
TABLES = (
    7_912_889, 33_823, 17_139, 7_339, 20_046, 4, 7_105, 1_382, 63, 5_554_114, 582_469, 245_828, 11, 2_209, 10_667, 104,
    4, 968, 15, 8_165_896, 2_675_940, 7_156_453, 302_516, 12_022, 97, 35,
)  # fmt: skip
"""rows of DLRM's tables"""
NUMBERS, WIDTH = 13, 128
"""numerical features of Criteo, and the width of DLRM's tables"""

CLICKS = (
    (300_000, 128), (250_000, 128), (100_000, 128), (5_000, 128), (4_000, 64), (4_000, 64), (2_500, 64), (2_500, 64),
    (2_000, 64), (1_000, 64), (1_000, 64), (300, 64), (4, 16),
)  # fmt: skip
"""rows and widths of the tables of Outbrain's features, which has 13 numbers besides"""


def layers(*widths: int, last: bool = False) -> nn.Sequential:
    """Linear layers with ReLU between them, and after the last of them unless it gives logits."""
    made: list[nn.Module] = []
    for before, after in pairwise(widths):
        made += [nn.Linear(before, after), nn.ReLU(inplace=True)]
    return nn.Sequential(*(made[:-1] if last else made))


class NeuMF(nn.Module):
    """Users and items, and whether they met, to the loss: a product of factors beside a network of its own embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, FACTORS), nn.Embedding(ITEMS, FACTORS)
        self.deep_users, self.deep_items = nn.Embedding(USERS, 2 * FACTORS), nn.Embedding(ITEMS, 2 * FACTORS)
        self.hidden = nn.ModuleList(nn.Linear(*sizes) for sizes in ((256, 256), (256, 128), (128, 64)))
        self.dropout = nn.Dropout(0.5)
        self.last = nn.Linear(2 * FACTORS, 1)

    def forward(self, users: Tensor, items: Tensor, met: Tensor) -> Tensor:
        product = self.users(users) * self.items(items)
        x = torch.cat((self.deep_users(users), self.deep_items(items)), 1)
        for layer in self.hidden:
            x = self.dropout(functional.relu(layer(x)))
        logits = self.last(torch.cat((product, x), 1))
        return functional.binary_cross_entropy_with_logits(logits[:, 0], met)


class Dlrm(nn.Module):
    """Numbers, categories and clicks to the loss: every embedding meets every other in a dot product."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = layers(NUMBERS, 512, 256, WIDTH)
        self.tables = nn.Embedding(sum(TABLES), WIDTH, sparse=True)
        met = len(TABLES) + 1
        pairs = met * (met - 1) // 2
        self.padding = 1  # to a multiple of eight
        self.top = layers(WIDTH + pairs + self.padding, 1024, 1024, 512, 256, 1, last=True)
        self.register_buffer("left", torch.zeros(pairs, dtype=torch.int64))

    def forward(self, numbers: Tensor, categories: Tensor, clicked: Tensor) -> Tensor:
        x = self.bottom(numbers)
        each = torch.cat((x[:, None], self.tables(categories)), 1)
        dots = (each @ each.transpose(1, 2)).flatten(1).index_select(1, self.left)
        together = functional.pad(torch.cat((x, dots), 1), (0, self.padding))
        return functional.binary_cross_entropy_with_logits(self.top(together)[:, 0], clicked)


class Dcn(nn.Module):
    """DCNv2 (Wang et al. 2020): features multiply what low-rank layers make of them, thrice; then layers as DLRM's."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = layers(NUMBERS, 512, 256, WIDTH)
        self.tables = nn.Embedding(sum(TABLES), WIDTH, sparse=True)
        wide = WIDTH * (len(TABLES) + 1)
        self.down = nn.ModuleList(nn.Linear(wide, 512, bias=False) for _ in range(3))
        self.up = nn.ModuleList(nn.Linear(512, wide) for _ in range(3))
        self.top = layers(wide, 1024, 1024, 512, 256, 1, last=True)

    def forward(self, numbers: Tensor, categories: Tensor, clicked: Tensor) -> Tensor:
        x = first = torch.cat((self.bottom(numbers), self.tables(categories).flatten(1)), 1)
        for down, up in zip(self.down, self.up, strict=True):
            x = first * up(down(x)) + x
        return functional.binary_cross_entropy_with_logits(self.top(x)[:, 0], clicked)


class WideAndDeep(nn.Module):
    """Numbers, categories and clicks to the loss: a weight for each category, beside five layers over embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Embedding(rows, 1) for rows, _ in CLICKS)
        self.wide_numbers = nn.Linear(NUMBERS, 1)
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for rows, width in CLICKS)
        widths = (NUMBERS + sum(width for _, width in CLICKS), *[1024] * 5, 1)
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in pairwise(widths))
        self.dropout = nn.Dropout(0.1)

    def forward(self, numbers: Tensor, categories: Tensor, clicked: Tensor) -> Tensor:
        each = categories.unbind(1)
        x = torch.cat((numbers, *(table(one) for table, one in zip(self.tables, each, strict=True))), 1)
        for layer in list(self.layers)[:-1]:
            x = self.dropout(functional.relu(layer(x)))
        weights = torch.cat([table(one) for table, one in zip(self.wide, each, strict=True)], 1)
        logits = self.layers[-1](x)[:, 0] + self.wide_numbers(numbers)[:, 0] + weights.sum(1)
        return functional.binary_cross_entropy_with_logits(logits, clicked)


def wide_and_deep() -> nn.Module:
    """Wide & Deep as it is trained."""
    return WideAndDeep().train()


def ncf() -> nn.Module:
    """NeuMF as it is trained."""
    return NeuMF().train()


def dlrm() -> nn.Module:
    """DLRM as it is trained."""
    return Dlrm().train()


def dcn() -> nn.Module:
    """DCNv2 as it is trained."""
    return Dcn().train()
