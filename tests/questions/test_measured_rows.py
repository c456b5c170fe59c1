"""Runs that the lab kept, read where tables of measurements are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from podsim.accuracy.measured_rows import read_measured
from podsim.accuracy.nccl_tests import gpu_name
from podsim.answers.lab import Emulated, MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import write_run
from podsim.answers.trained import MeasuredDdp, MeasuredTraining, TrainedStep
from podsim.errors import LabError, TableError
from podsim.questions.machine.collective import collective
from podsim.questions.operate.calibrate import calibrate
from podsim.questions.operate.validate import validate
from podsim.questions.train.predict import predict

SIZES = [1 << power for power in range(10, 31)]
SLOWER = 1.25
A100 = "NVIDIA A100-SXM4-80GB"


def _row(algorithm: str, size: int, seconds: float, wrong: int = 0) -> MeasuredCollective:
    return MeasuredCollective(
        algorithm=algorithm, size=float(size), count=size // 4, iterations=20, seconds=seconds, slowest=seconds,
        wrong=wrong, in_place=None, in_place_wrong=None, algorithm_bandwidth=size / seconds,
        bus_bandwidth=1.75 * size / seconds, messages=0, cpu=0.1, others=0.0,
    )  # fmt: skip


def _collectives(*rows: MeasuredCollective, device: str = A100) -> MeasuredCollectives:
    return MeasuredCollectives(
        collective="all-reduce", ranks=8, local=8, backend="nccl", device=device, software="torch 2.13.0",
        hosts=("a",) * 8, processes=tuple(range(8)), cores=128, emulated=None, apart=False, warmup=1, message=1e-5,
        started="2026-01-01T00:00:00+00:00", rows=rows,
    )  # fmt: skip


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """An all-reduce of a DGX A100 that takes a quarter longer than predicted, beside another algorithm's."""
    told = [collective("all-reduce", on="dgx-a100-80gb:1", sizes=str(size)).rows[0].seconds for size in SIZES]
    rows = [_row("library", size, SLOWER * seconds) for size, seconds in zip(SIZES, told, strict=True)]
    write_run(
        tmp_path / "sweep.jsonl",
        _collectives(_row("ring", 1024, 1.0), *rows, _row("library", 512, 1.0, wrong=1)),
    )
    return tmp_path / "sweep.jsonl"


def test_a_sweep_is_held_against_the_law(sweep: Path) -> None:
    """Of the library alone, and only where its sums were right; a launch by processes is what a log says, too."""
    (found,) = validate(rows=sweep).comparisons
    assert len(found.rows) == len(SIZES)
    assert not found.not_expressed
    error = found.rows[-1].predicted / found.rows[-1].measured - 1.0
    assert error == pytest.approx(1 / SLOWER - 1.0, abs=0.05)


def test_a_sweep_is_fitted(sweep: Path) -> None:
    made = calibrate([sweep], check=True)
    assert list(made.texts) == ["ampere.toml"]
    assert "sweep" in made.texts["ampere.toml"]


def _training(**changes: object) -> MeasuredTraining:
    plan: dict[str, int | str | bool] = {
        "tp": 2, "pp": 1, "dp": 4, "virtual_stages": 1, "micro_batch": 2, "global_batch": 16, "precision": "fp32",
        "recompute": "full", "zero": 1, "shard": 0, "sequence_parallel": True,
    }  # fmt: skip
    made = MeasuredTraining(
        model="gpt2", changes={"model.layers": "4"}, plan=plan, sequence=512, all_reduce="library", exchange="bsp",
        staleness=None, late={}, data="synthetic", seed=0, rate=1e-3, ranks=8, backend="nccl", device=A100,
        software="torch 2.13.0", hosts=("a",) * 8, cores=128, emulated=None, started="2026-01-01T00:00:00+00:00",
        resumed=(), cpu=0.1, others=0.0,
        rows=tuple(TrainedStep(step=n, loss=5.0, seconds=0.5 if n else 9.0) for n in range(8)),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_training_run_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    write_run(path, _training())
    (row,) = read_measured(path).rows
    assert {name: row.text(name) for name in ("model", "layers", "hidden", "gpu", "gpu_mem_gb", "tp", "dp")} == {
        "model": "gpt2", "layers": "4", "hidden": "768", "gpu": "A100-SXM4-80GB", "gpu_mem_gb": "80", "tp": "2",
        "dp": "4",
    }  # fmt: skip
    found = validate(rows=path).comparisons[0]
    assert found.rows[0].measured == pytest.approx(0.5)
    told = predict(
        "gpt2", on="dgx-a100-80gb", gpus=8, batch=16, tp=2, dp=4, micro_batch=2, sequence_parallel=True, zero=1,
        recompute="full", precision="fp32", sequence=512, software="pytorch-eager", overrides={"model.layers": "4"},
    )  # fmt: skip
    assert found.rows[0].predicted == pytest.approx(told.step_time, rel=0.1)


def test_a_run_on_processors_is_read_and_not_expressed(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    write_run(path, _training(device="CPU", backend="gloo"))
    assert validate(rows=path).comparisons[0].not_expressed
    write_run(path, _collectives(_row("library", 1024, 1.0), device="CPU"))
    ((_, reason),) = validate(rows=path).comparisons[0].not_expressed
    assert "GPUs like CPU" in reason


LINKS = Emulated(
    cluster="dgx-a100:2", scale=1e-3, servers=2, local=4, inside=1e8, between=1e7, nics=4, inside_burst=1e5,
    between_burst=1e5,
)  # fmt: skip


def test_what_no_table_holds_is_said(tmp_path: Path, podsim: Callable[..., Result]) -> None:
    path = tmp_path / "run.jsonl"
    for run, said in (
        (_collectives(_row("ring", 1024, 1.0)), "no right result of the library"),
        (replace(_collectives(_row("library", 1024, 1.0)), emulated=LINKS), "ran on emulated links"),
        (_training(exchange="async"), "exchange async"),
        (_training(sequence=0), "a residual network"),
        (_training(emulated=LINKS), "emulated links"),
    ):  # fmt: skip
        write_run(path, run)
        with pytest.raises(TableError, match=said):
            validate(rows=path)
    write_run(path, MeasuredDdp(
        layers=1, size=1e6, forward=0.0, backward=0.0, overlap=True, all_reduce="library", ranks=2, local=2,
        backend="gloo", software="", hosts=("a",) * 2, cores=2, emulated=None, message=0.0, started="", cpu=0.0,
        others=0.0, rows=(),
    ))  # fmt: skip
    done = podsim("validate", "--rows", path)
    assert done.exit_code == 2
    assert "podsim compare" in done.stderr
    path.write_text('{"format": "podsim-run", "version": 1, "kind": "collectives"}\n')
    with pytest.raises(LabError, match="is missing"):
        calibrate([path], check=True)


def test_gpus_by_what_their_driver_calls_them() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA H200", "Tesla V100-SXM2-32GB", A100)
    assert [gpu_name(one) for one in names] == [
        "H100-SXM5-80GB",
        "H200-SXM5-141GB",
        "V100-SXM2-32GB",
        "A100-SXM4-80GB",
    ]
