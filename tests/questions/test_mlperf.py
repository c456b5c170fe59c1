"""`podsim mlperf`: the white paper's Table 1, other rounds, and bad input."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import PodsimError

PAPER = {
    "dlrm": (8, 3.33, 0.44), "bert": (2048, 0.81, 6.53), "minigo": (1792, 17.07, 39.96),
    "transformer": (480, 0.62, 1.05), "gnmt": (1024, 0.71, 1.04), "maskrcnn": (256, 10.46, 10.95),
    "ssd": (1024, 0.82, 1.36), "resnet": (1840, 0.76, 5.30),
}  # fmt: skip
"""Benchmark -> (GPUs, minutes at scale, hours of one GPU) of the DGX A100 white paper, Table 1."""


def test_table_1_of_the_white_paper() -> None:
    table = podsim.mlperf("v0.7", on="selene-2020-06")
    rows = {row.benchmark: row for row in table.rows}
    assert rows.keys() == PAPER.keys()
    for name, (gpus, minutes, hours) in PAPER.items():
        row = rows[name]
        assert row.run
        assert row.node
        assert row.published
        assert row.node_published
        assert row.run.gpus == gpus
        assert row.published / 60 == pytest.approx(minutes, abs=0.0051)
        assert row.node_published * 8 / 3600 == pytest.approx(hours, abs=0.006)
        assert row.run.seconds_low < row.run.seconds < row.run.seconds_high
    assert table.compared == 16
    assert table.mean_error is not None
    assert table.mean_error <= 0.12
    of_role = {"calibrate": [row.node_error for row in table.rows], "test": [row.error for row in table.rows]}
    of_role["calibrate"].append(rows["dlrm"].error)  # the run at scale is the node's
    of_role["test"].remove(rows["dlrm"].error)
    means = {
        role: sum(abs(error or 0.0) for error in errors) / len(errors) for role, errors in of_role.items()
    }
    assert table.mean_errors == pytest.approx(means)


def test_submissions_of_another_round() -> None:
    table = podsim.mlperf("4.1", on="dgx-h200:1", benchmark=("bert", "gnn"))
    assert [row.benchmark for row in table.rows] == ["bert", "gnn"]
    assert all(abs(row.error) < 0.2 for row in table.rows if row.error is not None)
    assert table.compared == 2


def test_more_gpus_take_less_time_and_a_batch_is_kept() -> None:
    small, large = (
        podsim.mlperf("v5.0", on="dgx-h100:8", benchmark="retinanet", gpus=gpus) for gpus in (8, 64)
    )
    assert small.rows[0].run
    assert large.rows[0].run
    assert large.rows[0].run.seconds < small.rows[0].run.seconds
    own = podsim.mlperf("v5.0", on="dgx-h100:1", benchmark="retinanet", batch=512).rows[0].run
    assert own is not None
    assert own.batch == 512


def test_samples_of_ones_own() -> None:
    half, full = (
        podsim.mlperf("v5.0", on="dgx-h100:1", benchmark="bert", batch=768.0, samples=samples).rows[0].run
        for samples in (1e6, 2e6)
    )
    assert half
    assert full
    assert full.training == pytest.approx(2 * half.training)


def test_what_cannot_be_predicted_says_why() -> None:
    table = podsim.mlperf("v5.1", on="dgx-h100:1", benchmark=("flux1", "retinanet"))
    assert table.rows[0].run is None
    assert "neither a network nor steps" in table.rows[0].notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"round": "v9.9"}, "no benchmark of it"),
        ({"round": "v0.7", "benchmark": "brt"}, "did you mean"),
        ({"round": "v5.0", "benchmark": "gnmt"}, "v0.5 to v0.7"),
        ({"round": "v0.7", "batch": -1.0}, "above 0"),
        ({"round": "v5.1", "benchmark": "flux1"}, "neither a network"),
        ({"round": "v0.7", "benchmark": "minigo", "batch": 1.0}, "batch of 4,096 only"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(PodsimError, match=message):
        podsim.mlperf(**{"on": "dgx-h100:1", **options})
