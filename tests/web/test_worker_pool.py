"""Workers of the page's server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_SERVER = """
import asyncio
from pathlib import Path
from podsim.web import worker_pool

worker_pool._PRELOADED = ["slow_import"]

async def serve():
    pool = worker_pool.WorkerPool(1, Path("."))
    starting = asyncio.ensure_future(pool.start())
    await asyncio.sleep(0.5)
    pool.close()
    starting.cancel()

if __name__ == "__main__":
    asyncio.run(serve())
"""


def test_a_server_ends_while_its_workers_start(tmp_path: Path) -> None:
    (tmp_path / "slow_import.py").write_text("import time\ntime.sleep(60)\n")
    (tmp_path / "server.py").write_text(_SERVER)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    subprocess.run(
        [sys.executable, "server.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, timeout=30, check=True,
    )  # fmt: skip
