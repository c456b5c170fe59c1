"""Ten thousand malformed requests and uploads to a server of podsim web: no 500, no traceback, and it is alive after.

python scripts/web_malformed.py [REQUESTS] [SEED]
"""

from __future__ import annotations

import http.client
import socket
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "made")]

from malformed_requests import Malformed, malformed_requests  # noqa: E402 - not on the path of a script
from web_load import listening_seconds, server  # noqa: E402

from podsim.questions.registry import screens  # noqa: E402


def status_of(port: int, asked: Malformed) -> tuple[int, bytes]:
    """The status and the body of a reply; 0 if the server hung up, as it may on what is no HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    try:
        connection.putrequest(asked.method, asked.path, skip_host="Host" in asked.headers)
        for name, value in asked.headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(asked.body)))
        connection.endheaders(asked.body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    except (http.client.HTTPException, OSError, ValueError):
        return 0, b""
    finally:
        connection.close()


def main() -> int:
    """Print the statuses; 1 if one is 500, or a reply holds a traceback, or the server is gone."""
    count, seed = (int(text) for text in (*sys.argv[1:3], *("10000", "1")[len(sys.argv) - 1 :]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = server(port)
    statuses: Counter[int] = Counter()
    wrong = []
    try:
        listening_seconds(port)
        started = time.monotonic()
        for asked in malformed_requests(seed, count, tuple(screens())):
            status, body = status_of(port, asked)
            statuses[status] += 1
            if status == 500 or b"Traceback" in body or b"root:x:" in body:
                wrong.append((asked, body[:300]))
        good = Malformed("POST", "/api/predict", b'{"model": "gpt2", "on": "dgx-h100"}')
        alive = status_of(port, good)[0] == 200
    finally:
        running.terminate()
        running.wait()
    print(
        f"{count} requests in {time.monotonic() - started:.0f} s: {dict(sorted(statuses.items()))}; alive after: {alive}"
    )
    for asked, body in wrong[:20]:
        print(asked, body)
    return int(bool(wrong) or not alive)


if __name__ == "__main__":
    sys.exit(main())
