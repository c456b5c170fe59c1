"""`podsim collective`: its format is that of nccl-tests, its figures those of the laws, its mistakes one screen."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import podsim as library
from podsim.accuracy.nccl_comparison import json_as_log
from podsim.accuracy.nccl_tests import read_log_text
from podsim.answers.comparison import Comparison
from podsim.answers.sweep import Sweep
from podsim.errors import PodsimError
from podsim.network.collectives import ALGORITHMS
from podsim.network.collectives.lookup import ON_TORI
from podsim.network.collectives.rings import ring_all_reduce
from podsim.report.collectives import nccl_tests_text

Run = Callable[..., Result]
NODE = ("--on", "dgx-a100-80gb")
XML = """<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">
<pci busid="0000:01:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="0" sm="80" rank="0">
<nvlink target="0000:02:00.0" count="12" tclass="0x030200"/></gpu></pci>
<pci busid="0000:02:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"><gpu dev="1" sm="80" rank="1">
<nvlink target="0000:01:00.0" count="12" tclass="0x030200"/></gpu></pci></cpu></system>
"""


def _sweep(*arguments: str, **named: object) -> Sweep:
    found = library.collective(*arguments, **named)  # type: ignore[arg-type]
    assert isinstance(found, Sweep)
    return found


@pytest.mark.parametrize("launch", ["process", "thread", "single"])
@pytest.mark.parametrize("on", ["dgx-a100-80gb", "dgx-a100-80gb:2"])
@pytest.mark.parametrize(
    "collective", ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all"]
)
def test_the_reader_of_nccl_tests_reads_it_back(collective: str, on: str, launch: str) -> None:
    sweep = _sweep(collective, on=on, sizes="64K:1G:4", launch=launch)
    rows = read_log_text(nccl_tests_text(sweep), "run").rows
    assert [row.number("size_bytes") for row in rows] == [row.size for row in sweep.rows]
    for read, made in zip(rows, sweep.rows, strict=True):
        assert read.number("time_us") == pytest.approx(made.seconds * 1e6, rel=5e-3)
        assert read.number("busbw_GBps") == pytest.approx(made.bus_bandwidth / 1e9, abs=0.0051)
        assert (read.text("gpus"), read.text("gpu")) == (str(sweep.ranks), "A100-SXM4-80GB")
        assert read.text("nodes") == str(sweep.ranks // sweep.ranks_per_node)


@pytest.mark.parametrize(
    ("sizes", "step"),
    [("8:64:2", "2(factor)"), ("8:64:+8", "8(bytes)"), ("8:24:+4", "4(bytes)"), ("1G", "2(factor)")],
)
def test_the_head_says_how_sizes_follow_each_other(sizes: str, step: str) -> None:
    assert f" step: {step} " in nccl_tests_text(_sweep("all-reduce", on="dgx-a100-80gb", sizes=sizes))


def test_fed_back_it_finds_no_error(podsim: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(podsim("collective", "all-reduce", *NODE, "--sizes", "8:16G:2", "--nccl", "2.27").stdout)
    shown = podsim("collective", "--against", log)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[-1].split()[:2] == ["all", "32"]
    found = library.collective(against=log)
    assert isinstance(found, Comparison)
    assert max(abs(row.error) for row in found.rows) < 1e-3
    assert [one.rows for one in found.scores[0].classes]
    of_two = tmp_path / "two.txt"
    of_two.write_text(
        podsim("collective", "all-reduce", "--on", "dgx-a100-80gb:2", "--sizes", "1M:1G").stdout
    )
    refused = podsim("collective", "--against", of_two)
    assert refused.exit_code == 2
    assert "--on" in refused.stderr
    known = library.collective(against=of_two, on="dgx-a100-80gb:4")
    assert isinstance(known, Comparison)
    assert max(abs(row.error) for row in known.rows) < 1e-3


def test_json_of_nccl_tests_is_read(tmp_path: Path) -> None:
    result = {"size": 1 << 30, "count": 1 << 28, "type": "float", "redop": "sum", "root": -1,
              "out_of_place": {"time": 8000.0, "alg_bw": 134.2, "bus_bw": 234.9, "nwrong": "0"}}  # fmt: skip
    ranks = [
        {"rank": r, "pid": 7 + r, "hostname": "n0", "device_info": "NVIDIA A100-SXM4-80GB"} for r in range(8)
    ]
    document = {"args": ["./all_reduce_perf", "-b", "1G"], "config": {"ranks": ranks}, "results": [result]}
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document))
    found = library.collective(against=path)
    assert isinstance(found, Comparison)
    assert found.rows[0].measured == pytest.approx(8e-3)
    assert abs(found.rows[0].error) < 0.1
    assert "2.27" in json_as_log(json.dumps({**document, "nccl_version": "2.27.3"}), "x")


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)
def test_every_algorithm_by_name(algorithm: object) -> None:
    name, collective = algorithm.name, algorithm.collective  # type: ignore[attr-defined]
    machines = ("v5e-16", "2x v5e-16") if name in ON_TORI else ("dgx-h100", "dgx-a100-80gb:2")
    for on in machines:
        if name == "in-network" and on != "dgx-h100":
            continue
        asked = {"on": on, "sizes": "1G", "algo": name}
        cost, played = _sweep(collective, **asked), _sweep(collective, **asked, simulate=True)
        assert cost.rows[0].algorithm == name
        assert played.rows[0].seconds > 0
        short = name.removesuffix(collective).strip()
        assert not short or _sweep(collective, **{**asked, "algo": short.replace(" ", "-")}).rows == cost.rows


@pytest.mark.parametrize("name", ["torus", "torus-all-gather"])
def test_algorithms_of_a_torus_need_one(name: str) -> None:
    with pytest.raises(PodsimError, match="goes along the axes of a torus, and none joins these ranks"):
        _sweep("all-gather", on="dgx-h100", sizes="1G", algo=name)
    assert "torus" not in {
        row.name for row in _sweep("all-reduce", on="dgx-h100", sizes="1M", compare=True).algorithms
    }
    assert "torus" in {
        row.name for row in _sweep("all-reduce", on="v5e-16", sizes="1M", compare=True).algorithms
    }


def test_ring_by_hand() -> None:
    row = _sweep("all_reduce", on="dgx-a100-80gb", sizes="1G", algo="ring").rows[0]
    assert row.seconds == pytest.approx(14 * (2**30 / 8 / 300e9 + 0.6e-6))
    assert row.bus_bandwidth == pytest.approx(row.size / row.seconds * 1.75)


def test_nccl_simulated_reaches_the_ceiling_of_its_law() -> None:
    law = _sweep("all-reduce", on="dgx-a100-80gb:4", sizes="16G").rows[0]
    played = _sweep("all-reduce", on="dgx-a100-80gb:4", sizes="16G", simulate=True).rows[0]
    assert played.bus_bandwidth == pytest.approx(law.bus_bandwidth, rel=0.02)


def test_a_cluster_with_a_broken_adapter() -> None:
    # the rings of two rails share the adapter next to the broken one, so that their bytes take twice as long
    whole = library.load_cluster("dgx-a100-80gb:4")
    broken = whole.without("node0/nic2")
    asked = {"sizes": "4G", "simulate": True}
    before, after = (_sweep("all-reduce", on=cluster, **asked) for cluster in (whole, broken))
    assert before.rows == _sweep("all-reduce", on="dgx-a100-80gb:4", **asked).rows
    assert after.rows[0].seconds == pytest.approx(2 * before.rows[0].seconds, rel=0.02)
    assert after.machine == "dgx-a100-80gb:4; node0/nic2 broken"
    tables = [
        _sweep("all-reduce", on=one, sizes="4G", algo="hierarchical").rows[0] for one in (whole, broken)
    ]
    assert tables[1].seconds > 1.4 * tables[0].seconds
    assert library.fabric(broken).faulty == 4  # to its PCI Express switch and its leaf, both ways


def test_what_cannot_be_asked_of_a_cluster_as_a_value(tmp_path: Path) -> None:
    broken = library.load_cluster("dgx-a100-80gb:4").degraded("node1/nic*", share=0.5)
    with pytest.raises(
        library.PodsimError, match=r"node1/nic\* at 50%: NCCL's closed form knows nothing of broken"
    ):
        library.collective("all-reduce", on=broken, sizes="1G")
    with pytest.raises(library.PodsimError, match="keys change a cluster that is named"):
        library.collective("all-reduce", on=broken, sizes="1G", overrides={"nics": "4"})
    log = tmp_path / "all_reduce.log"
    log.write_text(nccl_tests_text(_sweep("all-reduce", on="dgx-a100-80gb:4", sizes="1G")), "utf-8")
    assert isinstance(library.collective(on=library.load_cluster("dgx-a100-80gb:4"), against=log), Comparison)
    with pytest.raises(library.PodsimError, match="broken or slow links"):
        library.collective(on=broken, against=log)


@pytest.mark.parametrize("launch", ["process", "thread", "single"])
@pytest.mark.parametrize("on", ["dgx-a100-80gb", "dgx-a100-80gb:2"])
def test_a_log_tells_how_its_ranks_were_launched(on: str, launch: str, tmp_path: Path) -> None:
    log = tmp_path / "all_reduce.log"
    log.write_text(nccl_tests_text(_sweep("all-reduce", on=on, sizes="8:1G:8", launch=launch)), "utf-8")
    found = library.collective(against=log, on=on)
    assert isinstance(found, Comparison)
    assert max(abs(row.error) for row in found.rows) < 1e-3


def test_launch_and_release_are_those_given_where_a_log_does_not_tell(podsim: Run, tmp_path: Path) -> None:
    asked = {"on": "dgx-a100-80gb:2", "sizes": "8:1G:8", "launch": "single", "nccl": "2.8"}
    text = nccl_tests_text(_sweep("all-reduce", **asked))
    log = tmp_path / "all_reduce.log"
    log.write_text("\n".join(line for line in text.splitlines() if "version" not in line), "utf-8")

    def error(*options: str) -> float:
        shown = podsim("collective", "--against", str(log), "--on", "dgx-a100-80gb:2", *options, "--json")
        return float(json.loads(shown.stdout)["scores"][0]["mae"])

    assert error("--nccl", "2.8") < 1e-3
    assert error("--nccl", "2.30") > 0.01
    assert error("--nccl", "2.8", "--launch", "thread") > 0.05


def test_one_gpu_of_each_server_has_one_adapter(tmp_path: Path) -> None:
    ranks = [f"# Rank  {n} Pid  {n} on node{n} device  0 [0x07] NVIDIA A100-SXM4-80GB" for n in range(2)]
    rate = 0.957 * 25e9  # of 200 Gb/s what NCCL reaches
    row = f"1073741824 268435456 float sum {2**30 / rate * 1e6:.1f} 0.0 0.0 0 {2**30 / rate * 1e6:.1f} 0.0 0.0 0"
    log = tmp_path / "all_reduce.log"
    log.write_text("\n".join(["# nThread 1 nGpus 1", *ranks, row]), "utf-8")
    found = library.collective(against=log, on="dgx-a100-80gb:2")
    assert isinstance(found, Comparison)
    assert abs(found.rows[0].error) < 0.05


def test_whether_one_rank_sends_or_all_is_said() -> None:
    asked = {"on": "dgx-a100-80gb:2", "sizes": "1G"}
    nccl = _sweep("send-recv", **asked)
    one = _sweep("send-recv", **asked, algo="send-recv")
    assert nccl.how == "what NCCL 2.18 would run and cost, every rank sending to the next"
    assert "rank 0 sending to rank 1; no kernel launch" in one.how
    assert nccl.rows[0].seconds > 10 * one.rows[0].seconds  # rank 7 sends to rank 8 over one adapter


def test_one_rank_takes_no_time() -> None:
    for algo in ("nccl", "ring"):
        assert _sweep("all-reduce", on="dgx-a100-80gb", ranks=1, sizes="1G", algo=algo).rows[0].seconds == 0.0


def test_compare(podsim: Run) -> None:
    shown = podsim("collective", "all-reduce", "--on", "dgx-a100-80gb:4", "--sizes", "8:16G:2", "--compare")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[3].startswith("multi-ring")
    names = {one.name for one in ALGORITHMS if one.collective == "all-reduce"}
    assert {name for name in names if any(line.startswith(f"{name} ") for line in lines)} == names - {
        "in-network",
        "torus",
    }
    assert "Not compared: in-network" in shown.stdout
    sweep = _sweep("all-reduce", on="dgx-a100-80gb:4", sizes="32M", compare=True)
    ring = next(row for row in sweep.algorithms if row.name == "ring")
    assert (ring.rounds, ring.fan_in, ring.sent) == (62, 1, pytest.approx(2 * 31 * 2**20))
    server = next(row for row in sweep.algorithms if row.name == "parameter server")
    assert (server.rounds, server.fan_in, server.peak) == (2, 31, pytest.approx(31 * 2**25))


def test_too_many_rows_are_left_out_with_the_reason() -> None:
    sweep = _sweep("all-reduce", on="selene", sizes="1G", compare=True)
    assert "about 20,000,000 rows for 4,480 ranks" in sweep.left_out["naive"]  # 4,480 x 4,479
    assert "hierarchical" in {row.name for row in sweep.algorithms}


def test_json_and_csv(podsim: Run) -> None:
    asked = ("collective", "all-reduce", *NODE, "--sizes", "1K:1M:4")
    data = json.loads(podsim(*asked, "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(podsim(*asked, "--csv").stdout)))
    assert [row["seconds"] for row in data["rows"]] == [float(row["seconds"]) for row in rows]
    compared = list(csv.DictReader(io.StringIO(podsim(*asked, "--compare", "--csv").stdout)))
    assert {"name", "rounds", "fan_in"} <= set(compared[0])


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_plots(podsim: Run, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    start = {"svg": b"<?xml", "png": b"\x89PNG"}[kind]
    for name, more in {"one": (), "all": ("--compare",), "single": ("--compare", "--simulate")}.items():
        path = tmp_path / f"{name}.{kind}"
        sizes = "1M" if name == "single" else "1K:1G:4"
        assert (
            podsim("collective", "all-reduce", *NODE, "--sizes", sizes, *more, "--plot", path).exit_code == 0
        )
        assert path.read_bytes().startswith(start)


def test_tables_of_the_user(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from podsim.network.collectives import make_table\n"
        "from podsim.network.collectives.rings import ring_all_reduce as good\n"
        "def bad(n):\n    return make_table('bad', 'all-reduce', {'step': 0, 'source': [0], 'destination': [1],\n"
        "        'chunk': 0, 'reduce': 1}, ranks=n, chunks=1)\n"
        "def wrong(n):\n    return 3\n"
        "def few(n):\n    return good(2)\n"
        "def broken(n):\n    return 1 / 0\n"
    )
    asked = ("collective", "all-reduce", *NODE, "--sizes", "1G", "--csv", "--algo")
    by_name = list(csv.DictReader(io.StringIO(podsim(*asked, "ring").stdout)))
    made = list(csv.DictReader(io.StringIO(podsim(*asked, f"{tmp_path}/mine.py:good").stdout)))
    assert float(made[0]["seconds"]) == pytest.approx(float(by_name[0]["seconds"]))
    for function, words in {
        "bad": "bad", "wrong": "Table", "few": "2 ranks", "broken": "ZeroDivisionError", "absent": "no function",
    }.items():  # fmt: skip
        refused = podsim(*asked, f"{tmp_path}/mine.py:{function}")
        assert refused.exit_code == 2
        assert words in refused.stderr
    table = ring_all_reduce(8)
    assert _sweep("all-reduce", on="dgx-a100-80gb", sizes="1G", algo=table).rows[0].algorithm == "ring"


def test_a_server_from_a_file(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "topo.xml"
    path.write_text(XML)
    sweep = _sweep("all-reduce", topology=path, sizes="1G", algo="ring")
    assert sweep.rows[0].seconds == pytest.approx(2**30 / 300e9, rel=1e-3)
    shown = podsim("show", path, "--fabric")
    assert shown.exit_code == 0
    assert "gpu0" in shown.stdout
    assert "no algorithm" not in podsim("collective", "all-reduce", "--topology", path).stdout


def test_show_fabric(podsim: Run, tmp_path: Path) -> None:
    shown = podsim("show", "selene", "--fabric", "--svg", tmp_path / "selene.svg")
    assert shown.exit_code == 0
    assert "4,480" in shown.stdout
    assert (tmp_path / "selene.svg").read_text().lstrip().startswith(("<svg", "<?xml"))
    assert json.loads(podsim("show", "tpu-v4", "--fabric", "--json").stdout)["torus"]


LOL = '<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system version="1">&b;</system>'


@pytest.mark.parametrize("text", ["", "<system", LOL, "<a/>" * 10, "GPU0 GPU1\nGPU0 X\n", "\x00\xff"])
def test_files_that_are_no_topology(podsim: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "topo.xml"
    path.write_text(text)
    for arguments in (
        ("collective", "all-reduce", "--algo", "ring", "--topology", path),
        ("show", path, "--fabric"),
    ):
        result = podsim(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "topo.xml" in result.stderr
        assert len(result.stderr) < 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all-reduce"], ["neither --on nor --topology"]),
        ([], ["name a collective"]),
        (["all-sum", *NODE], ["all-sum", "all-reduce"]),
        (["gather", *NODE], ["NCCL has no gather"]),
        (["all-reduce", "--on", "nowhere:3"], ["nowhere"]),
        (["all-reduce", *NODE, "--sizes", "0"], ["0 B"]),
        (["all-reduce", *NODE, "--sizes", "8:1:2"], ["ends at 1 B"]),
        (["all-reduce", *NODE, "--sizes", "x:y"], ["'x' is no size", "8:16G:2"]),
        (["all-reduce", *NODE, "--sizes", "8:16:2:3"], ["4 parts"]),
        (["all-reduce", *NODE, "--sizes", "8:16:1"], ["factor 1"]),
        (["all-reduce", *NODE, "--sizes", "8:16:-2"], ["no factor"]),
        (["all-reduce", *NODE, "--sizes", "8:1G:+8"], ["more than 1000"]),
        (["all-reduce", *NODE, "--sizes", "10"], ["multiples of 4"]),
        (["all-gather", *NODE, "--sizes", "8:1G:2"], ["8 ranks", "multiples of 32"]),
        (["all-reduce", *NODE, "--sizes", "9999999T"], ["1024T"]),
        (["all-reduce", *NODE, "--ranks", "0"], ["ranks=0"]),
        (["all-reduce", *NODE, "--ranks", "9"], ["ranks=9", "8"]),
        (["all-reduce", "--on", "dgx-a100-80gb:4", "--ranks", "12"], ["8 or 16"]),
        (["all-reduce", *NODE, "--algo", "spiral"], ["spiral", "hierarchical", "nccl"]),
        (["all-reduce", *NODE, "--algo", "absent.py:mine"], ["absent.py"]),
        (["all-reduce", *NODE, "--algo", "absent.py:f"], ["absent.py"]),
        (["all-reduce", *NODE, "--algo", "in-network"], ["adds"]),
        (["all-to-all", "--on", "selene", "--algo", "hierarchical"], ["fewer --ranks"]),
        (["all-reduce", *NODE, "--launch", "rocket"], ["rocket", "thread"]),
        (["all-reduce", *NODE, "--nccl", "1.0"], ["1.0"]),
        (["all-reduce", *NODE, "--plot", "x.gif"], [".svg or .png"]),
        (["all-reduce", *NODE, "--json", "--csv"], ["choose one"]),
        (["all-reduce", *NODE, "--set", "nvlink.bandwidth=-1"], ["nvlink.bandwidth"]),
        (["all-reduce", "--against", "absent.log"], ["absent.log"]),
        (["--against", "absent.log", "--compare"], ["compare cannot be given"]),
    ],
)
def test_bad_input(podsim: Run, arguments: list[str], words: list[str]) -> None:
    result = podsim("collective", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr) < 2000
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("text", ["", "nothing", "{", "[]", '{"results": []}', '{"size": 3}', "[" * 100_000])
def test_files_that_are_no_log(podsim: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(text)
    result = podsim("collective", "--against", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "all_reduce" in result.stderr


@pytest.mark.parametrize(
    ("system", "nics", "name", "rate", "fabric"),
    [
        ("AWS p4de.24xlarge", "4x EFA 100 Gb/s", "aws-p4de", 4 * 12.5e9, "efa"),
        ("AWS p4d", "4 x EFA 100G", "aws-p4d", 4 * 12.5e9, "efa"),
        ("OCI BM.GPU4.8", "16x 100GbE RoCE", "oci-bm-gpu4-8", 16 * 12.5e9, "roce"),
        ("Azure NDv4", "8x HDR200 IB", "azure-ndv4-80gb", 8 * 25e9, "infiniband"),
        ("DGX A100", "8x ConnectX-6 HDR200 IB", "dgx-a100-80gb", 8 * 25e9, "infiniband"),
    ],
)
def test_rows_of_clouds_name_their_adapters(
    system: str, nics: str, name: str, rate: float, fabric: str
) -> None:
    from reference.curate_collectives import collective_cells

    from podsim.accuracy.price_collectives import Call, read_call

    row = {
        "system": system, "nics": nics, "gpu": "A100-SXM4-80GB", "nodes": "2", "gpus": "16", "collective": "all_reduce",
        "size_bytes": "1048576", "time_us": "1", "notes": "", "algo": "auto", "proto": "auto", "source": "x", "id": "x",
    }  # fmt: skip
    call = read_call(row | collective_cells(row))
    assert isinstance(call, Call)
    assert call.cluster.system.name == name
    assert call.cluster.nics * call.cluster.network.bandwidth == pytest.approx(rate)
    assert call.cluster.fabric == fabric
    untold = collective_cells({**row, "nics": "not stated"})
    if untold["reason"]:
        assert "not stated" in untold["reason"]
    else:  # the system has adapters of its own
        own = read_call(row | untold)
        assert isinstance(own, Call)
        assert own.cluster.system.name == name


def test_sizes_may_be_numbers() -> None:
    text = library.collective("all-reduce", on="dgx-a100-80gb", sizes="1M:4M:4")
    assert library.collective("all-reduce", on="dgx-a100-80gb", sizes=[1 << 20, 1 << 22]).rows == text.rows
    assert library.collective("all-reduce", on="dgx-a100-80gb", sizes=1 << 20).rows == text.rows[:1]
    for wrong in (-4, 1.5, 0, [8, None], [6]):
        with pytest.raises(PodsimError, match="sizes"):
            library.collective("all-reduce", on="dgx-a100-80gb", sizes=wrong)  # type: ignore[arg-type]


def test_the_ranks_of_a_large_job_are_a_range(podsim: Run) -> None:
    lines = podsim("collective", "all-reduce", "--on", "selene", "--sizes", "1G").stdout.splitlines()
    assert len(lines) < 40
    assert "#  Ranks 8 to 4479: as those of node0, on node1 to node559" in lines
    slice_of_tpus = podsim("collective", "all-reduce", "--on", "v4-8192", "--sizes", "1G").stdout.splitlines()
    assert len(slice_of_tpus) < 100
    assert "#  Ranks 64 to 4095: as these, devices of tpu-v4:16x16x16" in slice_of_tpus
    all_of_them = podsim("collective", "all-reduce", "--on", "dgx-a100:8", "--sizes", "1G").stdout
    assert len(re.findall("^#  Rank ", all_of_them, re.MULTILINE)) == 64
