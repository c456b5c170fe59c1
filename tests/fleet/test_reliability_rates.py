"""The catalog of failure rates: sums, what a node's rate follows from, and files that are wrong."""

from __future__ import annotations

import math
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from podsim.errors import CatalogError
from podsim.fleet.reliability_rates import (
    default_study,
    has_study,
    load_study,
    node_rate,
    parts,
    read_rates,
    recovery,
    studies,
)
from podsim.hardware.cluster import load_cluster

DAY = 86400.0


def raw() -> dict[str, Any]:
    return tomllib.loads(files("podsim.fleet").joinpath("reliability.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "daily"),
    [
        ("rsc-1", 6.5e-3),
        ("llama-3", 3.789e-3),
        ("bloom", 4.464e-3),
        ("opt-175b", 1.613e-2),
        ("rsc-2", 2.34e-3),
    ],
)
def test_published_rates(name: str, daily: float) -> None:
    assert load_study(name).rate * DAY == pytest.approx(daily, rel=2e-4)


def test_measured_jobs_of_rsc() -> None:
    """7.9 h at 1,024 GPUs and 47.7 d at 8 are one rate within 15 %: failures grow with the nodes."""
    rate = load_study("rsc-jobs").rate
    assert 1 / (rate * 128) == pytest.approx(7.9 * 3600, rel=1e-3)
    assert 1 / rate / DAY == pytest.approx(47.7, rel=0.15)


def test_projections_of_rsc_follow_from_its_rate() -> None:
    rate = load_study("RSC-1 ").rate
    assert 1 / (rate * 2048) / 3600 == pytest.approx(1.8, abs=0.05)
    assert 1 / (rate * 16384) / 3600 == pytest.approx(0.23, abs=0.006)


def test_parts_are_the_419_failures() -> None:
    assert sum(part.count for part in parts()) == 419
    by_gpu = sum(part.count for part in parts() if part.of == "gpu")
    assert by_gpu / 419 == pytest.approx(0.64, abs=0.01)
    rate, source = node_rate("parts", load_cluster("dgx-h100:1"))
    assert rate == pytest.approx(load_study("llama-3").rate)
    assert "8 GPUs, 8 adapters and 2 processors a node" in source


def test_parts_scale_with_what_a_node_has() -> None:
    whole, half = (node_rate("parts", load_cluster("dgx-h100:2").subset(n))[0] for n in (8, 4))
    assert 0.5 * whole < half < whole


def test_a_studys_rate_goes_with_the_gpus() -> None:
    eight, sixteen = (node_rate("rsc-1", load_cluster(name))[0] for name in ("dgx-a100:1", "dgx-2"))
    assert sixteen == 2 * eight


@pytest.mark.parametrize(("gpu", "name"), [("ampere", "rsc-1"), ("volta", "rsc-1"), ("hopper", "llama-3")])
def test_defaults_by_architecture(gpu: str, name: str) -> None:
    assert default_study(gpu).name == name


def test_every_packaged_gpu_has_a_default() -> None:
    from podsim.hardware.catalog import load_gpu, names

    for gpu in names("gpu"):
        architecture = load_gpu(gpu).architecture
        assert has_study(architecture) == (architecture not in ("tpu", "wafer"))


def test_unconfirmed_is_said() -> None:
    assert node_rate("rsc-2", load_cluster("dgx-a100:1"))[1].endswith("unconfirmed")


def test_unknown_study_and_architecture() -> None:
    with pytest.raises(CatalogError, match=r"did you mean rsc-1.*parts"):
        load_study("rsc1")
    with pytest.raises(CatalogError, match="choose one of rsc-1"):
        default_study("kepler")


def test_repair_follows_from_its_share() -> None:
    assert math.exp(-DAY / recovery()["repair"].value) == pytest.approx(0.381, abs=1e-4)
    assert all(constant.source for constant in recovery().values())
    assert all(study.source and study.rate > 0 for study in studies().values())


def test_wrong_files() -> None:
    broken = raw()
    broken["studies"]["bloom"] |= {"source": "hearsay", "failures": -1, "color": "red"}
    broken["studies"]["rsc-1"]["failures"] = 3
    broken["studies"]["rsc-1"]["days"] = 3
    broken["parts"]["causes"]["SSD"]["of"] = "shelf"
    del broken["recovery"]["drain"]
    with pytest.raises(CatalogError) as caught:
        read_rates(broken)
    for word in ("hearsay", "failures=-1", "color", "give either rate", "SSD", "[recovery.drain] is missing"):
        assert word in str(caught.value)
