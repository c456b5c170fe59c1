"""The packaged networks: what is packaged is what the modules capture to, for any batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from podsim.errors import ModelError
from podsim.graphs.module_capture import captured_graph
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph_batch import at_batch, for_any_batch, is_for_any_batch, side_by_side
from podsim.graphs.op_graph_json import read_graph, read_value, to_text, to_value, write_value
from podsim.graphs.served_graph import _input_bytes, packaged_graph, value_graph
from podsim.workload.catalog import model_names

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "examples" / "modules"
PACKAGED = ROOT / "src" / "podsim" / "graphs" / "networks"


@pytest.mark.parametrize("name", networks())
def test_a_packaged_network_is_what_its_entry_says(name: str) -> None:
    one, graph = networks()[name], load_network(name, 4)
    assert abs(graph.parameters.sum() / one.parameters - 1) <= one.parameters_within
    assert graph.name == one.title
    assert graph.batch == 4
    assert graph.flops.sum() > 0
    assert (graph.flops_back >= graph.flops * (graph.gradient.sum(axis=1) > 0)).mean() > 0.9
    assert name not in model_names(), "a model of the catalog has this name"


@pytest.mark.parametrize("name", networks())
def test_arithmetic_grows_with_the_batch_and_weights_do_not(name: str) -> None:
    small, large = load_network(name, 8), load_network(name, 16)
    assert 1.5 < large.flops.sum() / small.flops.sum() <= 2.0  # what all samples share is computed once
    assert large.parameters.sum() == small.parameters.sum()
    assert np.all(large.read >= small.read)
    assert 1.5 < large.kept.sum() / small.kept.sum() <= 2.0


def test_every_packaged_file_has_an_entry() -> None:
    packaged = {path.name.removesuffix(".json.gz") for path in PACKAGED.glob("*.json.gz")}
    assert packaged == {one.graph or name for name, one in networks().items()}


def _packaged(name: str) -> Path:
    """The file of a network's graph, which may be that of another network."""
    return PACKAGED / f"{networks()[name].graph or name}.json.gz"


SHORT = (
    "bert-base-128",
    "dcnv2",
    "dlrm",
    "efficientnet-b0",
    "ncf",
    "resnet50",
    "transformer-xl-base",
    "vnet",
)
"""networks that every run captures; PODSIM_LONG=1 captures all"""


@pytest.mark.torch
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in SHORT)) for name in networks()]
)
def test_a_module_captures_to_what_is_packaged(name: str) -> None:
    pytest.importorskip("torch")
    from podsim.graphs.module_capture import at_samples, captured

    one = networks()[name]
    found, _ = captured(str(MODULES / one.module), at_samples(one.inputs, 6), count=False)
    packaged = at_batch(read_value(_packaged(name)), 6)
    told = {**to_value(found), "name": packaged["name"], "source": packaged["source"]}
    assert json.loads(to_text(told)) == packaged


@pytest.mark.parametrize("name", networks())
def test_between_two_graphs_lies_what_the_file_says(name: str) -> None:
    path = _packaged(name)
    found, read = load_network(name, 24), read_graph(path, 24)
    assert (found.batch, found.shapes, found.targets) == (24, read.shapes, read.targets)
    assert np.array_equal(found.dims, read.dims)
    assert np.array_equal(found.before, read.before)
    for column in (
        "flops",
        "flops_back",
        "read",
        "written",
        "read_back",
        "written_back",
        "kept",
        "output",
        "carried",
    ):
        assert np.allclose(getattr(found, column), getattr(read, column), rtol=1e-12), column


def _op(name: str, **numbers: float) -> dict[str, object]:
    return {
        "name": name,
        "op": "relu",
        "kind": "elementwise",
        "shape": [1],
        "before": [],
        "carries": [],
        **numbers,
    }


def test_numbers_for_any_batch_by_hand() -> None:
    values = [(b, {"batch": b, "ops": [_op("a", read=10 * b + 4, kept=7)]}) for b in (3, 5, 8)]
    made = for_any_batch(values)
    assert is_for_any_batch(made)
    assert made["ops"][0]["read"] == {"fixed": 4, "per_sample": 10}
    assert made["ops"][0]["kept"] == 7
    assert at_batch(made, 100)["ops"][0]["read"] == 1004
    assert at_batch(made, 100)["batch"] == 100


