"""Replicas of a network: options and batches; sheets, modules of files, and costs of layouts and of sparse weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsim.errors import ModelError, PodsimError
from podsim.graphs.graph_cost import graph_costs, plain_costs, sparse_costs
from podsim.graphs.module_capture import any_batch, at_samples, captured, captured_for_any, captured_graph
from podsim.graphs.network_sheets import all_networks_sheet, network_sheet
from podsim.graphs.networks import load_network
from podsim.graphs.op_graph import DIMS, KINDS
from podsim.graphs.op_graph_batch import at_batch
from podsim.graphs.replicated_network import division_options, graph_options
from podsim.hardware.catalog import load_gpu
from podsim.kernels.recurrent import recurrent_seconds
from podsim.training.software import load_software

A100 = load_gpu("a100-sxm4-80gb")


@pytest.mark.parametrize(
    ("given", "gpus", "batch"),
    [
        ({}, None, 32), ({"model": "DLRM"}, None, 4096), ({"gpus": 16, "batch": "4,096"}, 16, 256),
        ({"dp": 8, "batch": 8}, 8, 1),
    ],
)  # fmt: skip
def test_a_batch_is_that_of_all_gpus(given: dict[str, Any], gpus: int | None, batch: int) -> None:
    found = graph_options({"model": "resnet50", "on": "dgx-a100", **given})
    assert (found["gpus"], found["batch"], found["on"]) == (gpus, batch, "dgx-a100")
    assert found["file"] == given.get("model", "resnet50").lower()


@pytest.mark.parametrize("batch", [0, 7, "many", "1e3", -16, 10**12])
def test_a_batch_that_gpus_do_not_divide(batch: object) -> None:
    with pytest.raises(PodsimError, match="a multiple of the 16 GPUs"):
        graph_options({"model": "resnet50", "on": "dgx-a100", "gpus": 16, "batch": batch})


def test_options_of_a_transformers_layout_say_nothing() -> None:
    with pytest.raises(
        PodsimError, match="resnet50 is a captured network, no transformer: --tp, --recompute say"
    ):
        graph_options({"model": "resnet50", "on": "dgx-a100", "tp": 2, "recompute": "full"})
    found = division_options({"model": "dlrm", "on": "dgx-a100", "gpus": 8, "batch": None, "top": 3})
    assert found == {"model": "dlrm", "on": "dgx-a100", "gpus": 8}


def test_a_sheet_of_a_network() -> None:
    """ResNet-50: 25,557,032 parameters; torchvision's 4.09 G multiply-adds, two FLOP each."""
    page = network_sheet("resnet50")
    assert page.row("parameters").value == 25_557_032
    assert page.row("forward").value == pytest.approx(2 * 4.09e9, rel=0.01)
    assert page.row("backward").value == pytest.approx(4 * 4.09e9, rel=0.03)
    assert page.row("ops").how.startswith("53 conv") or ", 53 conv" in page.row("ops").how
    assert page.row("captured").text == "examples/modules/resnet50.py:training"
    with pytest.raises(KeyError):
        page.row("tables")
    tables = network_sheet("dlrm")
    assert tables.row("tables").value >= tables.row("largest table").value
    assert tables.row("tables").value == pytest.approx(4 * tables.row("table weights").value)
    every = all_networks_sheet()
    assert every.row("resnet50").value == 25_557_032
    assert every.row("dlrm").value > tables.row("table weights").value


def test_shapes_with_an_open_batch() -> None:
    assert [any_batch(shapes) for shapes in ([], ["2x3"], ["2x3", "Bx4:int64"], ["2:Bool"])] == [
        False,
        False,
        True,
        False,
    ]
    assert at_samples(["Bx3x224", "B:int64", "7"], 5) == ["5x3x224", "5:int64", "7"]


@pytest.fixture
def net(tmp_path: Path) -> str:
    pytest.importorskip("torch")
    (tmp_path / "sizes.py").write_text("WIDTH = 5\n")
    (tmp_path / "net.py").write_text(
        "from sizes import WIDTH\nfrom torch import nn\nprint('hello')\n"
        "def build():\n    return nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU())\n"
    )
    return f"{tmp_path / 'net.py'}:build"


