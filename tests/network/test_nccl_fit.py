"""The fit of the collective law: errors on fitted sweeps and on sweeps left out, and the catalog's files."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np
import pytest

from podsim.accuracy.price_collectives import network_sweeps
from podsim.accuracy.tables import load
from podsim.errors import TableError
from podsim.hardware.cluster import load_cluster
from podsim.network.collective_settings import NETWORKS, CollectiveSettings
from podsim.network.fit_nccl import (
    fabric_texts,
    fit_architecture,
    fit_fabrics,
    predicted_seconds,
    residuals,
    samples,
    start_constants,
)
from podsim.network.fit_networks import FittedNetworks, fit_networks, network_values
from podsim.network.nccl import Members, collective_seconds
from podsim.network.nccl_constants import ARCHITECTURES, PCIE, load_fabric, load_network

ROWS = [dict(row.fields) for row in load("collectives")]
MEASURED = [s for s in samples(ROWS) if s.nodes == 1 and s.size >= 512]
A100 = [s for s in MEASURED if s.architecture == "ampere" and s.collective == "all_reduce" and s.size >= 1024]

L40S = [s for s in MEASURED if s.architecture == PCIE]


def by_decade(part, seconds) -> dict[int, float]:
    error = np.abs(seconds / np.array([s.seconds for s in part]) - 1)
    decade = np.floor(np.log10([s.size for s in part])).astype(int)
    return {int(d): float(error[decade == d].mean()) for d in np.unique(decade)}


def test_all_reduce_on_a100_is_within_eight_percent_in_every_decade() -> None:
    errors = by_decade(A100, predicted_seconds(load_fabric("ampere"), A100))
    assert set(errors) == set(range(3, 10))
    assert max(errors.values()) <= 0.08


def test_sweeps_left_out_of_the_fit_are_within_ten_percent_in_every_decade() -> None:
    pytest.importorskip("scipy")
    families = sorted({re.sub("_(half|int8)$", "", s.sweep) for s in A100})
    left, seconds = [], []
    for family in families:
        out = [s for s in A100 if s.sweep.startswith(family)]
        kept = [s for s in MEASURED if s.architecture == "ampere" and not s.sweep.startswith(family)]
        left += out
        seconds.append(
            predicted_seconds(
                fit_architecture("ampere", [s for s in kept if s.collective == "all_reduce"]), out
            )
        )
    errors = by_decade(left, np.concatenate(seconds))
    assert max(errors.values()) <= 0.10


GATES = {"all_reduce": 0.10, "all_gather": 0.25, "reduce_scatter": 0.13, "all_to_all": 0.20,
         "send_recv": 0.20, "broadcast": 0.27, "reduce": 0.23}  # fmt: skip
PCIE_GATES = {"all_reduce": 0.15, "all_gather": 0.13, "reduce_scatter": 0.14, "all_to_all": 0.22}
"""a cell has some nine rows; all-to-all on 8 L40S jumps to 1.7 times its speed at 128 MiB, which no law here tells"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_errors_left_on_every_architecture(architecture: str) -> None:
    left = residuals(load_fabric(architecture), [s for s in MEASURED if s.architecture == architecture])
    gates = PCIE_GATES if architecture == PCIE else GATES
    for collective, cells in left.items():
        assert max(cells.values()) <= gates[collective], (collective, cells)


def test_all_to_all_on_hopper_is_within_seven_percent_on_each_gpu_and_type() -> None:
    part = [s for s in MEASURED if s.architecture == "hopper" and s.collective == "all_to_all"]
    for kind in ("aic_h100.*half", "aic_h100.*int8", "aic_h200.*half", "aic_h200.*int8"):
        own = [s for s in part if re.match(kind, s.sweep)]
        assert len(own) == 63
        assert mean_error(own, predicted_seconds(load_fabric("hopper"), own)) <= 0.07, kind


def test_all_to_all_on_hopper_left_out_of_the_fit_is_within_seven_percent() -> None:
    pytest.importorskip("scipy")
    part = [s for s in MEASURED if s.architecture == "hopper" and s.collective == "all_to_all"]
    assert mean_error(*left_out("hopper", part, load_fabric("ampere"))) <= 0.07


