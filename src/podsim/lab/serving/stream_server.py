"""An HTTP server of one thread around the engine: OpenAI's completions with streaming, on loopback.

    POST /v1/completions {"prompt": [token, …], "max_tokens": 16, "stream": true}
    data: {"choices": [{"text": "417 "}]}            one event a token, then data: [DONE], then the connection is closed

Between two steps it accepts and reads what has come; a step's time includes that.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from contextlib import suppress
from typing import Any

from podsim.lab.serving.batching_engine import Engine, EngineRequest, EngineStep

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_BAD = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LARGEST = 1 << 20
"""B of the largest request"""
StepRow = tuple[float, float, int, float, int, int, float]
"""(s of its end, s, decoding sequences, their mean context, chunks, their tokens, their pairs)"""


class StreamServer:
    """The server; `run` serves until a request asks for its steps."""

    def __init__(self, engine: Engine, longest: int, vocab: int) -> None:
        """Listen on a free port of loopback."""
        self.engine, self.longest, self.vocab = engine, longest, vocab
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.texts: dict[socket.socket, bytes] = {}
        self.clients: dict[int, socket.socket] = {}
        self.count, self.steps = 0, list[StepRow]()
        self.is_over = False

    def run(self) -> None:
        """Serve until the steps are asked for."""
        end = 0.0
        while not self.is_over:
            was_busy = self.engine.is_busy
            ready = self.selector.select(0.0 if was_busy else 1.0)
            begin = end if was_busy else time.monotonic()
            for key, _ in ready:
                self._read(key.fileobj)
            if self.engine.is_busy:
                step = self.engine.step()
                self._send(step)
                end = time.monotonic()
                self.steps.append(
                    (end, end - begin, step.decoding, step.context, step.prompts, step.new, step.pairs)
                )
        self.selector.close()
        self.listener.close()

    def _read(self, source: Any) -> None:
        """Accept a connection, or read more of a request."""
        if source is self.listener:
            with suppress(BlockingIOError):
                while True:
                    client, _ = self.listener.accept()
                    client.setblocking(False)
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.texts[client] = b""
                    self.selector.register(client, selectors.EVENT_READ)
                    self._receive(client)
            return
        self._receive(source)

    def _receive(self, client: socket.socket) -> None:
        try:
            piece = client.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self.texts[client] += piece
        head, gap, body = self.texts[client].partition(b"\r\n\r\n")
        size = _content_length(head) if gap else 0
        if not piece or len(self.texts[client]) > _LARGEST:
            self._close(client)
        elif gap and len(body) >= size:
            self.selector.unregister(client)
            del self.texts[client]
            self._begin(client, head, body)

    def _begin(self, client: socket.socket, head: bytes, body: bytes) -> None:
        """Begin to answer a request."""
        if head.startswith(b"GET /steps"):
            self.is_over = True
            client.setblocking(True)
            client.sendall(_HEAD + json.dumps(self.steps).encode())
            client.close()
            return
        try:
            asked = json.loads(body)
            prompt, output = [int(token) % self.vocab for token in asked["prompt"]], int(asked["max_tokens"])
        except (ValueError, KeyError, TypeError):
            prompt, output = [], 0
        if not prompt or output < 1 or len(prompt) + output > self.longest:
            with suppress(OSError):
                client.send(_BAD)
            client.close()
            return
        self.clients[self.count] = client
        with suppress(OSError):
            client.send(_HEAD)
        self.engine.waiting.append(EngineRequest(number=self.count, prompt=prompt, output=output))
        self.count += 1

    def _send(self, step: EngineStep) -> None:
        """Send the tokens of a step; what a client that went away misses is lost."""
        for number, token, is_last in step.tokens:
            client = self.clients[number]
            text = b'data: {"choices": [{"text": "%d "}]}\n\n' % token
            with suppress(OSError):
                client.send(text + b"data: [DONE]\n\n" if is_last else text)
            if is_last:
                client.close()
                del self.clients[number]

    def _close(self, client: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self.selector.unregister(client)
        self.texts.pop(client, None)
        client.close()


def _content_length(head: bytes) -> int:
    """The length of a request's body, 0 if its head does not say."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0
