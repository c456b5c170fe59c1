"""GPUs of AMD and cards of workstations: peaks by hand, a full mesh, a measured sweep, and a study with prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import podsim
from podsim.hardware.catalog import load_gpu
from podsim.hardware.cluster import load_cluster
from podsim.hardware.nvlink import inside_link, mesh_lanes, reach_share, ring_shares
from podsim.network.nccl import Members, collective_seconds


@pytest.mark.parametrize(
    ("name", "units", "clock", "operations"),
    [
        ("mi300x", 304, 2.1e9, 2048), ("mi325x", 304, 2.1e9, 2048), ("mi355x", 256, 2.4e9, 4096),
        ("rtx-pro-6000", 188, 2.617e9, 1024), ("l4", 58, 2.04e9, 1024), ("a10", 72, 1.695e9, 1024),
        ("rtx-5090", 170, 2.407e9, 512), ("rtx-4090", 128, 2.52e9, 512),
    ],
)  # fmt: skip
def test_peaks_follow_from_units_and_clocks(name: str, units: int, clock: float, operations: int) -> None:
    """GeForce cards sum in fp32 at half the rate of others; fp8 has twice the operations of 16 bits, fp4 four times."""
    gpu = load_gpu(name)
    assert (gpu.sms, gpu.clock) == (units, clock)
    assert gpu.peaks["fp16"] == pytest.approx(units * clock * operations, rel=0.003)
    for narrow, factor in (("fp8", 2), ("fp4", 4 if "rtx-pro" in name or name == "mi355x" else 8)):
        if narrow in gpu.peaks:
            assert gpu.peaks[narrow] == pytest.approx(factor * gpu.peaks["fp16"], rel=0.003)


def test_xgmi_joins_each_gpu_to_the_seven_others() -> None:
    """Complete graph of eight: three cycles through all, each two rings, so rings use six of seven links."""
    system = load_cluster("mi300x-platform").system
    assert inside_link(system).bandwidth == 7 * 64e9
    assert mesh_lanes(system) == 1
    assert reach_share(system, 4) == pytest.approx(3 / 7)
    assert ring_shares(system)[0][-1] == pytest.approx(6 / 7)
    for card in ("rtx-4090", "rtx-5090"):
        assert load_cluster(f"8x{card}").system.topology == "pcie-root"


def test_all_reduce_of_rccl_is_near_without_a_row() -> None:
    """8 x MI300X, rccl-tests develop (public README), us; constants are Hopper's at the bandwidth of xGMI."""
    measured = {2**20: 28.39, 2**24: 149.9, 2**26: 432.5, 2**28: 1540.4, 2**30: 5990.7}
    sizes = np.array(list(measured), float)
    seconds = collective_seconds(
        "all_reduce", sizes, load_cluster("mi300x-platform"), Members(ranks=8, ranks_per_node=8)
    )
    assert seconds * 1e6 == pytest.approx(np.array(list(measured.values())), rel=0.2)


def test_a_study_compares_h200_with_mi355x_with_prices(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        '[common]\nmodel = "llama-3.1-8b"\ntokens = "1T"\ngpus = 8\nmicro_batch = 1\nzero = 1\n'
        '[[design]]\nname = "H200"\non = "dgx-h200"\n[[design]]\nname = "MI355X"\non = "mi355x-platform"\n'
    )
    rows = {row.name: row for row in podsim.study(path, executor="serial", store="none").rows}
    for name, hourly in (("H200", 2.05), ("MI355X", 2.10)):
        assert rows[name].cost == pytest.approx(8 * hourly * rows[name].training / 3600, rel=1e-3)
    assert rows["MI355X"].training < rows["H200"].training
