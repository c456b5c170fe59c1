"""Minutes of MLPerf Training: other submitters' rows, and that no test row makes a law."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from podsim.accuracy.price_minutes import price_minutes
from podsim.accuracy.tables import load, measurement
from podsim.accuracy.target_runs import candidate_batches, round_to
from podsim.learning.benchmarks import convergence_law, convergence_rows, find_benchmark
from podsim.questions.operate.validate import validate


@pytest.mark.parametrize(("table", "bar"), [("minutes-hopper", 0.20), ("minutes-own-samples", 0.12)])
def test_minutes_of_other_submitters(table: str, bar: float) -> None:
    rows = load(table).where(role="test")
    rows = replace(rows, rows=rows.rows[::3])
    priced = price_minutes(rows)
    errors = defaultdict(list)
    for row in rows:
        measured = measurement(row, rows.what)
        if row.id in priced.predictions and measured:
            errors[row.text("benchmark")].append(abs(priced.predictions[row.id] / measured.value - 1))
    assert len(errors) >= 7
    assert np.mean([np.mean(each) for each in errors.values()]) <= bar


def test_test_rows_make_no_law() -> None:
    largest = max(
        row.point.batch for row in convergence_rows() if row.benchmark == "bert" and row.role == "test"
    )
    law = convergence_law(find_benchmark("bert"), "v5.0")
    assert law.largest < largest


POINTS = """\
version,benchmark,batch,n_seeds,mean,sd,unit
1.0.0,novel,64,10,1125,20,samples
1.0.0,novel,128,10,1250,20,samples
1.0.0,novel,256,10,1500,20,samples
1.0.0,novel,512,10,2000,20,samples
5.0.0,rgat,4096,20,0.79,0.03,epochs (fraction)
"""


def test_points_of_a_users_file(tmp_path: Path) -> None:
    """Each batch of a benchmark that podsim does not know is predicted from the others of the file."""
    path = tmp_path / "points.csv"
    path.write_text(POINTS, "utf-8")
    (comparison,) = validate(rows=path).comparisons
    errors = {row.id: abs(row.predicted / row.measured - 1) for row in comparison.rows}
    assert len(errors) == 5
    assert max(errors.values()) < 0.06


def test_minutes_of_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "minutes.csv"
    path.write_text(
        "version,benchmark,accelerator,n_accelerators,framework,global_batch,minutes_score,last_eval_mean\n"
        "v5.0,bert,NVIDIA H100-SXM5-80GB,8,NGC Pytorch,768,5.5,2488571.0\n"
        "v5.0,bert,Abacus 3000,8,NGC Pytorch,768,5.5,2488571.0\n"
        "v0.5,resnet,Tesla V100-SXM2-16GB,8,MXNet,208,134.6,\n",
        "utf-8",
    )
    (comparison,) = validate(rows=path).comparisons
    (row,) = comparison.rows
    assert row.predicted == pytest.approx(row.measured, rel=0.1)
    assert len(comparison.not_expressed) == 2


def test_batches_to_choose_from_reach_half_and_twice_the_published_ones() -> None:
    """BERT v1.1 was published from 256 to 12,288 sequences; between them are whole samples on each of 64 GPUs."""
    batches = candidate_batches(find_benchmark("bert"), "v1.1", 64)
    assert (batches[0], batches[-1]) == (128.0, 24576.0)
    assert {256.0, 448.0, 12288.0} < set(batches)
    assert not [batch for batch in batches if batch % 64]
    assert [round_to(batch, 64) for batch in (3.0, 30.0, 100.0, 170.0)] == [4.0, 32.0, 128.0, 192.0]
