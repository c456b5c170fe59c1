"""Connections that send nothing do not keep others out."""

from __future__ import annotations

import asyncio

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from podsim.web import connections

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def closed(reader: asyncio.StreamReader, seconds: float) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), seconds) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


async def held() -> tuple[list[bool], bytes, list[bool]]:
    """(which of ten silent connections close at once, the reply to an eleventh that asks, which close later)."""
    config = uvicorn.Config(answer, http=connections.BoundedProtocol, ws="none", lifespan="off")
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: connections.BoundedProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    silent = []
    for _ in range(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD)
        await asyncio.sleep(0.01)
        silent.append((reader, writer))
    soon = [await closed(reader, 0.05) for reader, _ in silent]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"\r\n")
    reply = await asyncio.wait_for(reader.read(12), 5)
    later = [await closed(each, 5) for each, _ in silent]
    for _, each in [*silent, (reader, writer)]:
        each.close()
    server.close()
    return soon, reply, later


def test_silent_connections_are_few_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING", 4)
    monkeypatch.setattr(connections, "SECONDS", {h11.IDLE: 2.0})
    soon, reply, later = asyncio.run(held())
    assert soon == [True] * 6 + [False] * 4
    assert reply == b"HTTP/1.1 200"
    assert all(later)
    assert not connections.BoundedProtocol.waiting
