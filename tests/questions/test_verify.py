"""`podsim verify`: checks beside what is expected, with a stand-in for fio that writes what fio writes."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from podsim.acceptance import storage_checks
from podsim.acceptance.thresholds import SAME, THRESHOLDS, Figure, check, unmeasured
from podsim.answers.acceptance import Acceptance
from podsim.answers.lab import MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import write_run
from podsim.errors import PodsimError, StorageError
from podsim.lab.disk import run_tool
from podsim.questions.operate.verify import verify_machine
from podsim.report.browser import print_pdf
from podsim.report.pages import acceptance_page

Run = Callable[..., Result]
DATA = Path(__file__).parents[1] / "storage" / "data"
HOST = Path(__file__).parents[1] / "hardware" / "data" / "host.toml"
FIO = f"""#!{sys.executable} -IS
import json, sys
given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
rates = json.load(open(__file__.rpartition("/")[0] + "/rates.json"))
if given["name"] in rates.get("fails", []):
    sys.stderr.write("fio: io_u error on file data: No space left on device\\n"); sys.exit(1)
block = {{"1M": 1 << 20, "4k": 4096}}.get(given.get("bs"), 4096)
rate = rates["bandwidth"] if block > 4096 else rates["iops"] * 4096
side = {{"bw_bytes": int(rate), "iops": rate / block, "total_ios": 1000, "runtime": 1000,
        "lat_ns": {{"mean": 0.0, "N": 0}}, "clat_ns": {{"mean": rates["latency"] * 1e9, "N": 1000}}}}
none = {{"bw_bytes": 0, "iops": 0, "total_ios": 0, "runtime": 0}}
write = "write" in given.get("rw", "")
job = {{"jobname": given["name"], "error": 0, "read": none if write else side, "write": side if write else none,
       "job options": {{k: v for k, v in given.items() if k in ("rw", "bs", "numjobs", "iodepth")}}}}
open(given["output"], "w").write(json.dumps({{"fio version": "fio-3.33", "jobs": [job]}}))
if "filename" in given:
    open(given["filename"], "a").close()
