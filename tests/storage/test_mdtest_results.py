"""What mdtest printed is read, in the forms of its releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.errors import TableError
from podsim.storage.mdtest_results import mdtest_rates, read_mdtest

NEW = """\
-- started at 11/21/2026 19:00:00 --

mdtest-4.0.0 was launched with 4 total task(s) on 1 node(s)
Command line used: mdtest '-n' '1000' '-u' '-d' '/mnt/data'
4 tasks, 4000 files/directories

SUMMARY rate: (of 3 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   Directory creation        16574.207      15574.207      16074.207        408.248
   Directory stat            91234.500      90234.500      90734.500        408.248
   File creation             20000.000      18000.000      19000.000        816.497
   File stat                 99999.000      97999.000      98999.000        816.497
   File read                 50000.000      48000.000      49000.000        816.497
   File removal              30000.000      28000.000      29000.000        816.497
   Tree creation               999.000        997.000        998.000          0.816
-- finished at 11/21/2026 19:00:10 --
"""
OLD = """\
mdtest-1.9.3 was launched with 128 total task(s) on 4 node(s)
SUMMARY: rate table follows
SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                      Max            Min           Mean        Std Dev
   File creation     :      35000.500      35000.500      35000.500          0.000
   File stat         :     150000.250     150000.250     150000.250          0.000
   File removal      :      41000.000      41000.000      41000.000          0.000
"""


def test_means_of_both_forms() -> None:
    rates, tasks = mdtest_rates(NEW)
    assert (rates["File creation"], rates["File stat"], rates["File removal"], tasks) == (
        19e3,
        98999.0,
        29e3,
        4,
    )
    assert len(rates) == 7
    rates, tasks = mdtest_rates(OLD)
    assert (rates["File creation"], rates["File stat"], tasks) == (35000.5, 150000.25, 128)


def test_what_podsim_predicts_is_read_too() -> None:
    """`podsim storage mdtest` prints in the same form."""
    from podsim.questions.machine.storage_mdtest import storage_mdtest
    from podsim.report.screen import report_text
    from podsim.report.storage_tables import mdtest_report

    run = storage_mdtest("local-nvme")
    rates, tasks = mdtest_rates(report_text(mdtest_report(run)))
    assert tasks == run.tasks
    assert rates == pytest.approx({row.operation: row.rate for row in run.rows}, abs=1e-3)


def test_other_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="SUMMARY rate"):
        mdtest_rates("IOR-3.3.0: MPI Coordinated Test of Parallel I/O")
    with pytest.raises(TableError, match=r"none\.txt: cannot be read"):
        read_mdtest(tmp_path / "none.txt")
