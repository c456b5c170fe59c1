"""The storage catalogs: sources, links between them, and what they refuse."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from podsim.accuracy.tables import load
from podsim.errors import CatalogError, StorageError
from podsim.storage.catalog import KEYS, load_storage, storage_names
from podsim.storage.mlperf_storage import results
from podsim.storage.published import published_systems
from podsim.storage.storage_sheet import storage_sheet
from podsim.storage.training import published_times
from podsim.storage.workloads import load_workload, workload_names


@pytest.mark.parametrize("name", storage_names())
def test_every_system_has_sources_and_a_sheet(name: str) -> None:
    system, clients = load_storage(name)
    assert system.source
    assert clients >= 1
    sheet = storage_sheet(system, clients)
    assert sheet.figures["client"] == system.client.system.name
    assert not system.tier or system.tier in storage_names()
    assert set(sheet.values) - set(KEYS) <= {"net_capacity", "survives", "creations", "stats", "removals"}


def test_the_numbers_of_a_sheet_are_what_may_be_set() -> None:
    sheet = storage_sheet(*load_storage("weka-ra:4", {"server.read": "9 GB/s", "capacity": "856.8 TB"}))
    assert sheet.figures["ports of a server"] == "2 x 200 Gb/s"
    assert sheet.values["server.read"] == pytest.approx(9e9)
    assert sheet.values["server.iops"] == pytest.approx(442.5e3)
    assert sheet.values["client.read"] == pytest.approx(16e9)
    assert sheet.values["net_capacity"] == pytest.approx(385.56e12)


@pytest.mark.parametrize("name", workload_names())
def test_every_workload_has_sources(name: str) -> None:
    work = load_workload(name)
    assert work.source
    assert work.record > 0
    assert work.benchmark or work.steps


def test_published_times_keep_the_role_of_their_row() -> None:
    rows = {row.id: row for row in load("mlperf")}
    for time in published_times():
        key = str(time["source"]).partition("(row ")[2].rstrip(")")
        assert time["role"] == (rows[key].role if key else "test")
        if key:
            assert rows[key].number("minutes_score") == pytest.approx(float(str(time["seconds"])) / 60)


def test_published_rates_are_of_known_systems() -> None:
    assert {system for system, _, _ in published_systems()} <= set(storage_names())
    assert all(point.source for _, _, points in published_systems() for point in points)


def test_the_table_of_results_is_whole() -> None:
    assert len(results()) == 132
    assert sum(row.role == "calibrate" for row in results()) == 6
    path = Path(load_storage.__code__.co_filename).with_name("mlperf_storage.csv.gz")
    first = next(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))
    assert first["id"] == "mls001"


def test_names_numbers_and_aliases() -> None:
    assert load_storage("weka-ra")[1] == 4
    assert load_storage(" WEKA : 7 ")[0].name == "weka-ra"
    assert load_storage("weka:7")[1] == 7
    assert load_storage("weka-ra", client="dgx-h100")[0].client.system.name == "dgx-h100"


@pytest.mark.parametrize(
    ("spec", "overrides", "error", "says"),
    [
        ("wekka", {}, CatalogError, "did you mean"),
        ("dgx-a100-40gb", {}, CatalogError, "is a node; name its storage"),
        ("micron-9300-pro", {}, CatalogError, "is a ssd of the hardware catalog"),
        ("weka-ra:0", {}, StorageError, "clients"),
        ("weka-ra:-1", {}, StorageError, "clients"),
        ("weka-ra:many", {}, StorageError, "clients"),
        ("weka-ra:", {}, StorageError, "clients"),
        ("weka-ra", {"server.speed": "1"}, CatalogError, "unknown key"),
        ("weka-ra", {"servers": "-3"}, StorageError, "servers"),
        ("weka-ra", {"servers": "4"}, StorageError, "need 6 servers"),
        ("weka-ra", {"servers": "7"}, StorageError, "kept free need 8 servers"),
        ("weka-ra", {"stripe.data": "6"}, StorageError, "kept free need 10 servers"),
        ("weka-ra", {"stripe.parity": "3", "stripe.data": "3"}, StorageError, "2 or 4 of parity"),
        ("weka-ra", {"stripe.data": "2"}, StorageError, "3 to 16 data blocks"),
        ("weka-ra", {"server.read": "-8 GB/s"}, StorageError, "out of reach"),
        ("weka-ra", {"server.iops": "5 MIOPS"}, StorageError, "more than"),
        ("weka-ra", {"client.ports": "0"}, StorageError, "nothing reaches it"),
        ("weka-ra", {"stripe.spares": "9"}, StorageError, "spare"),
        ("nfs-a400", {"stripe.data": "3"}, StorageError, "not known"),
        ("weka-ra", {"server.ssds": "0"}, StorageError, "server.ssds"),
        ("nfs-a400", {"server.ssds": "5"}, StorageError, "drives of its servers are not known"),
        ("nfs-a400", {"client.cores": "5"}, StorageError, "says nothing without client.read"),
        ("nfs-a400", {"client.iops": "5 kIOPS"}, StorageError, "says nothing without client.read"),
        ("local-nvme", {"server.iops": "5 kIOPS"}, StorageError, "says nothing without server.read"),
        ("local-nvme", {"servers": "2"}, StorageError, "servers is 1"),
    ],
)
def test_what_no_system_can_be(
    spec: str, overrides: dict[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        load_storage(spec, overrides)


def test_all_problems_at_once() -> None:
    with pytest.raises(StorageError) as caught:
        load_storage("weka-ra", {"servers": "0", "server.read": "fast", "client.cores": "1.5"})
    assert all(word in str(caught.value) for word in ("servers", "server.read", "client.cores"))


def test_unknown_workload() -> None:
    with pytest.raises(CatalogError, match="unknown workload"):
        load_workload("alexnet9")
