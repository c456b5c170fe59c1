"""Servers of language models in aiconfigurator.

Reads a list of the arguments of cli_estimate; writes for each {"first_token": s, "each_token": s, "seconds": s}, or
{"reason": text} where it has no answer. Each is asked twice, and the second is timed, with the databases loaded. Their
newest version is looked up here, since cli_estimate takes 1.5 s for that at each call.
"""

import functools
import json
import logging
import sys
import time

from aiconfigurator.cli.api import cli_estimate
from aiconfigurator.sdk.perf_database import get_latest_database_version

newest = functools.cache(get_latest_database_version)


def estimate(row):
    """The answer to a row."""
    row["backend_version"] = newest(row["system_name"], row["backend_name"])
    try:
        for _ in range(2):
            started = time.process_time()
            answer = cli_estimate(**row)
            seconds = time.process_time() - started
    except Exception as error:  # whatever it raises is its answer
        return {"reason": f"{type(error).__name__}: {error}"[:200]}
    return {"first_token": answer.ttft / 1e3, "each_token": answer.tpot / 1e3, "seconds": seconds}


logging.disable()
print(json.dumps([estimate(row) for row in json.load(sys.stdin)]))
