"""Rules of single ops, against what PyTorch itself computes, reads and writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsim.graphs.capturing import capture_module, make_module, torch_flops

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

_VIEWS = ("view", "expand", "detach", "unsqueeze", "alias")


def graph_of(build: Any, *shapes: str) -> Any:
    module, inputs = make_module(build, "here", shapes)
    return capture_module(module, inputs)


class Applied(nn.Module):
    """A function of the inputs, each multiplied by a trained number."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, *inputs: Any) -> Any:
        return self.function(*(one * self.weight for one in inputs))


class Moved(TorchDispatchMode):
    """Counts the elements that kernels read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if not any(word in str(function) for word in _VIEWS):
            tensors = [one for one in (*args, out) if isinstance(one, torch.Tensor)]
            self.elements += sum(one.numel() for one in tensors)
        return out


def test_cosine_similarity_moves_what_torchs_kernels_move() -> None:
    x, y = (torch.randn(4, 30, 64, requires_grad=True) for _ in range(2))
    with Moved() as forward:
        out = torch.cosine_similarity(x, y, dim=-1)
    with Moved() as backward:
        out.backward(torch.ones_like(out))
    graph = graph_of(
        lambda: Applied(lambda x, y: torch.cosine_similarity(x, y, dim=-1)), "4x30x64", "4x30x64"
    )
    at = graph.targets.index("cosine_similarity")
    assert graph.read[at] + graph.written[at] == pytest.approx(4 * forward.elements, rel=0.1)
    assert graph.read_back[at] + graph.written_back[at] == pytest.approx(4 * backward.elements, rel=0.1)
    assert graph.notes == ()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: nn.Conv1d(6, 12, 5, stride=2, padding=2, dilation=2), "2x6x32"),
        (lambda: nn.Conv1d(8, 8, 9, padding=4, groups=8), "2x8x32"),
        (lambda: nn.Conv3d(2, 6, 3, stride=2, padding=1), "2x2x8x8x8"),
        (lambda: nn.ConvTranspose1d(8, 4, 16, 8, padding=4), "2x8x10"),
        (lambda: nn.ConvTranspose2d(8, 4, 2, stride=2, groups=2), "2x8x6x6"),
        (lambda: nn.ConvTranspose3d(4, 2, 2, stride=2), "2x4x4x4x4"),
    ],
)
def test_arithmetic_of_convolutions_of_every_kind(layer: Any, shape: str) -> None:
    """Forward as PyTorch counts it; backward once more for each of input and weight."""
    module, inputs = make_module(lambda: Applied(layer()), "here", (shape,))
    module.function.train()
    graph = capture_module(module, inputs)
    counted = torch_flops(module, inputs)
    assert counted is not None
    at = graph.kind_names.index("conv")
    assert graph.flops[at] == counted[0] > 0
    assert graph.flops_back[at] == 2 * graph.flops[at]
    weights = sum(one.numel() for one in module.function.parameters())
    assert graph.parameters[at] == weights


def test_instance_norm_and_interpolation_by_their_bytes() -> None:
    """The norm reads its input twice (statistics, then values); what grows is written once and read once."""

    def grown(x: Any) -> Any:
        return functional.interpolate(functional.instance_norm(x), scale_factor=2.0, mode="trilinear")

    graph = graph_of(lambda: Applied(grown), "2x3x4x4x4")
    bytes_in, bytes_out = 2 * 3 * 4**3 * 4, 2 * 3 * 8**3 * 4
    norm, larger = graph.targets.index("instance_norm"), graph.targets.index("upsample_trilinear3d")
    assert (graph.read[norm], graph.written[norm]) == (2 * bytes_in, bytes_in)
    assert (graph.read[larger], graph.written[larger]) == (bytes_in, bytes_out)
    assert (graph.read_back[larger], graph.written_back[larger]) == (bytes_out, bytes_in)
    assert graph.notes == ()


# the first op of Applied multiplies by its trained number


def test_tensors_made_of_nothing_read_nothing_and_carry_no_gradient() -> None:
    def drawn(x: Any) -> Any:
        noise = torch.empty_like(x).exponential_()
        return (torch.ones_like(x) * noise).sum()

    graph = graph_of(lambda: Applied(drawn), "4x8")
    of = {target: at for at, target in enumerate(graph.targets)}
    assert graph.written[of["empty_like"]] == graph.kernels[of["empty_like"]] == 0
    for target in ("exponential", "ones_like"):
        assert (graph.read[of[target]], graph.written[of[target]]) == (0, 4 * 8 * 4)
    assert graph.read_back[1:].sum() == graph.written_back[1:].sum() == 0
    assert graph.notes == ()


def test_no_gradient_flows_through_detach() -> None:
    held = graph_of(lambda: Applied(lambda x: (x.detach() * x.detach()).exp()), "4x8")
    free = graph_of(lambda: Applied(lambda x: (x * x).exp()), "4x8")
    assert held.targets == free.targets
    assert held.read_back[1:].sum() == 0 < free.read_back[1:].sum()


def test_losses_read_each_of_what_they_compare() -> None:
    """PyTorch spreads both to one shape before it compares them: views, whose gradients go back to their own."""
    graph = graph_of(lambda: Applied(lambda x, y: functional.mse_loss(x, y.detach() * 2)), "4x8", "4x8")
    at = graph.targets.index("mse_loss")
    read = graph.before[graph.first[at] : graph.first[at + 1]]
    assert [graph.targets[one] for one in read] == ["mul", "mul"]
    assert "broadcast_tensors" not in graph.targets
    assert graph.notes == ()


def test_weight_norm_is_a_norm_of_the_weights() -> None:
    graph = graph_of(lambda: nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3)), "2x4x16")
    at = graph.targets.index("_weight_norm")
    assert graph.kind_names[at] == "norm"
    assert np.isclose(graph.written[at], 4 * 8 * 4 * 3)
    assert graph.parameters.sum() == 8 * 4 * 3 + 8 + 8


@pytest.mark.parametrize("sparse", [False, True])
def test_sparse_gradients_touch_the_rows_of_a_batch_alone(sparse: bool) -> None:
    graph = graph_of(lambda: nn.Embedding(1000, 16, sparse=sparse), "8x4:int64")
    rows = 8 * 4 * 16 * 4.0
    if sparse:
        assert graph.parameters.sum() == 0
        assert (graph.read_back.sum(), graph.written_back.sum()) == (2 * rows + 8 * 4 * 8, rows)
        assert graph.notes == (
            "16,000 weights in tables with sparse gradients: a step reads and updates its own rows alone",
        )
    else:
        assert graph.parameters.sum() == 16_000
        assert graph.written_back.sum() == rows + 16_000 * 4
        assert graph.notes == ()
