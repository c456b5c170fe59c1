"""Own clusters that cannot be are refused with the arithmetic, and odd ones say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import podsim
from podsim.errors import ClusterError
from podsim.hardware.catalog import load_system, names
from podsim.hardware.cluster import load_cluster
from podsim.hardware.fattree import fat_tree
from podsim.hardware.physical_sense import impossible_values


def written(folder: Path, system: str, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(f'inherits = "{system}"\nsource = "us"\n{text}')
    return str(path)


@pytest.mark.parametrize(
    ("system", "text", "arithmetic"),
    [
        ("dgx-b200", 'gpus_per_node = 72\n[gpu]\npower = "1.2 kW"', r"72 x 1\.2 kW = 86\.4 kW"),
        ("dgx-h100", 'power = "2 kW"', r"8 x 700 W = 5\.6 kW"),
        ("dgx-a100-80gb", '[gpu]\nmemory_bandwidth = "2 GB/s"', "reads gpu.memory 80 GB in 40 s"),
        ("dgx-h100", '[gpu]\nmemory = "80 MB"', "reads gpu.memory 80 MB"),
    ],
)
def test_impossible_values_are_refused(system: str, text: str, arithmetic: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=arithmetic):
        load_cluster(written(tmp_path, system, text))


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ('[network]\nbandwidth = "3.2 Tb/s"', "adapters and slots of up to"),
        ('[nvlink]\nbandwidth = "5 TB/s"', "18 links x 25 GB/s = 450 GB/s"),
        (
            '[gpu]\nmemory = "600 GB"\nmemory_bandwidth = "20 TB/s"',
            r"7\.5 times that of the h100-sxm5-80gb \(80 GB\)",
        ),
        ('power = "90 kW"', "16 times that of 8 GPUs"),
    ],
)
def test_odd_values_are_remarked_on(text: str, remark: str, tmp_path: Path) -> None:
    path = written(tmp_path, "dgx-h100", text)
    assert re.search(remark, " ".join(load_cluster(path).remarks))
    assert set(load_cluster(path).remarks) <= set(podsim.predict("gpt2", on=path).warnings)


def test_every_system_of_the_catalog_is_possible() -> None:
    assert not {
        name: problems for name in names("system") if (problems := impossible_values(load_system(name)))
    }


def test_a_sensible_file_has_no_remark(tmp_path: Path) -> None:
    text = 'nodes = 16\n[gpu]\nmemory = "96 GB"\n[network]\nbandwidth = "200 Gb/s"'
    assert not load_cluster(written(tmp_path, "dgx-h100", text)).remarks


def test_a_unit_that_is_not_full_has_an_uplink_for_every_link() -> None:
    tree = fat_tree(nodes=8, rails=72, unit=32, ports=64)
    assert (tree.node_cables, tree.leaf_cables) == (576, 576)
