"""`podsim mig`: each command with right input, in every format; and every kind of wrong input."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

import podsim as library
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.commands import read_parted
from podsim.hardware.mig.profiles import slicing_of

Podsim = Callable[..., Result]
LGI = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19        9          2:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        2          4:4     |
+-------------------------------------------------------+
"""


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    path = tmp_path / "lgi.txt"
    path.write_text(LGI)
    return path


def test_layouts(podsim: Podsim) -> None:
    told = podsim("mig", "layouts", "a100-40gb").stdout
    assert re.search(r"layouts +297\n +maximal ones +19\n +sets of profiles +37\n", told)
    rows = list(
        csv.DictReader(io.StringIO(podsim("mig", "layouts", "a100-40gb", "--partial", "--csv").stdout))
    )
    assert len(rows) == 297
    assert sum(row["maximal"] == "True" for row in rows) == 19
    table = json.loads(podsim("mig", "layouts", "a30", "--every", "--json").stdout)
    assert table["total"] == 75


def test_show_and_drawings(podsim: Podsim, tmp_path: Path) -> None:
    told = podsim("mig", "show", "a100-40gb", "3g,2g,1g").stdout
    assert "nvidia-smi mig -i 0 -cgi 19:0,14:2,9:4 -C" in told
    assert read_parted(told[told.index("version: v1") :])
    for kind in ("svg", "png"):
        path = tmp_path / f"layout.{kind}"
        assert podsim("mig", "show", "h100", "4g,2g,1g", "--draw", path, "--json").exit_code == 0
        assert path.read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")
    svg = (tmp_path / "layout.svg").read_bytes()
    podsim("mig", "show", "h100", "4g,2g,1g", "--draw", tmp_path / "layout.svg")
    assert (tmp_path / "layout.svg").read_bytes() == svg


def test_the_white_papers_node(podsim: Podsim, tmp_path: Path) -> None:
    jobs = ["--job", "training:4xgpu", "--job", "hpc:2xgpu", "--job", "inference:14x1g.5gb"]
    told = podsim(
        "mig", "plan", "dgx-a100-40gb", *jobs, "--save", tmp_path / "out", "--draw", tmp_path / "p.svg"
    ).stdout
    assert "20 devices given out" in told
    assert "nvidia-smi -i 6,7 -mig 1" in told
    assert "MIG_STRATEGY=mixed" in told
    (found,) = read_parted((tmp_path / "out" / "mig-parted.yaml").read_text()).values()
    assert [(one.devices, dict(one.instances)) for one in found] == [
        ((0, 1, 2, 3, 4, 5), {}),
        ((6, 7), {"1g.5gb": 7}),
    ]
    pods = list(yaml.safe_load_all((tmp_path / "out" / "kubernetes.yaml").read_text()))
    assert [(pod["metadata"]["name"], pod["spec"]["replicas"]) for pod in pods] == [
        ("training", 1), ("hpc", 1), ("inference", 14),
    ]  # fmt: skip
    assert (tmp_path / "out" / "commands.sh").read_text().startswith("#!/bin/sh\nset -e\n")


def test_56_users_on_one_dgx_a100(podsim: Podsim) -> None:
    plan = json.loads(podsim("mig", "plan", "dgx-a100-40gb", "--job", "user:56x1g", "--json").stdout)
    assert (plan["devices"], plan["least"], plan["strategy"]) == (56, 8, "single")
    assert all(len(gpu["jobs"]) == 7 for gpu in plan["gpus"])
    no = podsim("mig", "plan", "dgx-a100-40gb", "--job", "user:57x1g")
    assert no.exit_code == 1
    assert "they need 9 at least" in no.stderr


def test_jobs_placed_for_the_objective(podsim: Podsim) -> None:
    jobs = ["--job", "bert:2x8GB@0.4", "--job", "small:2x3GB@0.9"]
    one = json.loads(podsim("mig", "plan", "a100-40gb", *jobs, "--json").stdout)
    two = json.loads(podsim("mig", "plan", "a100-40gb", *jobs, "--objective", "slowest", "--json").stdout)
    assert one["value"] == pytest.approx(sum(one["gpus"][0]["speeds"]))
    assert two["value"] == pytest.approx(min(two["gpus"][0]["speeds"]))
    assert min(one["gpus"][0]["speeds"]) <= two["value"]
    nodes = podsim("mig", "plan", "dgx-a100-40gb:2", "--job", "a:9xgpu", "--job", "b:3x3g")
    assert "Commands on node 1" in nodes.stdout
    assert "podsim-1:" in nodes.stdout


def test_states(podsim: Podsim, listing: Path, tmp_path: Path) -> None:
    assert "1g.5gb@2" in podsim("mig", "state", listing).stdout
    told = podsim("mig", "state", listing, "--want", "3g,2g,2g")
    assert told.exit_code == 0
    assert "Reached by destroying 1g.5gb@2; 3g.20gb@4 stays" in told.stdout
    assert "nvidia-smi mig -i 0 -dgi -gi 9" in told.stdout
    stuck = podsim("mig", "state", listing, "--want", "3g,2g,2g", "--busy", "9")
    assert stuck.exit_code == 1
    assert "NOT REACHED while these are busy: 1g.5gb@2" in stuck.stdout
    more = podsim("mig", "state", listing, "--add", "2g", "--busy", "all", "--draw", tmp_path / "s.png")
    assert "Reached without destroying anything" in more.stdout
    assert "-cgi 14:0 -C" in more.stdout
    rows = list(csv.DictReader(io.StringIO(podsim("mig", "state", listing, "--csv").stdout)))
    assert [row["instance"] for row in rows] == ["1g.5gb@2", "3g.20gb@4"]
    no = podsim("mig", "state", listing, "--add", "4g")
    assert no.exit_code == 1


