"""Fits: from calibrate rows only, the same every time, the packaged constants among them; a user's files too."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from podsim.accuracy.calibrate_software import CONSTANTS, fit_software, toml_entry
from podsim.accuracy.calibration import Drift
from podsim.accuracy.tables import training_rows
from podsim.errors import CatalogError, PodsimError, TableError
from podsim.kernels.constants import load_constants
from podsim.questions.operate.calibrate import calibrate
from podsim.report.calibration_tables import calibration_report
from podsim.report.screen import report_text

pytest.importorskip("scipy")
ROWS = training_rows()
LAYERS = [row for row in ROWS if row["id"].startswith(("KORT-", "KORTL-"))]
LOG = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 134217728 step: 2(factor)
#  Rank  0 Group  0 Pid  10 on node1 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  11 on node1 device  1 [0x0f] NVIDIA A100-SXM4-80GB
        1024           256     float     sum      -1    16.97    0.06    0.06      0    16.82    0.06    0.06      0
     1048576        262144     float     sum      -1    41.20   25.45   25.45      0    41.00   25.57   25.57      0
   134217728      33554432     float     sum      -1   1010.0  132.89  132.89      0   1008.0  133.15  133.15      0
"""


def test_a_fit_is_the_same_every_time_and_from_calibrate_rows_only() -> None:
    first = fit_software(LAYERS, "megatron-2022", ["gemm_speed", "memory_speed"])
    values, residual, used = fit_software(LAYERS, "megatron-2022", ["gemm_speed", "memory_speed"])
    assert (values, residual, used) == first
    roles = {row["id"]: row["role"] for row in ROWS}
    assert {roles[id] for id in used} == {"calibrate"}
    assert len(used) == 7
    assert 0.8 < values["gemm_speed"] < 1.0
    assert residual < 0.02


def test_rows_marked_test_change_nothing() -> None:
    spoiled = [dict(row) | ({"step_time_s": "1e6"} if row["role"] == "test" else {}) for row in LAYERS]
    names = ["gemm_speed"]
    assert fit_software(spoiled, "megatron-2022", names) == fit_software(LAYERS, "megatron-2022", names)


def test_a_fit_recovers_the_constant_behind_the_rows() -> None:
    names = ["gemm_speed"]
    slow = [dict(row) | {"step_time_s": str(float(row["step_time_s"]) * 1.2)} for row in LAYERS]
    before, after = (
        fit_software(rows, "megatron-2022", names).values["gemm_speed"] for rows in (LAYERS, slow)
    )
    assert after < 0.87 * before


def test_an_entry_says_what_it_was_fitted_to() -> None:
    fit = fit_software(LAYERS, "megatron-2022", ["gemm_speed"])
    (entry,) = tomllib.loads(toml_entry("megatron-2022", fit)).values()
    assert entry["gemm_speed"] == fit.values["gemm_speed"]
    assert "7 rows with role calibrate (2 KORT, 5 KORTL)" in entry["evidence"]


@pytest.mark.parametrize(
    ("rows", "software", "names", "error"),
    [
        (LAYERS, "megatron-2022", ["gem_speed"], TableError),
        (LAYERS, "megatron-2022", [], TableError),
        (LAYERS, "megatron", ["gemm_speed"], CatalogError),
        ([row for row in LAYERS if row["role"] == "test"], "megatron-2022", ["gemm_speed"], TableError),
    ],
)
def test_mistakes_of_a_fit(
    rows: list[dict[str, str]], software: str, names: list[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        fit_software(rows, software, names)


def test_constants_have_room_around_their_starts() -> None:
    for name, constant in CONSTANTS.items():
        assert constant.low <= constant.start <= constant.high, name
        assert constant.scale > 0, name


@pytest.mark.long
def test_packaged_constants_are_what_a_fit_gives() -> None:
    found = calibrate(check=True)
    assert found.compared > 300
    assert not found.drifts, report_text(calibration_report(found, is_check=True))


def test_a_gpu_of_a_kernel_file_gives_its_catalog_files(tmp_path: Path) -> None:
    lines = ["gpu,op,dtype,m,n,k,latency_ms,source"]
    lines += [
        f"V100-SXM2-16GB,gemm,fp16,{m},{n},{k},{1e3 * (2 * m * n * k / 80e12 + 8e-6):.6f},own"
        for m in (256, 1024, 4096)
        for n in (512, 2048, 8192)
        for k in (512, 1024, 4096)
    ]
    file = tmp_path / "own.csv"
    file.write_text("\n".join(lines), "utf-8")
    found = calibrate([file], to=tmp_path / "out")
    assert list(found.texts) == ["v100-sxm2-16gb.toml"]
    constants = load_constants(str(tmp_path / "out" / "v100-sxm2-16gb.toml"))
    assert constants.evidence["gemm.fp16"].rows == 27
    assert constants.evidence["gemm.fp16"].sources == ("own",)
    assert found == calibrate([file], to=tmp_path / "out")


def test_a_log_of_nccl_tests_gives_a_fabric(tmp_path: Path) -> None:
    log = tmp_path / "all_reduce_2.log"
    log.write_text(LOG, "utf-8")
    found = calibrate([log], to=tmp_path / "out")
    table = tomllib.loads((tmp_path / "out" / "ampere.toml").read_text("utf-8"))
    assert found.written == (str(tmp_path / "out" / "ampere.toml"),)
    assert table["residuals"]["all_reduce"]
    assert table["constants"]["base"]["unit"] == "s"


@pytest.mark.parametrize("name", ["models.csv", "absent.csv"])
def test_files_without_kernels_or_collectives_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "models.csv"
    columns = "model,layers,hidden,heads,seq_len,gpu,n_gpus,tp,pp,micro_batch,global_batch,step_time_s"
    file.write_text(f"{columns}\ngpt,24,1024,16,2048,A100-SXM4,8,1,1,1,8,1.0\n", "utf-8")
    with pytest.raises(TableError):
        calibrate([tmp_path / name], check=True)


def test_a_folder_that_is_there_is_not_filled_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calibrated").mkdir()
    with pytest.raises(PodsimError, match="--to"):
        calibrate(software="megatron-2022", constants=["gemm_speed"])


def test_drift_is_relative_and_blind_to_nothing() -> None:
    assert Drift(name="x", packaged=1.0, fitted=1.1).change == pytest.approx(0.1 / 1.1)
    assert Drift(name="x", packaged=0.0, fitted=1e-12).change == 0.0
