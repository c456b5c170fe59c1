"""Logs of nccl-tests in the forms its versions print."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.accuracy.nccl_tests import is_log, read_any, read_log, read_log_text
from podsim.accuracy.tables import measurement
from podsim.errors import TableError

RANKS = "\n".join(
    f"#  Rank {i:2d} Group  0 Pid {100 + i} on n{i // 4} device {i % 4} [0x07] NVIDIA A100-SXM4-80GB"
    for i in range(8)
)
NEW = f"""\
# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20
{RANKS}
# NCCL version 2.18.5+cuda12.2
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    16.97    0.06    0.09      0    16.82    0.06    0.09      0
     1048576        262144     float     sum      -1   1305.0    0.80    1.41    N/A   1300.0    0.81    1.42    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.7
"""
OLD = """\
# nThread 1 nGpus 12 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
           8             2     float     sum    66.25    0.00    0.00  2e-07    66.10    0.00    0.00  2e-07
        4096          1024     float     sum    70.00    0.06    0.11  2e-07    70.10    0.06    0.11  2e-07
"""
GATHER = """\
# nThread 4 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor)
        4096          1024     float    20.00    0.20    0.15  0e+00    20.10    0.20    0.15  0e+00
"""


def test_one_process_per_gpu_on_two_nodes() -> None:
    rows = read_log_text(NEW, "all_reduce_run")
    assert [row.id for row in rows] == ["all_reduce_run/1024", "all_reduce_run/1048576"]
    row = rows.rows[1]
    assert (row.text("nodes"), row.text("gpus"), row.text("gpu")) == ("2", "8", "A100-SXM4-80GB")
    assert (row.text("launch"), row.text("nccl")) == ("process", "2.18")
    measured = measurement(row, "seconds")
    assert measured is not None
    assert measured.value == pytest.approx(1305e-6)
    assert row.role == "test"


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "   "])
def test_prefixes_of_launchers_change_nothing(prefix: str) -> None:
    prefixed = "\n".join(prefix + line for line in NEW.splitlines())
    assert read_log_text(prefixed, "all_reduce_run") == read_log_text(NEW, "all_reduce_run")


def test_of_several_algorithms_the_librarys_own_is_read() -> None:
    """As `podsim measure collective --algo all` prints them: the others are not what NCCL did."""
    slow = NEW.replace("16.97", "99.97").replace("1305.0", "9305.0")
    both = f"# Algorithm: ring\n{slow}# Algorithm: library\n{NEW}# Algorithm: tree\n{slow}"
    assert [row.text("time_us") for row in read_log_text(both, "all_reduce")] == ["16.97", "1305.0"]
    alone = read_log_text(f"# Algorithm: ring\n{slow}", "all_reduce")
    assert [row.text("time_us") for row in alone] == ["99.97", "9305.0"]


def test_an_old_log_without_root_and_ranks() -> None:
    rows = read_log_text("all_reduce_perf -b 8 -g 12\n" + OLD, "run")
    assert [row.text("size_bytes") for row in rows] == ["8", "4096"]
    assert rows.rows[0].text("gpus") == "12"
    assert (rows.rows[0].text("launch"), rows.rows[0].text("nccl")) == ("single", "")
    assert rows.rows[1].number("time_us") == 70.0


def test_threads_and_no_reduction_column() -> None:
    (row,) = read_log_text(GATHER, "all_gather")
    assert row.text("launch") == "thread"
    assert row.text("collective") == "all_gather"
    assert row.number("time_us") == 20.0


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="does not name its collective"):
        read_log_text(NEW, "run")
    with pytest.raises(TableError, match="no line"):
        read_log_text("# nThread 1 nGpus 8\n", "all_reduce")
    with pytest.raises(TableError, match="cannot be read"):
        read_log(tmp_path / "absent.log")
    with pytest.raises(TableError, match="cannot be read"):
        read_any(tmp_path / "absent.log")


def test_logs_and_tables_are_told_apart(tmp_path: Path) -> None:
    assert is_log(NEW)
    assert is_log(OLD)
    assert not is_log("collective,nodes,gpus,size_bytes,algbw_GBps,busbw_GBps\n")
    log, table = tmp_path / "all_reduce.txt", tmp_path / "own.csv"
    log.write_text(NEW, "utf-8")
    table.write_text("collective,nodes,gpus,size_bytes,time_us\nall_reduce,1,8,1024,17\n", "utf-8")
    assert len(read_any(log)) == 2
    assert len(read_any(table)) == 1
