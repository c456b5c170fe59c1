"""Fifty visitors of `podsim web`, each changing something once a second: errors, latency, memory; and how it starts.

python scripts/web_load.py [SECONDS] [VISITORS]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

LIMITS = {"errors": 0, "p95": 0.5, "grown": 200e6, "listening": 1.5}


def server(port: int) -> subprocess.Popen[bytes]:
    """The server as a user starts it."""
    command = [sys.executable, "-m", "podsim.cli", "web", "--port", str(port)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def memory_bytes(group: int) -> float:
    """Bytes of all processes of a session, what they share counted in parts."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[3]) == group:
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, StopIteration, IndexError):
            continue
    return total * 1024.0


def cpu_seconds(group: int) -> float:
    """Seconds of processor that the processes of a session have had."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(values[3]) == group:
            ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def request(port: int, body: bytes) -> int:
    """The status of one prediction."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /api/predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


async def visitor(port: int, number: int, end: float, times: list[float], wrong: list[int]) -> None:
    """A visitor who moves a slider of a plan of their own once a second."""
    chance = random.Random(number)
    model = chance.choice(
        ["llama-3-8b", "llama-2-13b", "gpt3-175b", "mixtral-8x7b", "gpt2-xl", "llama-3-70b"]
    )
    await asyncio.sleep(chance.random())
    while time.monotonic() < end:
        asked = {
            "model": model, "on": chance.choice(["dgx-h100:8", "dgx-a100-80gb:16"]), "tp": chance.choice([1, 2, 4, 8]),
            "pp": chance.choice([1, 2, 4]), "micro_batch": chance.choice([1, 2, 4]), "zero": chance.choice([0, 1]),
            "recompute": chance.choice(["none", "selective", "full"]), "batch": chance.choice([256, 512, 1024]),
        }  # fmt: skip
        started = time.monotonic()
        status = await request(port, json.dumps(asked).encode())
        times.append(time.monotonic() - started)
        if status not in (200, 400):  # some of these plans break a rule, and are told so
            wrong.append(status)
        await asyncio.sleep(max(0.0, 1 - (time.monotonic() - started)))


async def load(port: int, seconds: float, visitors: int) -> tuple[list[float], list[int]]:
    """The times of all requests, and the statuses that should not be."""
    times: list[float] = []
    wrong: list[int] = []
    end = time.monotonic() + seconds
    await asyncio.gather(*(visitor(port, number, end, times, wrong) for number in range(visitors)))
    return times, wrong


def listening_seconds(port: int) -> float:
    """Seconds until somebody listens."""
    started = time.monotonic()
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return time.monotonic() - started
        time.sleep(0.01)


def main() -> int:
    """Print the figures; 1 if one of them misses its limit."""
    seconds, visitors = (float(text) for text in (*sys.argv[1:3], *("60", "50")[len(sys.argv) - 1 :]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server(port)
    try:
        listening = listening_seconds(port)
        asyncio.run(load(port, 5, 10))
        before, worked = memory_bytes(running.pid), cpu_seconds(running.pid)
        times, wrong = asyncio.run(load(port, seconds, int(visitors)))
        grown, worked = memory_bytes(running.pid) - before, cpu_seconds(running.pid) - worked
    finally:
        running.terminate()
        running.wait()
    times.sort()
    figures = {
        "errors": len(wrong),
        "p95": times[int(0.95 * len(times))],
        "grown": grown,
        "listening": listening,
    }
    print(
        f"{len(times)} predictions by {visitors:g} visitors in {seconds:g} s; median {times[len(times) // 2]:.3f} s"
    )
    print(f"{worked / len(times) * 1e3:.1f} ms of processor each; machine load {os.getloadavg()[0]:.1f}")
    for name, limit in LIMITS.items():
        print(f"{name:10} {figures[name]:12.4g}  limit {limit:g}")
    return int(any(figures[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
