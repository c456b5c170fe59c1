"""A queue of jobs in AccaSim.

Reads {"jobs": [[submit, gpus, seconds], ...], "gpus": n, "policy": name}; writes {"start": [...], "seconds": s}. AccaSim
1.1.3 takes names from `collections` that Python 3.10 moved.
"""

import collections.abc
import json
import sys
import tempfile
import time
from pathlib import Path

collections.Mapping = collections.abc.Mapping

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

POLICIES = {"fifo": FirstInFirstOut, "easy": EASYBackfilling}
SCHEDULE = {"format": "{id};{start}", "attributes": {"id": ("id", "str"), "start": ("start_time", "int")}}
SWF = "{i} {submit} -1 {seconds} {gpus} -1 -1 {gpus} {seconds} -1 1 1 1 1 1 -1 -1 -1\n"

given = json.load(sys.stdin)
machine = {
    "groups": {"all": {"core": given["gpus"]}}, "resources": {"all": 1}, "equivalence": {"processor": {"core": 1}},
}  # fmt: skip
jobs = [
    SWF.format(i=i, submit=submit, gpus=gpus, seconds=seconds)
    for i, (submit, gpus, seconds) in enumerate(given["jobs"])
]
with tempfile.TemporaryDirectory() as folder:
    system, trace = Path(folder, "system.json"), Path(folder, "jobs.swf")
    system.write_text(json.dumps(machine))
    trace.write_text("".join(jobs))
    simulator = Simulator(
        str(trace), str(system), POLICIES[given["policy"]](FirstFit()), RESULTS_FOLDER_PATH=folder,
        scheduling_output=True, pprint_output=False, benchmark_output=False, statistics_output=False,
        SCHEDULE_OUTPUT=SCHEDULE, LOG_LEVEL="ERROR",
    )  # fmt: skip
    before = time.process_time()
    [schedule] = simulator.start_simulation().values()
    seconds = time.process_time() - before
    start = dict(line.split(";") for line in Path(schedule).read_text().split())
print(json.dumps({"start": [int(start[str(i)]) for i in range(len(jobs))], "seconds": seconds}))
