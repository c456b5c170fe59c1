"""Rows of the tables of vision, language, speech and recommendation training, and of MLPerf, as runs of networks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from curated_files import curated_file
from reference.curate_networks import network_cells, network_run
from reference.packaged import raw_rows

import podsim
from podsim.accuracy.calibrate_software import fit_software
from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.accuracy.tables import load, training_rows
from podsim.cli import app
from podsim.questions.operate.validate import validate

ROW = {
    "id": "mine", "role": "", "source": "", "path": "", "model": "Detection/SSD", "framework": "PyTorch", "task": "train",
    "gpu": "A100-80GB", "n_gpus": "8", "node_type": "DGX A100 80GB", "precision": "TF32", "batch_per_gpu": "64",
    "seq_len": "", "throughput": "2711", "unit": "images/s", "latency_ms": "", "time_to_train_h": "", "notes": "",
}  # fmt: skip
MLPERF = {
    "benchmark": "resnet", "framework": "MxNet NVIDIA Release 21.09", "accelerator": "NVIDIA A100-SXM4-80GB (400W)",
    "system": "dgxa100_n8", "n_accelerators": "64", "batch_per_accel": "51", "grad_accum": "1",
}  # fmt: skip


def test_every_training_row_is_expressed_or_says_why() -> None:
    for table in ("vision", "mlperf"):
        rows = [(row.id, row.fields) for row in load(table)]
        found, reasons = network_runs(rows)
        assert found.keys() | reasons.keys() == {id for id, _ in rows}
        assert not found.keys() & reasons.keys()


def test_a_row_by_hand() -> None:
    run = network_run("vision", ROW)
    assert (run.network, run.batch, run.accumulate, run.precision) == ("ssd300-resnet50", 64, 1, "tf32")
    assert (run.cluster.gpu.name, run.cluster.gpus, run.gpus) == ("a100-sxm4-80gb", 8, 8)
    one = network_run(
        "vision", {**ROW, "gpu": "V100-32GB", "node_type": "DGX-2", "n_gpus": "16", "precision": "FP32"}
    )
    assert (one.cluster.gpus_per_node, one.cluster.nodes) == (16, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "Detection/None"}, "no recipe covers PyTorch training of None"),
        ({"precision": "INT8"}, "'INT8' is not one of"),
        ({"batch_per_gpu": ""}, "batch_per_gpu is not given"),
        ({"batch_per_gpu": "76,38"}, "'76,38' is not a number"),
        ({"framework": "JAX"}, "no row marked calibrate measured this framework"),
        ({"unit": "tokens/s"}, "counts tokens, and how many a sample of ssd300-resnet50 has is not stated"),
        ({"batch_per_gpu": "0.2"}, "less than one sample"),
        ({"n_gpus": ""}, "n_gpus is not given"),
        ({"n_gpus": "many"}, "n_gpus='many' is not a number"),
        ({"gpu": "MI300X"}, "'MI300X'"),
        ({"gpu": ""}, "the GPU is not given"),
    ],
)
def test_a_row_that_cannot_be_expressed_says_why(change: dict[str, str], said: str) -> None:
    with pytest.raises(NotExpressible, match=said):
        network_run("vision", {**ROW, **change})


def test_batches_mean_what_the_entry_says() -> None:
    """MLPerf divides the batch of a step by the accelerators, so accumulation divides it further."""
    assert network_run("mlperf", MLPERF).batch == 51
    bert = {**MLPERF, "benchmark": "bert", "framework": "PyTorch", "batch_per_accel": "36", "grad_accum": "6"}
    run = network_run("mlperf", bert)
    assert (run.batch, run.accumulate) == (6, 6)
    assert run.cluster.nodes == 8


def test_the_rate_is_that_of_podsim_graph() -> None:
    run = network_run("vision", ROW)
    made = podsim.graph(
        run.network, on="dgx-a100-80gb:1", batch=run.batch, precision=run.precision, fuse=run.fuse,
        optimizer=run.optimizer, software=run.software,
    )  # fmt: skip
    assert made.data_parallel is not None
    assert NetworkCosts().rate(run) == pytest.approx(made.data_parallel.samples_per_second, rel=1e-9)


def test_accumulation_pays_the_update_once() -> None:
    from dataclasses import replace

    run, costs = network_run("vision", ROW), NetworkCosts()
    once, often = costs.rate(run), costs.rate(replace(run, accumulate=8))
    assert once < often < 1.5 * once


def test_converting_layouts_costs_what_is_read_and_written() -> None:
    """A 1 x 1 convolution on tensor cores, by hand: input and output once more each way forward, twice backward."""
    import numpy as np

    from podsim.graphs.graph_cost import plain_costs
    from podsim.graphs.networks import load_network
    from podsim.hardware.catalog import load_gpu

    gpu, graph = load_gpu("a100-sxm4-80gb"), load_network("resnet50", 32)
    first, last = (
        plain_costs(graph, gpu, "tf32", "flash2", channels_first=channels_first)
        for channels_first in (True, False)
    )
    conv = next(i for i, name in enumerate(graph.names) if name == "blocks.0.conv1")
    elements = 32 * 56 * 56 * (64 + 64)
    assert first.moved[conv] - last.moved[conv] == 2 * 4 * elements
    assert first.moved_back[conv] - last.moved_back[conv] == 4 * 4 * elements
    assert np.all(first.memory >= last.memory)
    same = [plain_costs(graph, gpu, "fp32", "flash2", channels_first=c).memory for c in (True, False)]
    assert np.array_equal(*same), "plain fp32 units take either layout"


def test_rows_of_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(",".join(ROW) + "\n" + ",".join(ROW.values()) + "\n")
    (found,) = validate(rows=curated_file("networks", path, tmp_path / "out.csv")).comparisons
    (row,) = found.rows
    assert row.measured == 2711
    assert 0.7 < row.predicted / row.measured < 1.4


@pytest.mark.parametrize(
    ("change", "network", "software", "items", "batch"),
    [
        (
            {"model": "resnet50", "framework": "MXNet", "batch_per_gpu": "128"},
            "resnet50",
            "dle-mxnet",
            1,
            128,
        ),
        (
            {"model": "ResNet-50 v1.5", "framework": "TF2", "batch_per_gpu": ""},
            "resnet50",
            "dle-tensorflow2",
            1,
            256,
        ),
        ({"model": "bert_large_squad"}, "bert-large-384", "dle-pytorch", 1, 64),
        (
            {"model": "transformerxlbase", "unit": "tokens/s"},
            "transformer-xl-base",
            "dle-pytorch-unfused",
            192,
            64,
        ),
        ({"model": "GNMT", "unit": "Sentences/sec"}, "gnmt", "dle-pytorch", 1, 64),
        ({"model": "gnmt", "unit": "k tok/s"}, "gnmt", "dle-pytorch", 49, 64),
        ({"model": "bert_large_squad", "unit": "tokens/s"}, "bert-large-384", "dle-pytorch", 384, 64),
        ({"model": "ncf", "batch_per_gpu": "1,048,576 (global)"}, "ncf", "dle-pytorch", 1, 131_072),
        ({"batch_per_gpu": "64/32"}, "ssd300-resnet50", "dle-pytorch", 1, 32),
        ({"batch_per_gpu": "64@AMP, 16@TF32"}, "ssd300-resnet50", "dle-pytorch", 1, 16),
    ],
)
def test_a_row_is_read_as_anybody_writes_it(
    change: dict[str, str], network: str, software: str, items: float, batch: int
) -> None:
    run = network_run("vision", {**ROW, **change})
    assert (run.network, run.software, run.items, run.batch) == (network, software, items, batch)


def test_a_raw_row_is_read_as_the_packaged_one() -> None:
    for table in ("vision", "mlperf"):
        for raw, packaged in zip(raw_rows(table), load(table), strict=True):
            if packaged.text("plan").startswith("inference "):
                assert network_cells(table, raw)["plan"] == packaged.text("plan"), packaged.id
            elif packaged.text("plan"):
                assert network_run(table, raw) == network_run(table, packaged.fields), packaged.id


def test_no_run_is_fitted_to_test_rows() -> None:
    rows = training_rows()
    own = [
        row
        for row in rows
        if row.get("framework") == "MxNet" and row.get("model") == "Classification/RN50v1.5"
    ]
    spoiled = [row if row["role"] == "calibrate" else {**row, "throughput": "1"} for row in own]
    names = ["conv_speed"]
    assert fit_software(own, "dle-mxnet", names) == fit_software(spoiled, "dle-mxnet", names)


def test_an_entry_in_a_precision_covers_that_alone() -> None:
    rows = [row for row in training_rows() if row.get("framework") == "TensorFlow"]
    half = fit_software(rows, "dle-tensorflow.volta", ["conv_speed"])
    full = fit_software(rows, "dle-tensorflow.volta-fp32", ["conv_speed"])
    assert half.rows_used
    assert full.rows_used
    assert not {*half.rows_used} & {*full.rows_used}


def test_a_step_on_several_gpus_answers_for_all_of_them_first() -> None:
    lines = CliRunner().invoke(app, ["predict", "resnet50", "--on", "dgx-a100"]).stdout.splitlines()
    answer = podsim.graph("resnet50", on="dgx-a100", batch=32)
    assert answer.data_parallel is not None
    first = next(line for line in lines if " a step" in line)
    assert f"on 8 GPUs: {answer.data_parallel.samples_per_second:,.0f} samples/s" in first


def test_a_plan_of_a_network_is_its_best_division() -> None:
    planned = json.loads(CliRunner().invoke(app, ["plan", "resnet50", "--on", "dgx-a100", "--json"]).stdout)
    assert planned["step_time"] == podsim.shard("resnet50", on="dgx-a100").step_time
    refused = CliRunner().invoke(app, ["plan", "resnet50", "--on", "dgx-a100", "--tokens", "1T"])
    assert refused.exit_code == 2
    assert "--tokens says nothing of it" in " ".join(refused.stderr.split())


def test_frozen_layers_shorten_the_step_and_the_exchange() -> None:
    options = {"on": "dgx-a100", "batch": 256}
    frozen, full = (podsim.graph("resnet50", train=train, **options) for train in ("frozen:20", "full"))
    assert frozen.parameters == full.parameters
    assert frozen.forward == full.forward
    assert frozen.backward < full.backward
    assert frozen.memory.total < full.memory.total
    assert frozen.data_parallel is not None
    assert full.data_parallel is not None
    assert full.data_parallel.bytes - frozen.data_parallel.bytes == 4 * 1_098_304
