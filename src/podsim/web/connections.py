"""Connections that send nothing are closed: after some seconds, or as soon as too many of them are open."""

from __future__ import annotations

from asyncio import TimerHandle
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = {h11.IDLE: 10.0, h11.SEND_BODY: 120.0}
"""s that a visitor may take to send the head of a request, and its body"""
MOST_WAITING = 200
"""connections that may wait for a visitor; one more closes the one that has waited longest"""
MOST_OPEN = 500
"""connections, or requests that are being answered, beyond which requests get 503"""


class BoundedProtocol(H11Protocol):
    """A connection of HTTP/1.1 that waits for its visitor for a bounded time, as one of a bounded number."""

    waiting: dict[BoundedProtocol, TimerHandle] = {}  # noqa: RUF012 - all connections of the process share it

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait on only if the request is not complete."""
        state = self.conn.their_state
        super().data_received(data)
        if self.conn.their_state is not state:
            self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Close this connection after its time, and the one that has waited longest if there are too many."""
        self._stop()
        seconds = SECONDS.get(self.conn.their_state)
        if seconds is None or self.transport.is_closing():
            return
        self.waiting[self] = self.loop.call_later(seconds, self.transport.abort)
        if len(self.waiting) > MOST_WAITING:
            oldest = next(iter(self.waiting))
            oldest._stop()
            oldest.transport.abort()

    def _stop(self) -> None:
        if timer := self.waiting.pop(self, None):
            timer.cancel()