"""


@pytest.fixture
def fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a stand-in for fio on a PATH that has nothing else, and say what it finds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = folder / "fio"
    path.write_text(FIO)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))

    def finds(**rates: object) -> None:
        (folder / "rates.json").write_text(json.dumps(rates))

    finds(bandwidth=20e9, iops=500e3, latency=100e-6)
    return finds


def _storage(tmp_path: Path, **changes: object) -> Acceptance:
    given: dict[str, object] = {
        "expect": "dgx-a100-80gb",
        "only": "storage,metadata",
        "folder": tmp_path,
        "size": "1M",
    }
    return verify_machine(**{**given, **changes})  # type: ignore[arg-type]


def test_a_verdict_for_every_case() -> None:
    figure = Figure(group="storage", name="x", unit="B/s")

    def verdict(measured: float, expected: float | None, limit: float | None) -> str:
        threshold = THRESHOLDS["bandwidth"]
        return check(figure, threshold, measured=measured, expected=expected, limit=limit).verdict

    assert [verdict(m, 10.0, 12.0) for m in (8.0, 7.9, 12.5, 13.0)] == [
        "ok", "falls short", "ok", "above the limit",
    ]  # fmt: skip
    assert unmeasured(figure, "no fio").verdict == "not run"
    assert verdict(5.0, None, None) == "no expectation"
    for one in (SAME, *THRESHOLDS.values()):
        assert 0 < one.least < 1
        assert len(one.why) > 30


def test_what_fio_finds_is_judged(fio: Callable[..., None], tmp_path: Path) -> None:
    found = {one.name: one for one in _storage(tmp_path).checks}
    assert [one.verdict for name, one in found.items() if name.startswith("fio")].count("not run") == 0
    wide = found["fio read 1M"]
    assert wide.measured == pytest.approx(20e9)
    assert wide.limit == pytest.approx(8 * 6.5e9)
    assert found["fio write 4k"].verdict == "no expectation"
    assert found["File stat"].how.startswith(
        "fio's engines filecreate, filestat, filedelete; mdtest is not installed"
    )
    fio(bandwidth=60e9, iops=500e3, latency=100e-6)
    over = {one.name: one for one in _storage(tmp_path, only="storage").checks}["fio read 1M"]
    assert over.verdict == "above the limit"
    assert "a cache was measured" in over.why
    fio(bandwidth=1e9, iops=500e3, latency=100e-6)
    low = {one.name: one.verdict for one in _storage(tmp_path, only="storage").checks}
    assert low["fio read 1M"] == "falls short"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("podsim-")]


def test_another_storage_system_is_expected(fio: Callable[..., None], tmp_path: Path) -> None:
    from podsim.questions.machine.storage_fio import storage_fio

    found = {one.name: one for one in _storage(tmp_path, only="storage", storage="weka-ra:1").checks}[
        "fio read 1M"
    ]
    jobs = int(found.how.partition("--numjobs=")[2].split()[0])
    told = storage_fio("weka-ra:1", rw="read", bs="1M", numjobs=jobs, iodepth=1, client="dgx-a100-80gb").rows[
        0
    ]
    assert found.expected == pytest.approx(told.bandwidth)
    assert found.verdict == "ok"
    with pytest.raises(PodsimError, match="--storage nfs-of-mine: unknown storage system"):
        _storage(tmp_path, storage="nfs-of-mine")


def test_mdtest_is_taken_where_it_is(fio: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "bin" / "mdtest"
    path.write_text(
        f"#!{sys.executable}\nprint('''mdtest-4.0.0 was launched with 1 total task(s) on 1 node(s)\n\n"
        "SUMMARY rate: (of 3 iterations)\n   File creation  7000.0  6000.0  6500.0  400.0\n   "
        "File stat  90000.0  90000.0  90000.0  0.0\n''')\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    found = {one.name: one for one in _storage(tmp_path, only="metadata").checks}
    assert set(found) == {"File creation", "File stat"}
    assert found["File creation"].measured == 6500.0
    assert found["File creation"].how.startswith("mdtest, 1 task")


def test_no_fio_is_said_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = verify_machine(
        expect="dgx-a100-80gb", only="inventory,storage", folder=tmp_path, size="1M", root=tmp_path
    )
    assert {one.verdict for one in found.checks} == {"not run"}
    assert "apt install fio" in found.checks[0].why
    assert found.parts
    assert not found.accepted


def test_a_run_of_fio_that_fails_is_said(fio: Callable[..., None], tmp_path: Path) -> None:
    fio(bandwidth=20e9, iops=500e3, latency=100e-6, fails=["read-4k"])
    found = _storage(tmp_path, only="storage")
    assert {one.verdict for one in found.checks} == {"not run"}
    assert "No space left on device" in found.checks[0].why
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("podsim-")]


def test_a_folder_without_room_is_said(fio: Callable[..., None], tmp_path: Path) -> None:
    found = _storage(tmp_path, size="1024G")
    assert found.checks[0].verdict == "not run"
    assert "give a smaller --size" in found.checks[0].why


def test_stored_files_are_judged_instead(tmp_path: Path) -> None:
    rates = tmp_path / "mdtest.txt"
    rates.write_text(
        "4 tasks, 4000 files\nSUMMARY rate: (of 1 iterations)\n   File stat  900.0  900.0  900.0  0.0\n"
    )
    found = _storage(tmp_path, fio=[DATA / "fio_randread.json"], mdtest=rates)
    assert [one.name for one in found.checks] == ["fio fio_randread", "File stat"]
    assert found.checks[0].how == "fio --rw=randread --bs=4096 --numjobs=2 --iodepth=4"
    assert found.checks[1].verdict == "falls short"


def _run(
    path: Path, bus: float, ranks: int = 8, collective: str = "all-reduce", *, largest: int = 1 << 28, wrong: int = 0,
    in_place_wrong: int | None = None,
) -> Path:  # fmt: skip
    rows = tuple(
        MeasuredCollective(
            algorithm="library", size=float(size), count=size // 4, iterations=10, seconds=size / bus,
            slowest=size / bus, wrong=wrong if size == 1 << 20 else 0, in_place=None, in_place_wrong=in_place_wrong,
            algorithm_bandwidth=bus, bus_bandwidth=bus, messages=0, cpu=0.1, others=0.0,
        )
        for size in (1 << 20, 1 << 24, 1 << 28)
        if size <= largest
    )  # fmt: skip
    run = MeasuredCollectives(
        collective=collective, ranks=ranks, local=8, backend="nccl", device="NVIDIA A100-SXM4-80GB", software="torch",
        hosts=("a",) * ranks, processes=tuple(range(ranks)), cores=128, emulated=None, apart=False, warmup=1,
        message=1e-5,                started="2026-01-01T00:00:00+00:00", rows=rows,
    )  # fmt: skip
    write_run(path, run)
    return path


def test_a_kept_run_of_several_nodes_is_judged(tmp_path: Path) -> None:
    path = _run(tmp_path / "run.jsonl", 230e9, ranks=16)
    found = verify_machine(expect="dgx-a100-80gb:2", only="network", run=path)
    assert [one.name for one in found.checks] == ["all-reduce of 16 MiB", "all-reduce of 256 MiB"]
    # NVLink's 300 GB/s; of two nodes each must pass on all the data, by 200 GB/s, at a bus factor of 15/8
    assert all(one.limit == pytest.approx(300e9) for one in found.checks)
    assert {one.verdict for one in found.checks} == {"ok"}
    over = verify_machine(
        expect="dgx-a100-80gb:2", only="network", run=_run(tmp_path / "f.jsonl", 320e9, ranks=16)
    )
    assert {one.verdict for one in over.checks} == {"above the limit"}
    slow = verify_machine(
        expect="dgx-a100-80gb:2", only="network", run=_run(tmp_path / "s.jsonl", 30e9, ranks=16)
    )
    assert slow.checks[1].verdict == "falls short"
    few = verify_machine(expect="dgx-a100-80gb", only="network", run=path)
    assert few.checks[0].verdict == "no expectation"
    assert "fewer than the 16 ranks" in few.checks[0].basis
    assert not few.accepted
    assert few.problems == ("nothing could be judged",)
    other = _run(tmp_path / "o.jsonl", 30e9, collective="broadcast")
    with pytest.raises(PodsimError, match="expected the library's all-reduce"):
        verify_machine(expect="dgx-a100-80gb", only="network", run=other)


@pytest.mark.parametrize(
    ("changes", "verdicts"),
    [
        ({"wrong": 3}, ["wrong result", "ok", "ok"]),
        ({"in_place_wrong": 1}, ["wrong result"] * 3),
        ({"largest": 1 << 20}, ["not run"]),
        ({"largest": 1 << 20, "wrong": 3}, ["wrong result", "not run"]),
    ],
)
def test_wrong_sums_and_unjudged_messages_are_not_accepted(
    tmp_path: Path, changes: dict[str, int], verdicts: list[str]
) -> None:
    run = _run(tmp_path / "r.jsonl", 200e9, **changes)  # type: ignore[arg-type]
    found = verify_machine(expect="dgx-a100-80gb", only="network", run=run)
    assert [one.verdict for one in found.checks] == verdicts
    assert not found.accepted
    assert all("came out wrong" in one.why for one in found.checks if one.verdict == "wrong result")


def test_an_entry_of_this_machine_expects_what_it_measured(fio: Callable[..., None], tmp_path: Path) -> None:
    from podsim.hardware.cluster import load_cluster

    ssd = load_cluster(str(HOST)).system.ssd
    assert ssd is not None
    fio(bandwidth=max(ssd.read_bandwidth, ssd.write_bandwidth), iops=1.1e5, latency=60e-6)
    found = _storage(tmp_path, only="storage", expect=str(HOST))
    assert {one.threshold for one in found.checks} == {SAME.name}
    assert all(one.limit is None for one in found.checks)
    assert next(one for one in found.checks if one.name == "fio read 1M").expected == pytest.approx(
        ssd.read_bandwidth
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"only": "storage,networks"}, "unknown group of checks.*did you mean network"),
        ({"folder": Path("/no/such")}, "there is no such folder"),
        ({"size": "12"}, "--size 12 B; 1M to 1024G will do"),
        ({"seconds": 0.0}, "--seconds 0; it must be 0.5 to 3600"),
        ({"ranks": 1000}, "--ranks 1000; 1 to 64"),
        ({"expect": "dgx-a1000"}, "unknown cluster, system or GPU"),
    ],
)
def test_wrong_arguments_say_what_would_work(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(PodsimError, match=problem):
        _storage(tmp_path, **changes)


def test_a_node_without_drives_cannot_be_expected_to_have_any(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="--storage local-nvme: a100-pcie-server has no data drives"):
        _storage(tmp_path, expect="a100-pcie-server")


def test_the_command_and_its_report(fio: Callable[..., None], tmp_path: Path, podsim: Run) -> None:
    page = tmp_path / "report.html"
    args = ("verify", "--expect", "dgx-a100-80gb", "--only", "inventory,storage", "--folder", tmp_path, "--size", "1M",
            "--root", tmp_path)  # fmt: skip
    result = podsim(*args, "--html", page)
    assert result.exit_code == 1
    assert "Not accepted as dgx-a100-80gb" in result.output
    assert "falls short" in result.output
    text = page.read_text("utf-8")
    assert text.count("<svg") == 1
    assert "What must be reached" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    told = json.loads(podsim(*args, "--json").stdout)
    assert {"parts", "checks", "thresholds"} <= set(told)
    lines = podsim(*args, "--csv").stdout.splitlines()
    assert lines[0].startswith("group,name,unit,measured,expected")
    ok = podsim(
        "verify", "--expect", "dgx-a100-80gb", "--only", "network", "--run", _run(tmp_path / "r.jsonl", 200e9)
    )
    assert ok.exit_code == 0
    assert "Accepted as dgx-a100-80gb: 2 ok." in ok.output
    assert podsim("verify", "--expect", "dgx-a100-80gb", "--html", "/no/such/r.html").exit_code == 2


def test_a_page_is_the_same_for_the_same_run(tmp_path: Path) -> None:
    found = verify_machine(expect="dgx-a100-80gb", only="network", run=_run(tmp_path / "r.jsonl", 200e9))
    assert acceptance_page(found) == acceptance_page(found)


def test_no_browser_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PodsimError, match=r"there is no browser here.*apt install chromium"):
        print_pdf("<p>", tmp_path / "r.pdf")


@pytest.mark.browser
def test_the_browser_prints_the_page(tmp_path: Path) -> None:
    print_pdf("<!DOCTYPE html><title>x</title><p>Not accepted", tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.fio
def test_the_real_fio_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(command: list[str], seconds: float) -> str:
        words = [
            word.replace("time=0.5", "time=0.1").replace("nrfiles=500", "nrfiles=20") for word in command
        ]
        return run_tool(words, seconds)

    monkeypatch.setattr(storage_checks, "run_tool", shorter)
    found = _storage(tmp_path, size="8M", seconds=0.5)
    assert {one.name for one in found.checks if one.measured} == {one.name for one in found.checks}
    assert all((one.measured or 0) > 0 for one in found.checks)
