"""A load generator: completions of an HTTP server, asked for at given times or by clients in a loop, timed by token."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from podsim.errors import LabError

_PATIENCE = 120.0
"""s after which a silent server is given up"""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where the server listens."""

    host: str
    port: int
    path: str = "/v1/completions"
    model: str = ""
    """The model that requests name; empty: none."""


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """One request as its client saw it; s since the start of the generator."""

    sent: float
    first: float
    done: float
    prompt: int
    """The tokens of the prompt."""
    tokens: int
    """The number of tokens that came, one for each event."""
    last: bytes = b""
    """The last event."""
    error: str = ""


def read_url(url: str, model: str) -> Server:
    """A server from its URL. Raises LabError for one that is not http://HOST:PORT."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        host, port = "", 0
    if not re.fullmatch(r"[\w.:%-]+", host) or parts.scheme != "http" or not port:
        raise LabError(f"--url {url[:80]!r}: expected http://HOST:PORT of a server with /v1/completions")
    path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~", errors="replace")
    full = path if path.endswith("/completions") else f"{path.removesuffix('/v1')}/v1/completions"
    return Server(host=host, port=port, path=full, model=model)


def send_requests(
    server: Server,
    prompts: Sequence[Sequence[int]],
    outputs: Sequence[int],
    *,
    times: Sequence[float] | None = None,
    clients: int = 0,
    progress: Callable[[int], None] = lambda _done: None,
) -> tuple[list[SentRequest], bool]:
    """(the answered requests, whether Ctrl-C or a signal ended it): sent at their times (s), or by clients in a loop."""
    gc.collect()
    gc.disable()  # a collection would look like a slow token
    rows, stopped = dict[int, SentRequest](), False
    try:
        asyncio.run(_run(server, prompts, outputs, times, clients, progress, rows))
    except KeyboardInterrupt:
        stopped = True
    finally:
        gc.enable()
    return [rows[number] for number in sorted(rows)], stopped


async def _run(
    server: Server,
    prompts: Sequence[Sequence[int]],
    outputs: Sequence[int],
    times: Sequence[float] | None,
    clients: int,
    progress: Callable[[int], None],
    rows: dict[int, SentRequest],
) -> None:
    start = time.monotonic() + 0.05
    bodies = [_message(server, prompt, output) for prompt, output in zip(prompts, outputs, strict=True)]

    async def one(number: int) -> None:
        rows[number] = await _ask(server, bodies[number], len(prompts[number]), start)
        progress(len(rows))

    if times is not None:
        tasks = []
        for number, when in enumerate(times):
            await asyncio.sleep(max(start + when - time.monotonic(), 0.0))
            tasks.append(asyncio.create_task(one(number)))
        await asyncio.gather(*tasks)
    else:
        left = iter(range(len(prompts)))

        async def client() -> None:
            for number in left:
                await one(number)

        await asyncio.gather(*(client() for _ in range(clients)))


def _message(server: Server, prompt: Sequence[int], output: int) -> bytes:
    """The bytes of a request."""
    asked = {
        "prompt": list(prompt),
        "max_tokens": int(output),
        "stream": True,
        "ignore_eos": True,
        "temperature": 0,
    }
    if server.model:
        asked["model"] = server.model
    body = json.dumps(asked).encode()
    head = (
        f"POST {server.path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _ask(server: Server, message: bytes, prompt: int, start: float) -> SentRequest:
    """Send one request and read its stream."""
    sent, stamps, error, last = time.monotonic() - start, list[float](), "", b""
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(message)
            status = await reader.readline()
            if b" 200" not in status:
                error = status.decode("latin-1").strip()[:80] or "the server closed the connection"
            async for line in reader:  # sizes of chunks are lines of their own, and no data
                if line.startswith(b"data:") and b"[DONE]" not in line:
                    stamps.append(time.monotonic() - start)
                    last = line
                elif line.startswith(b"data:"):
                    break
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, TimeoutError, ValueError) as problem:
        error = str(problem)[:80] or type(problem).__name__
    if not stamps and not error:
        error = "no token came"
    return SentRequest(
        sent=sent, first=stamps[0] if stamps else 0.0, done=stamps[-1] if stamps else 0.0, prompt=prompt,
        tokens=len(stamps), error=error, last=last,
    )  # fmt: skip


async def _fetch(server: Server, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
    text = await reader.read()
    writer.close()
    return text.partition(b"\r\n\r\n")[2]


def last_token(row: SentRequest) -> int:
    """The last token of an answer of podsim's own server."""
    return int(json.loads(row.last.removeprefix(b"data:"))["choices"][0]["text"])


def fetch_steps(server: Server) -> list[list[float]]:
    """The steps of podsim's own server, which ends with that."""
    steps: list[list[float]] = json.loads(asyncio.run(_fetch(server, "/steps")))
    return steps