def test_l40s_is_within_eight_percent_and_every_decade_within_ten() -> None:
    assert mean_error(L40S, predicted_seconds(load_fabric(PCIE), L40S)) <= 0.08
    assert max(by_decade(L40S, predicted_seconds(load_fabric(PCIE), L40S)).values()) <= 0.10


@pytest.mark.long
def test_sweeps_of_l40s_left_out_of_the_fit_are_within_twelve_percent_in_every_decade() -> None:
    pytest.importorskip("scipy")
    part, seconds = left_out(PCIE, L40S, start_constants(PCIE, {"ampere": load_fabric("ampere")}))
    assert len(part) == 252
    assert mean_error(part, seconds) <= 0.10
    assert max(by_decade(part, seconds).values()) <= 0.12


def left_out(architecture: str, part, start) -> tuple[list, np.ndarray]:
    """Samples, each predicted by a fit to the samples of other machines, collectives and numbers of ranks."""
    families = sorted({re.sub("_(half|int8)$", "", s.sweep) for s in part})
    samples_, seconds = [], []
    for family in families:
        out = [s for s in part if s.sweep.startswith(family)]
        kept = [s for s in part if not s.sweep.startswith(family)]
        samples_ += out
        seconds.append(predicted_seconds(fit_architecture(architecture, kept, start), out))
    return samples_, np.concatenate(seconds)


def mean_error(part, seconds) -> float:
    return float(np.abs(seconds / np.array([s.seconds for s in part]) - 1).mean())


def test_the_catalog_is_what_the_fit_gives() -> None:
    pytest.importorskip("scipy")
    for name, text in fabric_texts(fit_fabrics(ROWS)).items():
        kept = (files("podsim.hardware") / "catalog" / "fabrics" / name).read_text(encoding="utf-8")
        assert text.split("[residuals]")[0].count("value") == kept.count("value")
        assert np.array(_values(text)) == pytest.approx(np.array(_values(kept)), rel=0.05), name


def _values(text: str) -> list[float]:
    return [float(v) for v in re.findall(r"value = ([-+.0-9e]+)", text)]


@pytest.mark.long
def test_the_constants_between_nodes_are_what_the_fit_gives() -> None:
    pytest.importorskip("scipy")
    fitted = network_values(fit_networks(network_sweeps(load("collectives"))))
    packaged = network_values(FittedNetworks(networks={name: load_network(name) for name in NETWORKS}))
    assert fitted == pytest.approx(packaged, rel=0.05)


def test_rings_on_two_dgx_a100_fall_where_nccl_leaves_ll() -> None:
    """As measured: 135 us at 512 KiB, 120 us at 1 MiB."""
    settings = CollectiveSettings(release="2.8", algorithm="ring")
    seconds = collective_seconds(
        "all_reduce", np.array([2.0**19, 2.0**20]), load_cluster("dgx-a100-80gb:2"),
        Members(ranks=16, ranks_per_node=8), settings=settings,
    )  # fmt: skip
    assert seconds[1] < seconds[0]
    assert seconds[1] == pytest.approx(120e-6, rel=0.20)


def test_rows_for_testing_are_never_fitted() -> None:
    poisoned = [{**row, "time_us": "1"} if row["role"] == "test" else row for row in ROWS]
    assert samples(poisoned) == samples(ROWS)


def test_circumstances_are_those_of_the_log() -> None:
    found = {s.sweep: (s.launch, s.version) for s in samples(ROWS)}
    assert found["aic_a100_1n8g_all_reduce_half"] == ("thread", "2.27")
    assert found["doc_a100-80_1n8g_all_reduce_mpi8"] == ("process", "2.2x")
    assert found["doc_a100-80_1n8g_all_reduce_nccl2193"] == ("single", "2.19")
    assert found["sb_a100-40_1n8g_all_reduce"] == ("single", "2.10")


def test_a_cell_that_is_no_number_is_refused() -> None:
    bad = {**ROWS[0], "time_us": "soon"}
    with pytest.raises(TableError, match="soon"):
        samples([bad])
