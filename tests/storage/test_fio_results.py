"""What real fio wrote is read; what is no run of fio is refused, with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import TableError, UnitError
from podsim.storage.fio_results import read_block, read_fio

DATA = Path(__file__).parent / "data"
SIDE: dict[str, Any] = {
    "bw_bytes": 4096000,
    "iops": 1000.0,
    "total_ios": 1000,
    "runtime": 1000,
    "lat_ns": {"mean": 2e6},
}
JOB: dict[str, Any] = {
    "jobname": "a",
    "error": 0,
    "job options": {"rw": "randread", "bs": "4k"},
    "read": SIDE,
}


def _file(tmp_path: Path, document: object, *, before: str = "") -> Path:
    path = tmp_path / "run.json"
    path.write_text(before + (document if isinstance(document, str) else json.dumps(document)))
    return path


def test_two_jobs_of_fio_3_33() -> None:
    """fio --rw=randread --bs=4k --numjobs=2 --iodepth=4, jobs apart: their rates add up."""
    found = read_fio(DATA / "fio_randread.json")
    jobs = json.loads((DATA / "fio_randread.json").read_text())["jobs"]
    assert (found.rw, found.block, found.numjobs, found.iodepth, found.clients) == ("randread", 4096, 2, 4, 1)
    assert found.read_bandwidth == sum(job["read"]["bw_bytes"] for job in jobs)
    assert found.read_iops == pytest.approx(found.read_bandwidth / 4096, rel=1e-3)
    assert 100e-6 < found.read_latency < 200e-6
    assert found.seconds == pytest.approx(3.0, abs=0.1)


def test_a_mixed_group_of_fio_3_33() -> None:
    found = read_fio(DATA / "fio_randrw.json")
    assert (found.rw, found.block, found.numjobs) == ("randrw", 8192, 2)
    assert found.read_iops / (found.read_iops + found.write_iops) == pytest.approx(0.7, abs=0.02)


def test_warnings_before_the_json_and_bare_jobs(tmp_path: Path) -> None:
    found = read_fio(_file(tmp_path, {"jobs": [JOB]}, before="fio: note, both iodepth >= 1\n"))
    assert (found.read_iops, found.read_latency, found.numjobs) == (1000.0, 2e-3, 1)


def test_older_releases_and_clients(tmp_path: Path) -> None:
    old = {
        **JOB,
        "read": {"bw": 1000, "iops": 7.8, "lat": {"mean": 40.0}},
        "hostname": "x",
        "job options": {},
    }
    document = {"client_stats": [old, {**old, "hostname": "y"}, {**old, "jobname": "All clients"}],
                "global options": {"rw": "read", "bs": "128k", "numjobs": "4"}}  # fmt: skip
    found = read_fio(_file(tmp_path, document))
    assert (found.clients, found.numjobs, found.rw, found.block) == (2, 4, "read", 131072)
    assert found.read_bandwidth == 2 * 1000 * 1024
    assert found.read_latency == pytest.approx(40e-6)


READ = {"rw": "randread", "bs": "4k"}


def test_an_engine_that_waits_has_one_access_under_way(tmp_path: Path) -> None:
    """fio caps the depth of such engines, of which one is its default."""
    for engine, depth in (("psync", 1), ("mmap", 1), ("libaio", 16), ("io_uring", 16)):
        options = {**READ, "iodepth": "16", "ioengine": engine, "direct": "1"}
        found = read_fio(_file(tmp_path, {"jobs": [{**JOB, "job options": options}]}))
        assert (found.iodepth, found.direct) == (depth, True)
    found = read_fio(_file(tmp_path, {"jobs": [{**JOB, "job options": {**READ, "iodepth": "16"}}]}))
    assert (found.iodepth, found.direct) == (1, False)


def test_equal_jobs_of_several_hosts_add_up_whatever_their_groups(tmp_path: Path) -> None:
    jobs = [{**JOB, "hostname": host, "groupid": group} for host, group in (("x", 0), ("y", 1), ("y", 1))]
    found = read_fio(_file(tmp_path, {"jobs": jobs}))
    assert (found.clients, found.read_iops) == (2, 3000.0)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (
            {"jobs": [JOB, {**JOB, "jobname": "b", "job options": {"rw": "write", "bs": "1m"}}]},
            r"2 different jobs.*a \(randread, 4k\); b \(write, 1m\)",
        ),
        ({"jobs": [{**JOB, "groupid": 0}, {**JOB, "groupid": 1}]}, "one after another"),
        (
            {"jobs": [JOB, {**JOB, "job options": {**READ, "ioengine": "libaio", "iodepth": "8"}}]},
            "different jobs",
        ),
        (
            {
                "jobs": [
                    {
                        **JOB,
                        "job options": {"rw": "randread", "bssplit": "4k/50:64k/50"},
                        "read": {**SIDE, "iops": 100.0},
                    }
                ]
            },
            "40,960 B on average",
        ),
        (
            {
                "jobs": [
                    {**JOB, "job options": {"rw": "randrw", "bs": "4k,64k"}, "write": {**SIDE, "iops": 62.5}}
                ]
            },
            "a write was of 65,536 B",
        ),
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ('{"jobs": [', "is not JSON"),
        ("\x00\x01\x02", "is not JSON"),
        ("[1, 2]", "not the object"),
        ({"kind": "else"}, "no list of jobs"),
        ({"jobs": []}, "no list of jobs|lists no job"),
        ({"jobs": [3]}, "no list of jobs"),
        ({"jobs": [{**JOB, "error": 5}]}, "ended with error 5"),
        ({"jobs": [{**JOB, "read": {}}]}, "nothing was read or written"),
        ({"jobs": [{**JOB, "read": {**SIDE, "bw_bytes": -1}}]}, "bw_bytes"),
        ({"jobs": [{**JOB, "read": {**SIDE, "iops": "many"}}]}, "iops"),
        ({"jobs": [{**JOB, "read": {**SIDE, "iops": float("nan")}}]}, "NaN is not a number of JSON"),
        ({"jobs": [{**JOB, "read": {**SIDE, "lat_ns": {"mean": True}}}]}, "lat_ns"),
        ({"jobs": [{**JOB, "job options": {"rw": "read", "bs": "big"}}]}, "bs"),
        ({"jobs": [{**JOB, "job options": {"rw": "read", "numjobs": "0"}}]}, "numjobs"),
    ],
)
def test_what_is_no_run(tmp_path: Path, document: object, says: str) -> None:
    with pytest.raises(TableError, match=says):
        read_fio(_file(tmp_path, document))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        read_fio(tmp_path / "none.json")
    with pytest.raises(TableError, match="cannot be read"):
        read_fio(tmp_path)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4k", 4096), ("128k", 131072), ("1M", 1048576), ("1MiB", 1048576), ("512", 512), ("4k,8k", 4096)],
)
def test_blocks_as_fio_writes_them(text: str, size: int) -> None:
    assert read_block(text) == size


@pytest.mark.parametrize("text", ["", "k", "4x", "four", "1 M B"])
def test_blocks_that_are_none(text: str) -> None:
    with pytest.raises(UnitError, match="expected"):
        read_block(text)