def test_a_number_that_is_zero_at_one_batch() -> None:
    """A graph's JSON leaves zeros out."""
    values = [(b, {"batch": b, "ops": [_op("a", **({"read": b - 3} if b > 3 else {}))]}) for b in (3, 5, 8)]
    assert at_batch(for_any_batch(values), 10)["ops"][0]["read"] == 7


def test_uneven_growth_is_refused_by_name() -> None:
    values = [(b, {"batch": b, "ops": [_op("the op", read=b * b)]}) for b in (3, 5, 8)]
    with pytest.raises(
        ModelError, match=r"op 'the op' read is not linear in the batch.*9 at 3, 25 at 5, 64 at 8"
    ):
        for_any_batch(values)


def test_a_graph_that_changes_is_refused() -> None:
    values = [(b, {"batch": b, "ops": [_op(f"op {i}") for i in range(b)]}) for b in (3, 5, 8)]
    with pytest.raises(ModelError, match="beyond its numbers"):
        for_any_batch(values)


def test_a_batch_is_asked_for_or_refused(tmp_path: Path) -> None:
    value = read_value(PACKAGED / "resnet50.json.gz")
    write_value(value, tmp_path / "any.json.gz")
    assert read_graph(tmp_path / "any.json.gz", 32).batch == 32
    with pytest.raises(ModelError, match="--batch 32"):
        read_graph(tmp_path / "any.json.gz")
    for wrong in (0, -1, True, 2**40):
        with pytest.raises(ModelError, match="whole number from 1"):
            read_graph(tmp_path / "any.json.gz", wrong)
    write_value(to_value(load_network("resnet50", 8)), tmp_path / "one.json")
    assert read_graph(tmp_path / "one.json", 8).batch == 8
    with pytest.raises(ModelError, match="captured for 8 samples"):
        read_graph(tmp_path / "one.json", 9)


def test_graphs_side_by_side_have_the_ops_of_each() -> None:
    one, two = load_network("resnet50", 1), load_network("resnet50", 2)
    both = side_by_side([one, two, one])
    count = len(one.kind)
    assert len(both.kind) == len(both.names) == len(both.shapes) == 3 * count
    assert both.flops[:count].tolist() == both.flops[2 * count :].tolist() == one.flops.tolist()
    assert both.flops[count : 2 * count].sum() == 2 * one.flops.sum()
    assert both.first.tolist() == [0] * (3 * count + 1)


def test_a_network_by_name_has_the_batch_asked_for() -> None:
    assert captured_graph("resnet50", (), 4).batch == 4
    with pytest.raises(ModelError, match="say how many samples"):
        captured_graph("resnet50", (), None)


def test_inputs_of_a_sample_in_bytes() -> None:
    """4 B a number, 8 B of an int64: an image of 3 x 4 x 5 and two words."""
    assert _input_bytes(("Bx3x4x5", "Bx2:int64", "B:int64")) == 4 * 60 + 8 * 2 + 8
    assert packaged_graph("resnet50").sample_bytes == pytest.approx(4 * 3 * 224 * 224, abs=8)


def test_a_file_is_served_if_it_holds_any_batch() -> None:
    value = read_value(PACKAGED / "resnet50.json.gz")
    made = value_graph(value, "folder/mine.json.gz")
    assert (made.name, made.single.batch, made.double.batch) == ("mine", 1, 2)
    assert made.graph(7).flops.tolist() == pytest.approx(load_network("resnet50", 7).flops.tolist())
    # the first convolution reads an image in fp32 beside its weights, which do not grow
    assert made.sample_bytes == 4 * 3 * 224 * 224
    with pytest.raises(ModelError, match="captured for 8 samples alone; serving forms batches"):
        value_graph(to_value(load_network("resnet50", 8)), "one.json")


@pytest.mark.parametrize("data", [b"plain text", b"\x1f\x8b\x08\x00garbage", b""])
def test_a_file_that_is_not_gzipped_says_so(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json.gz").write_bytes(data)
    with pytest.raises(ModelError, match=r"not JSON|cannot be read"):
        read_value(tmp_path / "x.json.gz")


def test_an_unknown_network_names_the_closest() -> None:
    with pytest.raises(ModelError, match="did you mean resnet50"):
        load_network("resnet-50", 8)
