"""Rows of collectives name what they do not state, with its range; permission to use SHARP is no use of it."""

from __future__ import annotations

import math

import pytest
from reference.curate_collectives import collective_cells, curated

from podsim.accuracy.nccl_tests import make_rows
from podsim.accuracy.price_collectives import SPREAD_BOUNDS, Call, call_seconds, price_collectives, read_call
from podsim.accuracy.tables import load
from podsim.network.collective_settings import LAUNCHES, RELEASES
from podsim.packaged import packaged_toml

NODE = {
    "id": "1", "role": "test", "source": "a log", "gpu": "A100-SXM4-80GB", "nodes": "1", "gpus": "8",
    "collective": "all_reduce", "size_bytes": "1024", "time_us": "30", "confirmed": "yes",
}  # fmt: skip
NODES = {**NODE, "system": "DGX A100", "nodes": "2", "gpus": "16", "nics": "8x ConnectX-6 HDR200 IB"}


def priced(row: dict[str, str]) -> tuple[float, tuple[float, float] | None, str]:
    rows = make_rows("collectives", "mine", curated([row]))
    answer = price_collectives(rows)
    id = rows.rows[0].id
    assert not answer.reasons, answer.reasons
    return answer.predictions[id], answer.bands.get(id), answer.notes.get(id, "")


def seconds(row: dict[str, str], **settings: str) -> float:
    call = read_call(curated([{**row, **settings}])[0])
    assert isinstance(call, Call)
    return call_seconds({"": call})[0][""]


@pytest.mark.parametrize("size", ["1024", "1048576", "1073741824"])
def test_an_unstated_launch_has_the_middle_of_all_launches_and_their_range(size: str) -> None:
    row = {**NODE, "size_bytes": size, "nccl": "2.18"}
    value, band, note = priced(row)
    times = [seconds(row, launch=launch) for launch in LAUNCHES]
    assert value == pytest.approx(math.sqrt(min(times) * max(times)))
    assert band == pytest.approx(wider("node", size, times))
    assert "assumed: launch single (" in note
    assert "release" not in note


def wider(entry: str, size: str, times: list[float]) -> tuple[float, float]:
    """The range of times, wider by an entry of spreads.toml."""
    spread = packaged_toml("accuracy/spreads.toml")[entry]
    place = sum(float(size) >= bound for bound in SPREAD_BOUNDS)
    return min(times) * spread["least"][place], max(times) * spread["most"][place]


def test_an_unstated_release_has_the_range_of_all_releases() -> None:
    row = {**NODES, "size_bytes": "1048576", "launch": "process"}
    value, band, note = priced(row)
    times = [seconds(row, nccl=release) for release in RELEASES]
    assert value == seconds(row, nccl="2.18")
    assert band == pytest.approx(wider("infiniband", "1048576", times))
    assert note.startswith("assumed: release 2.18 (")
    assert "middle" in note


def test_a_row_that_states_all_assumes_nothing() -> None:
    _, band, note = priced({**NODES, "launch": "process", "nccl": "2.18"})
    assert band is None
    assert "assumed" not in note


@pytest.mark.parametrize(
    ("cells", "sharp"),
    [
        ({}, ""),
        ({"settings": "NCCL_COLLNET_ENABLE=1"}, "permitted"),
        ({"settings": "NCCL_COLLNET_ENABLE=0"}, "no"),
        ({"settings": "NCCL_COLLNET_ENABLE=1", "notes": "no SHARP log lines"}, "permitted"),
        ({"settings": "NCCL_COLLNET_ENABLE=1", "algo": "collnet(SHARP)"}, "yes"),
        ({"settings": "NCCL_COLLNET_ENABLE=1;SHARP_COLL_LOCK_ON_COMM_INIT=1"}, "yes"),
        ({"settings": "NCCL_COLLNET_ENABLE=1", "notes": "SHARP rank 0/2 initialized in log"}, "yes"),
        ({"settings": "NCCL_COLLNET_ENABLE=1", "notes": "via COLLNET/SHARP"}, "yes"),
        ({"sharp": "yes"}, "yes"),
    ],
)
def test_permission_is_no_evidence_of_sharp(cells: dict[str, str], sharp: str) -> None:
    assert collective_cells({**NODES, **cells})["sharp"] == sharp


def test_permitted_sharp_has_a_range_on_infiniband_alone() -> None:
    row = {**NODES, "size_bytes": "1073741824", "launch": "process", "nccl": "2.18"}
    value, band, note = priced({**row, "settings": "NCCL_COLLNET_ENABLE=1"})
    ran = seconds(row, sharp="yes")
    assert value == seconds(row) != ran
    assert band == pytest.approx(wider("infiniband", "1073741824", [value, ran]))
    assert "no SHARP (" in note
    over = {**row, "nics": "8x 200 Gb/s RoCE", "settings": "NCCL_COLLNET_ENABLE=1"}
    assert "SHARP" not in priced(over)[2]


def test_every_packaged_row_names_what_it_assumes() -> None:
    rows = load("all-reduce-a100-nodes")
    answer = price_collectives(rows)
    for row in rows:
        if row.id in answer.predictions:
            for name, column in (("launch", "launch"), ("release", "nccl")):
                assert (f"{name} " in answer.notes.get(row.id, "")) == (not row.text(column)), row.id
            if row.id in answer.bands:
                low, high = answer.bands[row.id]
                assert low <= answer.predictions[row.id] * (1 + 1e-9) <= high * (1 + 2e-9)


def test_a_class_of_few_clusters_has_the_spread_of_what_was_left_out() -> None:
    row = {
        **NODES,
        "launch": "process",
        "nccl": "2.18",
        "nics": "4x Slingshot-11 200 Gb/s",
        "size_bytes": "1048576",
    }
    value, band, note = priced(row)
    assert band == pytest.approx(wider("single", "1048576", [value]))
    assert note.startswith("few clusters: measured ")
    infiniband = priced({**row, "nics": "4x HDR200 IB"})
    assert infiniband[1] is None


RACK = {
    **NODES,
    "system": "GB200 NVL72",
    "gpu": "GB200",
    "nodes": "18",
    "gpus": "72",
    "nics": "4x CX-7 NDR400 per node",
}


def test_trays_of_a_rack_are_one_domain_where_multi_node_nvlink_ran_and_else_a_range() -> None:
    row = {**RACK, "launch": "process", "nccl": "2.27", "size_bytes": "1073741824"}
    one = seconds({**row, "notes": "MNNVL: 1 clique"})
    apart = seconds({**row, "settings": "NCCL_MNNVL_ENABLE=0"})
    assert apart > 3 * one  # 18 nodes of 4 x 50 GB/s, against the NVSwitches of a rack
    value, band, note = priced(row)
    assert value == one
    assert band == pytest.approx((one, apart))  # all settings are stated
    assert "one NVLink domain a rack (" in note
    assert priced({**row, "notes": "MNNVL: 1 clique"})[1] is None


def test_no_process_spans_the_hosts_of_a_rack() -> None:
    assert "launch" not in priced({**RACK, "nccl": "2.27"})[2]
    half = {**NODES, "gpus": "8", "nics": "8x HDR200 IB", "nccl": "2.18"}  # four GPUs of each of two servers
    assert "launch process (" in priced(half)[2]


def test_a_gpu_that_old_releases_do_not_know_has_no_range_of_releases() -> None:
    assert priced({**RACK, "launch": "process", "notes": "MNNVL"})[1] is None
