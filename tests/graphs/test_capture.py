"""Modules captured from PyTorch: arithmetic, parameters and op counts are PyTorch's own; nothing is computed."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import ModelError, PodsimError
from podsim.graphs.capturing import capture_module, load_torch, make_module, torch_flops
from podsim.graphs.fusion import fuse
from podsim.graphs.module_capture import captured
from podsim.graphs.op_graph_json import to_text, to_value

MODULES = Path(__file__).parents[2] / "examples" / "modules"
RESNET = f"{MODULES / 'resnet50.py'}:training"
BERT = f"{MODULES / 'bert_large.py'}"
BERT_INPUTS = ("2x128:int64", "2x128:int64", "2x20:int64")

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

_PRODUCTS = {"convolution": "conv", "addmm": "gemm", "mm": "gemm", "bmm": "gemm"}


class Calls(TorchDispatchMode):
    """Counts the kernels with arithmetic that a module really calls."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(function.overloadpacket).partition(".")[2]
        if name in _PRODUCTS:
            self.counts[_PRODUCTS[name]] += 1
        return function(*args, **(kwargs or {}))


@cache
def both(place: str, shapes: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """(graph, module, inputs)"""
    path, _, name = place.rpartition(":")
    names: dict[str, Any] = {"__name__": "m"}
    exec(compile(Path(path).read_text(), path, "exec"), names)
    module, inputs = make_module(names[name], place, shapes)
    return capture_module(module, inputs), module, inputs


@pytest.mark.parametrize(
    ("place", "shapes", "parameters"),
    [
        (RESNET, ("2x3x224x224",), 25_557_032),
        (f"{BERT}:training", BERT_INPUTS, 336_226_108),
        (f"{BERT}:fused", BERT_INPUTS, 336_226_108),
    ],
)
def test_parameters_arithmetic_and_ops_are_torchs_own(
    place: str, shapes: tuple[str, ...], parameters: int
) -> None:
    graph, module, inputs = both(place, shapes)
    counted = torch_flops(module, inputs)
    assert counted is not None
    assert graph.flops.sum() == counted[0]
    assert graph.flops.sum() + graph.flops_back.sum() == counted[1]
    assert graph.parameters.sum() == parameters == sum(p.numel() for p in module.parameters())
    with torch.no_grad(), Calls() as calls:
        module(*inputs)
    attention = 2 * graph.count("attention")  # two products each
    assert calls.counts == {
        k: n for k, n in (("conv", graph.count("conv")), ("gemm", graph.count("gemm") + attention)) if n
    }
    assert graph.notes == ()


def test_arithmetic_of_every_part_of_resnet_is_torchs_own() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    graph, module, inputs = both(RESNET, ("2x3x224x224",))
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    told = {
        name.removeprefix("ResNet50."): sum(of.values()) for name, of in counter.get_flop_counts().items()
    }
    for name, flops in zip(graph.names, graph.flops, strict=True):
        if flops:
            assert told[name] == flops, name


def test_attention_written_out_fuses_to_the_fused_one() -> None:
    plain, _, _ = both(f"{BERT}:training", BERT_INPUTS)
    fused, _, _ = both(f"{BERT}:fused", BERT_INPUTS)
    one, other = fuse(plain), fuse(fused)
    assert plain.count("softmax") == 24
    assert one.count("attention") == other.count("attention") == 24
    assert len(one) == len(other)
    assert one.kind.tolist() == other.kind.tolist()
    assert (one.dims == other.dims).all()
    assert one.kept.sum() == other.kept.sum()


def test_the_stored_resnet_is_what_is_captured() -> None:
    graph, _ = captured(RESNET, ("256x3x224x224",), count=False)
    assert to_text(to_value(graph)) == (MODULES / "resnet50.json").read_text("utf-8")


def test_frozen_weights_have_no_gradient() -> None:
    graph, _, _ = both(f"{MODULES / 'resnet50.py'}:inference", ("1x3x224x224",))
    assert graph.flops_back.sum() == 0
    assert graph.kept.sum() == graph.read_back.sum() == 0


def capture(build: Any, *shapes: str) -> Any:
    module, inputs = make_module(build, "here", shapes)
    return capture_module(module, inputs), torch_flops(module, inputs)


def test_many_kinds_of_products() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Conv1d(4, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.down = nn.Conv2d(4, 8, 3, stride=2)
            self.three = nn.Conv3d(1, 2, 3)
            self.mix = nn.Bilinear(4, 4, 3)
            self.weight = nn.Parameter(torch.zeros(8, 8))

        def forward(self, x: Any) -> Any:
            x = self.one(x)
            x = torch.einsum("bct,cd->bdt", x, self.weight) @ x.transpose(1, 2)
            x = self.down(self.up(x[:, :, :, None].expand(-1, -1, -1, 8)))
            return self.three(x.flatten(1)[:, None, :64].view(-1, 1, 4, 4, 4)).sum()

    graph, counted = capture(Net, "2x4x16")
    assert counted is not None
    assert (graph.flops.sum(), graph.flops.sum() + graph.flops_back.sum()) == counted
    assert any("used by no op" in note for note in graph.notes)


def test_a_fused_multiply_and_add_hands_the_gradient_of_its_sum_on() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.beside = nn.Parameter(torch.zeros(4, 8))
            self.scale = nn.Parameter(torch.zeros(4, 1))

        def forward(self, x: Any) -> Any:
            return torch.addcmul(self.beside, x, self.scale)

    graph, _ = capture(Net, "4x8")
    whole, column = 4 * 8 * 4.0, 4 * 4.0
    assert graph.kernels_back.sum() == 1  # that of the scale
    assert graph.read_back.sum() == 2 * whole
    assert graph.written_back.sum() == column


def test_samples_of_a_map_read_no_more_than_the_map() -> None:
    class Net(nn.Module):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.map = nn.Parameter(torch.zeros(2, 3, size, size))

        def forward(self, grid: Any) -> Any:
            return nn.functional.grid_sample(self.map, grid, align_corners=False)

    grid, out = 2 * 5 * 5 * 2 * 4.0, 2 * 3 * 5 * 5 * 4.0
    for size in (4, 40):
        graph, _ = capture(lambda size=size: Net(size), "2x5x5x2")
        whole = 2 * 3 * size * size * 4.0
        touched = whole if size == 4 else 4 * out
        assert graph.notes == ()
        assert graph.read.sum() == touched + grid
        assert graph.written.sum() == out
        assert graph.read_back.sum() == out + grid + touched
        assert graph.written_back.sum() == whole + touched


def test_groups_divide_the_arithmetic_of_both_gradients() -> None:
    """PyTorch's counter does not divide the weight gradient by the groups; the forward pass it does."""
    graph, counted = capture(
        lambda: nn.Sequential(nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, groups=4)), "2x8x6x6"
    )
    assert counted is not None
    assert graph.flops.sum() == counted[0]
    assert graph.flops_back[1] == 2 * graph.flops[1]


class Readers(nn.Module):
    """A tensor of 4 x 3 numbers that one op reads, or several."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self.linear, self.readers = nn.Linear(6, 3), readers

    def forward(self, x: Any) -> Any:
        y = self.linear(x).exp()
        return sum((y.tanh() for _ in range(1, self.readers)), start=y.tanh())


@pytest.mark.parametrize("more", [1, 2])
def test_gradients_of_several_readers_are_added(more: int) -> None:
    """Each further reader of 12 numbers of 4 B: two of its gradients read, one written, by a kernel more."""
    alone, shared = (capture(lambda n=n: Readers(n), "4x6")[0] for n in (1, 1 + more))
    for name, bytes_ in (("read_back", 2 * 48), ("written_back", 48), ("kernels_back", 1)):
        one, other = (getattr(graph, name)[graph.targets.index("exp")] for graph in (alone, shared))
        assert other - one == more * bytes_


def test_a_weight_of_two_ops_is_counted_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(5, 5)

        def forward(self, x: Any) -> Any:
            return self.linear(self.linear(x))

    assert capture(Twice, "4x5")[0].parameters.tolist() == [30, 0]


def test_views_are_no_ops_and_copies_are() -> None:
    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            a, b = x.chunk(2, dim=1)
            return (a.transpose(1, 2).reshape(4, -1) + b.transpose(1, 2).contiguous().view(4, -1)).relu()

    graph, _ = capture(Net, "4x6x5")
    assert graph.targets == ("reshape", "contiguous", "add", "relu")
    assert graph.flops_back.sum() == 0


class Branch(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x


class Selects(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[x > 0].exp()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 8, proj_size=4)

    def forward(self, x: Any) -> Any:
        return self.cell(x)[0]


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu"):
            return self.linear(x)


class Embeds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def forward(self, x: Any) -> Any:
        return self.table(x)


@pytest.mark.parametrize(
    ("build", "shapes", "words"),
    [
        (Branch, ("4x8",), ("cannot be exported", "torch.where")),
        (Selects, ("4x8",), ("depends on the values",)),
        (Recurrent, ("4x2x8",), ("proj_size", "linear layer")),
        (Mixed, ("4x8",), ("wrap_with_autocast", "--precision")),
        (Embeds, ("4x8",), ("cannot be exported", ":int64")),
        (lambda: nn.Linear(8, 8), ("4x9",), ("cannot be exported", "--input")),
        (lambda: nn.Linear(8, 8), ("4x8", "4x8"), ("cannot be exported", "each argument")),
        (lambda: 3, ("4x8",), ("torch.nn.Module",)),
        (nn.Identity, ("4x8",), ("has no ops",)),
        (lambda: nn.Linear(8, 8), (), ("no inputs",)),
        (lambda: nn.Linear(8, 8), ("4xx8",), ("expected sizes",)),
        (lambda: nn.Linear(8, 8), ("4x8:float17",), ("expected sizes",)),
        (lambda: torch.ones(3).tolist(), ("4x8",), ("meta device",)),
    ],
)
def test_what_cannot_be_captured_says_why_and_what_to_change(
    build: Any, shapes: tuple[str, ...], words: tuple[str, ...]
) -> None:
    with pytest.raises(ModelError) as caught:
        capture(build, *shapes)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert len(str(caught.value)) < 700


def test_without_torch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PodsimError, match=r"pip install '\.\[lab\]'"):
        load_torch()