def test_a_function_of_a_file_is_captured(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    graph, counted = captured(net, ["4x3"], count=True)
    assert (graph.targets, graph.batch, graph.source) == (
        ("linear", "relu"),
        4,
        "captured from net.py:build, 4x3",
    )
    assert counted is not None
    assert counted[0] == 2 * 4 * 3 * 5
    assert captured(net, ["4x3"], count=False)[1] is None
    assert capsys.readouterr().out == ""
    any_ = captured_for_any(net, ["Bx3"])
    assert at_batch(any_, 7)["ops"][0]["flops"] == 2 * 7 * 3 * 5
    assert any_["source"] == "captured from net.py:build, Bx3"
    assert captured_graph(net, ["Bx3"], 6).batch == 6


@pytest.mark.parametrize(
    ("shapes", "batch", "said"),
    [
        (["Bx3"], None, "say which: --batch 32"),
        (["4x3"], 8, "is for --input with B"),
        (["3xB"], None, "first size"),
    ],
)
def test_a_batch_of_a_file_is_asked_for(net: str, shapes: list[str], batch: int | None, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        captured_for_any(net, shapes) if "first" in said else captured_graph(net, shapes, batch)


@pytest.mark.parametrize(
    ("ending", "said"),
    [(":buidl", "unknown function 'buidl': did you mean build"), (":1", "expected FILE.py:FUNCTION")],
)
def test_a_function_that_is_not_there(net: str, ending: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        captured(net.replace(":build", ending), ["4x3"], count=False)
    with pytest.raises(ModelError, match="the inputs of resnet50 are in the graph"):
        captured_graph("resnet50", ["4x3"], 4)
    with pytest.raises(ModelError, match="name the function that gives the module"):
        captured_graph("net.py", [], None)


def test_layouts_are_turned_both_ways() -> None:
    """The stem of ResNet-50 in fp16, 2 images: 3 x 224^2 in and 64 x 112^2 out are read and written once more."""
    graph = load_network("resnet50", 2)
    stem = graph.kind_names.index("conv")
    plain, turned = (
        plain_costs(graph, A100, "fp16", "flash2", channels_first=flag) for flag in (False, True)
    )
    more = 2 * 2 * 2 * (3 * 224**2 + 64 * 112**2)
    assert turned.moved[stem] - plain.moved[stem] == pytest.approx(more)
    assert turned.moved_back[stem] - plain.moved_back[stem] == pytest.approx(
        more * graph.gradient[stem].sum()
    )
    others = graph.kind != KINDS.index("conv")
    assert (turned.moved[others] == plain.moved[others]).all()
    deep = graph.dims.copy()
    deep[stem, DIMS["conv"].index("groups")] = deep[stem, DIMS["conv"].index("channels")]
    alone = [
        plain_costs(replace(graph, dims=deep), A100, "fp16", "flash2", channels_first=f)
        for f in (False, True)
    ]
    assert alone[0].moved[stem] == alone[1].moved[stem]
    wide = [plain_costs(graph, A100, "fp32", "flash2", channels_first=f).moved[stem] for f in (False, True)]
    assert wide[0] == wide[1]


def test_sparse_weights_save_in_products_with_weights() -> None:
    graph = load_network("bert-large-384", 1)
    dense = graph_costs(graph, A100, "fp16", load_software("megatron-core", A100))
    share = sparse_costs(graph, dense).forward / np.where(dense.forward > 0, dense.forward, 1.0)
    products = np.isin(graph.kind, [KINDS.index("gemm"), KINDS.index("conv")]) & (graph.parameters > 0)
    assert share[products] == pytest.approx(1 / 1.26)
    rest = ~products & (dense.forward > 0)
    assert (share[rest] == 1).all()
    assert rest.any()


def test_recurrent_layers_take_their_loops_backward_too() -> None:
    graph = load_network("gnmt", 4)
    costs = plain_costs(graph, A100, "fp16", "flash2")
    op = graph.kind_names.index("recurrent")
    sizes = dict(zip(DIMS["recurrent"], graph.dims[op].astype(float), strict=False))
    there, state, weight = (
        float(recurrent_seconds(A100, part, **sizes, precision="fp16"))
        for part in ("forward", "state", "weight")
    )
    assert costs.product[op] == pytest.approx(there)
    assert graph.gradient[op].all()
    assert costs.product_back[op] == pytest.approx(state + weight)