def test_a_mig_parted_file_is_checked(podsim: Podsim, tmp_path: Path) -> None:
    podsim("mig", "plan", "dgx-a100-40gb", "--job", "a:3x3g", "--job", "b:2xgpu", "--save", tmp_path)
    path = tmp_path / "mig-parted.yaml"
    told = podsim("mig", "check", path, "--gpu", "a100-40gb")
    assert told.exit_code == 0
    assert "Every entry can stand on a GPU of a100-40gb" in told.stdout
    wrong = podsim("mig", "check", path, "--gpu", "a100-80gb")
    assert wrong.exit_code == 2
    assert "podsim: a100-80gb: 3g.20gb is a profile of a100-40gb" in wrong.stderr
    path.write_text(
        'version: v1\nmig-configs: {x: [{devices: all, mig-enabled: false, mig-devices: {"1g": 9}}]}'
    )
    assert "1 to 4 instances" in podsim("mig", "check", path, "--gpu", "a30").stderr


def test_law(podsim: Podsim) -> None:
    assert "model left out" in podsim("mig", "law").stdout
    report = json.loads(podsim("mig", "law", "--json").stdout)
    assert report["scores"][0]["mean"] < 0.06
    assert len(report["sevenths"]) == 14


def test_a_slice_is_a_cluster_and_has_a_sheet(podsim: Podsim) -> None:
    whole, part = (
        json.loads(podsim("predict", "gpt2", "--on", on, "--gpus", "1", "--batch", "8", "--json").stdout)
        for on in ("dgx-a100-40gb", "a100-40gb/3g.20gb")
    )
    assert 0.43 < whole["step_time"] / part["step_time"] < 0.9  # between its share of SMs and none at all
    assert part["memory_limit"] == pytest.approx(0.9 * 19.62 * 2**30)  # less the head-room
    assert "MIG instance" in podsim("show", "a100-40gb/1g.5gb").stdout
    ranked = json.loads(
        podsim("plan", "gpt2", "--on", "a100-40gb/3g.20gb", "--batch", "8", "--top", "1", "--json").stdout
    )
    assert ranked["fitting"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["layouts", "v100"], "has no MIG; GPUs that can be divided"),
        (["layouts", "a101"], "unknown gpu 'a101'"),
        (["layouts", "b200"], "profiles are unknown"),
        (["layouts", "a30", "--json", "--csv"], "choose one"),
        (["show", "a100-40gb", "3g@0,2g@2"], "3g.20gb@0 (memory slices 0 to 3) and 2g.10gb@2"),
        (["show", "a100-40gb", "5g"], "unknown profile '5g'"),
        (["show", "a100-40gb", "1g", "--draw", "x.pdf"], "a name that ends in .svg or .png"),
        (["show", "a100-40gb/1g", "1g"], "is already an instance"),
        (["plan", "dgx-a100-40gb"], "no jobs; give some"),
        (["plan", "dgx-a100-40gb", "--job", "a"], "expected NAME:NUMBERxWHAT"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x1g", "--job", "a:1x2g"], "a is given twice"),
        (["plan", "dgx-a100-40gb", "--job", "A:1x1g"], "small letters, digits and dashes"),
        (["plan", "dgx-a100-40gb", "--job", "a:0x1g"], "1 to 100,000"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x9g"], "unknown profile"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x8GB@2"], "must be from 0 to 1"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x8GB@1e"], "from 0 to 1"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x1g@0.5"], "belongs to a job that takes any instance"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x900GB"], "the largest instance has"),
        (["plan", "dgx-a100-40gb", "--job", "a:1x8GB", "--objective", "x"], "may be throughput, slowest"),
        (["plan", "dgx-1-v100", "--job", "a:1x1g"], "has no MIG"),
        (["plan", "nowhere", "--job", "a:1x1g"], "unknown cluster, system or GPU"),
        (["state", "/nowhere"], "cannot be read"),
        (["state", "/dev/null"], "names no GPU"),
    ],
)
def test_wrong_input(podsim: Podsim, arguments: list[str], said: str) -> None:
    result = podsim("mig", *arguments)
    assert result.exit_code == 2, result.stdout
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_states(podsim: Podsim, listing: Path) -> None:
    for more, said in (
        (["--want", "3g", "--add", "1g"], "give one of them"),
        (["--want", "9g"], "unknown profile"),
        (["--busy", "7"], "no instance of that number; there are 2, 9, or all"),
        (["--gpu", "v100"], "has no MIG"),
        (["--gpu", "a30"], "unknown profile '1g.5gb'"),
    ):
        result = podsim("mig", "state", listing, *more)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr


def test_too_many_whole_gpus_is_an_answer(podsim: Podsim) -> None:
    result = podsim("mig", "plan", "dgx-a100-40gb", "--job", "a:9xgpu")
    assert result.exit_code == 1
    assert "9 whole GPUs asked for; dgx-a100-40gb has 8" in result.stderr


@pytest.mark.parametrize("gpu", ["a100-40gb", "a100-80gb", "a100-pcie-40gb", "a30", "h100", "h200"])
def test_every_gpu_with_profiles_trains_on_its_slices(gpu: str) -> None:
    """Also a card that no server of the catalog has; the smaller the instance, the slower."""
    slicing = slicing_of(load_gpu(gpu))
    names = {
        one.sms: one.name for one in slicing.profiles if "+me" not in one.name and one.size >= one.compute
    }
    speeds = [
        library.predict("gpt2", on=f"{gpu}/{names[sms]}", batch=4, micro_batch=1).tokens_per_second
        for sms in sorted(names)
    ]
    assert len(speeds) >= 3
    assert speeds == sorted(speeds)
    assert library.power(f"{gpu}/{names[min(names)]}").loads[1].total > 0
