"""A queue of jobs in SimPy, first come, first served: reads and writes what accasim_queue.py does."""

import json
import sys
import time

import simpy


def job(env, free, row, start, i):
    """A job that waits for its GPUs, holds them, and gives them back."""
    submit, gpus, seconds = row
    yield env.timeout(submit)
    yield free.get(gpus)
    start[i] = env.now
    yield env.timeout(seconds)
    yield free.put(gpus)


given = json.load(sys.stdin)
for _ in range(2):  # the second is warm
    before = time.process_time()
    env, start = simpy.Environment(), {}
    free = simpy.Container(env, given["gpus"], init=given["gpus"])
    for i, row in enumerate(given["jobs"]):
        env.process(job(env, free, row, start, i))
    env.run()
    seconds = time.process_time() - before
print(json.dumps({"start": [start[i] for i in range(len(start))], "seconds": seconds}))
