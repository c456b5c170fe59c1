"""A parameter server: one process that answers pulls and pushes of rows, one message after the other.

hello(worker, token)            who asks; others are sent away
pull(ids)                       the vectors of rows; `version` counts the updates before
push(ids, gradients, version)   applied at once (async), or with those of all workers, in their order (sync)
checkpoint(step, path)          written when all workers ask for it
stop                            answered when all workers are done
"""

from __future__ import annotations

import selectors
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from podsim.errors import LabError
from podsim.lab.sparse.row_messages import PeerGone, receive_message, send_message
from podsim.lab.sparse.row_store import RowStore, sum_by_row

_HELLO = 1.0
"""s. The time that a new connection has for a message."""


class _Call(NamedTuple):
    """A message that waits for those of the other workers."""

    peer: socket.socket
    fields: Mapping[str, Any]
    arrays: Mapping[str, Any]


class RowServer:
    """Answers workers until all of them are done."""

    def __init__(
        self, store: RowStore, workers: int, *, token: str, is_synchronous: bool, timeout: float,
        note: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`note` hears the step that begins."""
        self.store, self.workers, self.token, self.timeout, self.note = store, workers, token, timeout, note
        self.is_synchronous = is_synchronous
        self.version, self.late = 0, Counter[int]()
        self.known: dict[socket.socket, int] = {}
        self.waiting: dict[int, _Call] = {}
        self.is_done = False

    def serve(self, listener: socket.socket) -> None:
        """Answer until the workers stop. Raises LabError, naming the worker, for one that is gone or asks nonsense."""
        with selectors.DefaultSelector() as ready:
            ready.register(listener, selectors.EVENT_READ)
            while not self.is_done:
                events = ready.select(self.timeout)
                if not events:
                    raise PeerGone(f"no worker asked for anything within {self.timeout:g} s")
                for key, _ in events:
                    peer = key.fileobj
                    assert isinstance(peer, socket.socket)
                    if peer is listener:
                        peer = listener.accept()[0]
                        peer.settimeout(_HELLO)
                        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        ready.register(peer, selectors.EVENT_READ)
                    elif not self._is_answered(peer):
                        ready.unregister(peer)
                        peer.close()

    def _is_answered(self, peer: socket.socket) -> bool:
        """Whether a message was taken; False: a stranger, to be sent away."""
        worker = self.known.get(peer)
        try:
            fields, arrays = receive_message(peer)
            if worker is None:
                return self._is_welcome(peer, fields)
            self._take(worker, _Call(peer, fields, arrays))
        except LabError as problem:
            if worker is None:
                return False
            raise type(problem)(f"worker {worker}: {problem}") from None
        except (KeyError, TypeError, ValueError) as problem:
            raise LabError(f"worker {worker}: a message without what its verb needs: {problem}") from None
        return True

    def _is_welcome(self, peer: socket.socket, fields: Mapping[str, Any]) -> bool:
        worker = fields.get("worker")
        if fields.get("token") != self.token or worker not in range(self.workers):
            return False
        assert isinstance(worker, int)
        self.known[peer] = worker
        peer.settimeout(self.timeout)
        send_message(peer, {})
        return True

    def _take(self, worker: int, call: _Call) -> None:
        verb = call.fields.get("verb")
        if verb == "pull":
            self._pull(call)
        elif verb == "push" and not self.is_synchronous:
            self._apply([call])
            send_message(call.peer, {})
        elif verb in ("push", "checkpoint", "stop"):
            self.waiting[worker] = call
            if len(self.waiting) == self.workers:
                self._meet([self.waiting[each] for each in range(self.workers)])
        else:
            raise LabError(f"verb {str(verb)[:40]!r}; known: pull, push, checkpoint, stop")

    def _meet(self, calls: list[_Call]) -> None:
        """Do what all workers ask for, once."""
        self.waiting = {}
        asked = {(call.fields["verb"], call.fields.get("step")) for call in calls}
        if len(asked) > 1:
            raise LabError(f"the workers are at different points: {sorted(map(str, asked))}")
        verb, fields = calls[0].fields["verb"], calls[0].fields
        if verb == "push":
            self._apply(calls)
        elif verb == "checkpoint":
            self.note(f"the checkpoint of step {fields['step']}")
            try:
                self.store.write(Path(fields["folder"]) / f"server-{self.store.shard.server}.npz")
            except OSError as problem:
                raise LabError(f"{problem.filename}: {problem.strerror or problem}") from None
        self.is_done = verb == "stop"
        for call in calls:
            send_message(call.peer, {})

    def _pull(self, call: _Call) -> None:
        answer = {"vectors": self.store.read(call.arrays["ids"])}
        if self.store.dense is not None:
            answer["dense"] = self.store.dense[0]
        send_message(call.peer, {"version": self.version}, answer)

    def _apply(self, calls: list[_Call]) -> None:
        """Apply the pushes of some workers as one update."""
        self.note(f"step {calls[0].fields['step']}")
        for call in calls:
            self.late[self.version - call.fields["version"]] += 1
        self.store.add(*sum_by_row(
            np.concatenate([call.arrays["ids"] for call in calls]),
            np.concatenate([call.arrays["gradients"] for call in calls]),
        ))  # fmt: skip
        if self.store.dense is not None:
            self.store.add_dense(sum(call.arrays["dense"] for call in calls))
        self.version += 1
