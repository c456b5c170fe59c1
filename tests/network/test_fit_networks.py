"""The fit of constants between nodes finds again what made its sweeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.network.fit_networks import (
    FittedNetworks,
    Sweep,
    fit_networks,
    network_text,
    network_values,
    start_networks,
    swept_seconds,
)
from podsim.network.nccl import wires_of
from podsim.network.nccl_group import Group

SWEEP = Sweep(
    cluster="mine", wires=replace(wires_of(load_cluster("dgx-a100-80gb:4")), fabric="slingshot"), collective="all_to_all",
    group=Group(32, 8, 1.0), launch="process", release="2.18", sizes=(2.0**20, 2.0**26, 2.0**30), seconds=(1.0,) * 3,
)  # fmt: skip


def test_a_class_of_networks_is_fitted_to_its_sweeps() -> None:
    pytest.importorskip("scipy")
    start = start_networks()
    known = replace(start.networks["slingshot"], pairs_share=0.8 * start.networks["slingshot"].pairs_share)
    made = FittedNetworks(networks={**start.networks, "slingshot": known})
    seconds = swept_seconds(made, SWEEP)
    assert seconds.shape == (3,)
    assert (np.diff(seconds) > 0).all()
    assert seconds[2] == pytest.approx(
        0.75 * 2**30 / (known.pairs_share * 25e9), rel=0.1
    )  # 24 of 32 ranks are away
    sweep = replace(SWEEP, seconds=tuple(seconds.tolist()))
    fitted = fit_networks([sweep])
    assert fitted.networks["slingshot"].pairs_share == pytest.approx(known.pairs_share, rel=0.02)
    values = network_values(fitted)
    assert values["slingshot.pairs_share"] == fitted.networks["slingshot"].pairs_share
    changed = {name for name, value in network_values(start).items() if values[name] != value}
    assert {name.partition(".")[0] for name in changed} == {"slingshot"}
    assert f"pairs_share = {{ value = {values['slingshot.pairs_share']:.4g}," in network_text(fitted, [sweep])


def test_a_share_stays_at_or_below_one() -> None:
    pytest.importorskip("scipy")
    start = start_networks()
    fast = tuple((0.3 * swept_seconds(start, SWEEP)).tolist())
    assert 0.9 < fit_networks([replace(SWEEP, seconds=fast)]).networks["slingshot"].pairs_share <= 1.0
