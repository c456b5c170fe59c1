"""Recurrent layers of PyTorch: parameters and forward arithmetic are its own, steps and edges are the layer's."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.errors import ModelError
from podsim.graphs.capturing import capture_module, make_module, torch_flops
from podsim.graphs.fusion import fuse
from podsim.graphs.op_graph_json import graph_of, to_value

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
from torch import nn  # noqa: E402

SAMPLES, STEPS, WIDTH, HIDDEN = 3, 10, 16, 24


class Net(nn.Module):
    """A recurrent layer over embedded words, whose gradient is wanted as well."""

    def __init__(self, cell: str, **options: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(50, WIDTH)
        self.cell = getattr(nn, cell)(WIDTH, HIDDEN, **options)
        self.first = options.get("batch_first", False)

    def forward(self, words: Any) -> Any:
        return self.cell(self.words(words if self.first else words.transpose(0, 1)))[0]


def captured(cell: str, **options: Any) -> tuple[Any, Any, tuple[float, float] | None]:
    module, inputs = make_module(lambda: Net(cell, **options).train(), "here", (f"{SAMPLES}x{STEPS}:int64",))
    return capture_module(module, inputs), module, torch_flops(module, inputs)


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_first": True}, {"bidirectional": True}, {"num_layers": 3, "dropout": 0.2, "bidirectional": True},
     {"num_layers": 2, "bias": False}],
)  # fmt: skip
def test_parameters_and_arithmetic_are_torchs_own(cell: str, options: dict[str, Any]) -> None:
    graph, module, counted = captured(cell, **options)
    assert counted is not None
    assert graph.flops.sum() == counted[0]
    assert graph.parameters.sum() == sum(p.numel() for p in module.parameters())
    assert graph.notes == ()
    directions, layers = 1 + options.get("bidirectional", False), options.get("num_layers", 1)
    assert graph.count("recurrent") == layers
    assert graph.targets.count("dropout") == (layers - 1 if options.get("dropout") else 0)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[cell]
    loops = graph.dims[[kind == "recurrent" for kind in graph.kind_names], :5]
    assert loops.tolist() == [[STEPS, directions, SAMPLES, gates * HIDDEN, HIDDEN]] * layers
    # backward PyTorch computes no gradient of the state before the first step; a library's kernels do
    spared = layers * directions * 2 * SAMPLES * gates * HIDDEN * HIDDEN
    assert graph.flops_back.sum() - (counted[1] - counted[0]) == pytest.approx(spared)


def test_a_layer_reads_the_one_before_it() -> None:
    graph, _, _ = captured("LSTM", num_layers=2)
    where = {name: i for i, name in enumerate(graph.targets) if name in ("embedding", "zeros")}
    ops = [i for i, target in enumerate(graph.targets) if target.startswith("lstm")]
    assert [graph.targets[i] for i in ops] == ["lstm_inputs", "lstm"] * 2
    before = [graph.before[graph.first[i] : graph.first[i + 1]].tolist() for i in ops]
    assert before == [[where["embedding"]], [ops[0]], [ops[1]], [ops[2]]]
    states = SAMPLES * STEPS * HIDDEN * 4
    assert graph.kept[ops[1]] == states * (1 + 4 + 1)  # the result, four gates and the cell
    assert graph_of(to_value(graph), "here").dims.tolist() == graph.dims.tolist()
    assert fuse(graph).count("recurrent") == 2


@pytest.mark.parametrize(("name", "gates"), [("LSTMCell", 4), ("GRUCell", 3), ("RNNCell", 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_cells_are_layers_of_one_step(name: str, gates: int, bias: bool) -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = getattr(nn, name)(WIDTH, HIDDEN, bias=bias)

        def forward(self, x: Any) -> Any:
            return self.cell(x)

    module, inputs = make_module(Cell, "here", (f"{SAMPLES}x{WIDTH}",))
    graph, counted = capture_module(module, inputs), torch_flops(module, inputs)
    assert counted is not None
    assert graph.flops.sum() == counted[0] == 2 * SAMPLES * gates * HIDDEN * (WIDTH + HIDDEN)
    assert graph.parameters.sum() == gates * HIDDEN * (WIDTH + HIDDEN + 2 * bias)
    loop = graph.kind_names.index("recurrent")
    assert graph.dims[loop, :5].tolist() == [1, 1, SAMPLES, gates * HIDDEN, HIDDEN]


def test_packed_sequences_are_refused() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(WIDTH, HIDDEN)

        def forward(self, x: Any) -> Any:
            lengths = torch.tensor([STEPS] * SAMPLES, device="cpu")
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
            return self.cell(packed)[0].data

    module, inputs = make_module(Packed, "here", (f"{STEPS}x{SAMPLES}x{WIDTH}",))
    with pytest.raises(ModelError, match="PackedSequence"):
        capture_module(module, inputs)
