"""Results of benchmarks next to predictions: through serve, compare and validate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.answers.compared_server import ComparedServer
from podsim.errors import PodsimError
from podsim.options.serving_options import ServeOptions
from podsim.serving.load.simulated_server import serve_load

RUN: dict[str, Any] = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": 4.0, "duration": 100.0,
    "completed": 500, "total_input_tokens": 500 * 300, "total_output_tokens": 500 * 60, "gpu": "NVIDIA H100 80GB HBM3",
    "tensor_parallel_size": 1,
}  # fmt: skip


def _file(tmp_path: Path, **figures: float) -> Path:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN | figures))
    return path


def test_a_run_is_predicted_as_it_ran(tmp_path: Path) -> None:
    own = serve_load(
        ServeOptions(
            model="llama-3.1-8b", on="h100", engine="vllm", tp=1, rate="4/s", requests=500, input_tokens="300",
            output_tokens="60",
        )
    )  # fmt: skip
    first = next(row for row in own.rows if row.name == "first token")
    path = _file(tmp_path, median_ttft_ms=2e3 * first.p50, p99_ttft_ms=1e3 * first.p99, output_throughput=1.0)
    answer = podsim.serve(measured=path)
    assert isinstance(answer, ComparedServer)
    figures = {figure.name: figure for figure in answer.rows}
    assert figures["ttft_p50"].error == pytest.approx(-0.5, abs=0.01)
    assert figures["ttft_p99"].error == pytest.approx(0.0, abs=0.01)
    assert figures["output_rate"].predicted == pytest.approx(own.output_rate, rel=0.01)


def test_compare_and_validate_take_the_same_file(tmp_path: Path) -> None:
    path = _file(tmp_path, mean_tpot_ms=10.0, output_throughput=240.0)
    compared = podsim.compare(path, on="h100")
    validation = podsim.validate(rows=path, on="h100")
    assert [figure.name for figure in compared.rows] == ["tpot_mean", "output_rate"]
    assert [row.id for comparison in validation.comparisons for row in comparison.rows] == [
        "run.json tpot_mean", "run.json output_rate",
    ]  # fmt: skip
    assert validation.comparisons[0].scores[0].role == "test"
    assert validation.comparisons[0].rows[0].error == pytest.approx(compared.rows[0].error)


def test_what_a_file_leaves_out_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"avg_latency": 1.0, "percentiles": {"50": 1.0}}))
    with pytest.raises(PodsimError, match="no model"):
        podsim.serve(measured=path)
    with pytest.raises(PodsimError, match="no GPU"):
        podsim.serve("gpt2", measured=path)
    with pytest.raises(PodsimError, match="no lengths"):
        podsim.serve("llama-3.1-8b", on="h100", measured=path)
    with pytest.raises(PodsimError, match="--batch"):
        podsim.serve("llama-3.1-8b", on="h100", tokens=128, output=16, measured=path)
    answer = podsim.serve("llama-3.1-8b", on="h100", tokens=128, output=16, batch="8", measured=path)
    assert {figure.name for figure in answer.rows} == {"step_mean", "step_p50"}


def test_other_files_of_validate_take_no_gpus(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(PodsimError, match="benchmark of servers"):
        podsim.validate(rows=path, on="h100")
