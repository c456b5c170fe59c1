r"""Temporal Fusion Transformer (Lim et al. 2019, arxiv.org/abs/1912.09363), for `podsim capture`.

podsim capture examples/modules/tft.py:training --input 1024:int64 --input 1024x168x4 --input 1024x24x3 --input 1024x24 \
    --out tft.json

As NVIDIA's DeepLearningExamples train it on the hourly use of electricity, and with the same sizes on traffic: width
128, a week of hours that are known and a day to be forecast, one static category, three numbers known ahead beside what
is forecast. Inputs are the category, numbers of the week, numbers of the day, and what came.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, WEEK, DAY, KNOWN, CATEGORIES = 128, 4, 168, 24, 3, 369
QUANTILES = (0.1, 0.5, 0.9)


class Gate(nn.Module):
    """A linear layer of which one half gates the other."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2 * out)

    def forward(self, x: Tensor) -> Tensor:
        return functional.glu(self.linear(x), -1)


class Residual(nn.Module):
    """The gated residual network: two linear layers, a context, a gate, and the norm of the sum with the input."""

    def __init__(self, width: int, out: int = 0, *, context: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(width, HIDDEN)
        self.context = nn.Linear(HIDDEN, HIDDEN, bias=False) if context else None
        self.second = nn.Linear(HIDDEN, HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.gate = Gate(HIDDEN, out or HIDDEN)
        self.past = nn.Linear(width, out) if out else None
        self.norm = nn.LayerNorm(out or HIDDEN) if out != 1 else None

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        y = self.first(x)
        if self.context is not None and context is not None:
            told = self.context(context)
            y = y + (told[:, None] if x.ndim == 3 else told)
        y = self.gate(self.dropout(self.second(functional.elu(y))))
        y = y + (x if self.past is None else self.past(x))
        return y if self.norm is None else self.norm(y)


class Select(nn.Module):
    """Variables (…, count, width), each through a network of its own, weighed by all of them together."""

    def __init__(self, count: int, *, context: bool = False) -> None:
        super().__init__()
        self.joint = Residual(HIDDEN * count, count, context=context)
        self.each = nn.ModuleList(Residual(HIDDEN) for _ in range(count))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        weights = torch.softmax(self.joint(x.flatten(-2), context), -1)
        made = torch.stack([one(x[..., i, :]) for i, one in enumerate(self.each)], -1)
        return (made @ weights[..., None]).squeeze(-1)


class Attention(nn.Module):
    """Heads with queries and keys of their own and one set of values, averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.width = HIDDEN // HEADS
        self.qkv = nn.Linear(HIDDEN, (2 * HEADS + 1) * self.width, bias=False)
        self.output = nn.Linear(self.width, HIDDEN, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, steps, _ = x.shape
        q, k, v = self.qkv(x).split((HEADS * self.width, HEADS * self.width, self.width), -1)
        q, k = (one.view(batch, steps, HEADS, self.width).transpose(1, 2) for one in (q, k))
        later = torch.full((steps, steps), -torch.inf, device=x.device).triu(1)
        weights = torch.softmax((q @ k.transpose(2, 3)) * self.width**-0.5 + later, -1)
        return self.dropout(self.output((weights @ v[:, None]).mean(1)))


class Tft(nn.Module):
    """Category, week, day and what came to the loss of the quantiles."""

    def __init__(self) -> None:
        super().__init__()
        self.category = nn.Embedding(CATEGORIES, HIDDEN)
        self.week_scale, self.week_shift = (nn.Parameter(torch.zeros(KNOWN + 1, HIDDEN)) for _ in range(2))
        self.static = Select(1)
        self.contexts = nn.ModuleList(Residual(HIDDEN) for _ in range(4))
        self.week, self.day = Select(KNOWN + 1, context=True), Select(KNOWN, context=True)
        self.past = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.future = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.gates = nn.ModuleList(Gate(HIDDEN, HIDDEN) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(3))
        self.enrich = Residual(HIDDEN, context=True)
        self.attention = Attention()
        self.feed = Residual(HIDDEN)
        self.quantiles = nn.Linear(HIDDEN, len(QUANTILES))
        self.register_buffer("levels", torch.tensor(QUANTILES))

    def forward(self, category: Tensor, week: Tensor, day: Tensor, came: Tensor) -> Tensor:
        static = self.static(self.category(category)[:, None])
        choose, enrich, hidden, cell = (one(static) for one in self.contexts)
        before = self.week(week[..., None] * self.week_scale + self.week_shift, choose)
        scale, shift = self.week_scale[:KNOWN], self.week_shift[:KNOWN]
        after = self.day(day[..., None] * scale + shift, choose)
        history, state = self.past(before, (hidden[None], cell[None]))
        future, _ = self.future(after, state)
        x = torch.cat((before, after), 1)
        x = self.norms[0](self.gates[0](torch.cat((history, future), 1)) + x)
        rich = self.enrich(x, enrich)
        y = self.norms[1](self.gates[1](self.attention(rich)) + rich)[:, WEEK:]
        y = self.norms[2](self.gates[2](self.feed(y)) + x[:, WEEK:])
        missed = came[..., None] - self.quantiles(y)
        return torch.maximum(self.levels * missed, (self.levels - 1) * missed).sum(-1).mean()


def training() -> nn.Module:
    """The module as it is trained."""
    return Tft().train()
