"""Runs any table: follows a rank's program with torch's point-to-point messages.

With gloo each message is one isend or irecv; with NCCL the messages that are posted together are one group
(batch_isend_irecv), so that none waits for another. A received sum is added by the rank itself.
"""

from __future__ import annotations

from typing import Any

from podsim.lab.wires import Wires
from podsim.network.collectives.program import BARRIER, RECEIVE, RECEIVED, SEND, SENT, Program, Transfer


class Engine:
    """One rank's program on its wires; its extra buffers are kept from call to call."""

    def __init__(self, program: Program, wires: Wires) -> None:
        """Nothing is sent yet."""
        self.program, self.wires = program, wires
        self.free: dict[int, list[Any]] = {}
        self.beside: dict[int, Any] = {}
        self.works: dict[int, Any] = {}
        self.posted: list[tuple[int, Transfer, Any]] = []

    def run(self, held: Any, own: Any) -> None:
        """One call. `held` holds this rank's data and ends with the result; `own` is its input, left alone."""
        for what, k in self.program.order:
            if what == RECEIVE:
                self._post(k, self._place(k, held))
            elif what == SEND:
                transfer = self.program.transfers[k]
                self._post(k, (own if transfer.own else held)[transfer.first : transfer.last])
            elif what == BARRIER:
                self._flush()
                self.wires.barrier()
            else:
                self._flush()
                self.works.pop(k).wait()
                if what == RECEIVED:
                    self._put(k, held)
                else:
                    assert what == SENT
        self._flush()

    def _place(self, k: int, held: Any) -> Any:
        """Where transfer k is received."""
        transfer = self.program.transfers[k]
        if transfer.direct:
            return held[transfer.first : transfer.last]
        size = transfer.last - transfer.first
        spare = self.free.setdefault(size, [])
        self.beside[k] = spare.pop() if spare else self.wires.empty(size)
        return self.beside[k]

    def _put(self, k: int, held: Any) -> None:
        """Add or copy what was received into an extra buffer to where it belongs."""
        transfer = self.program.transfers[k]
        if transfer.direct:
            return
        received = self.beside.pop(k)
        target = held[transfer.first : transfer.last]
        if transfer.reduce:
            target.add_(received)
        else:
            target.copy_(received)
        self.free[transfer.last - transfer.first].append(received)

    def _post(self, k: int, data: Any) -> None:
        """Start transfer k; NCCL's wait for those that come with it."""
        transfer = self.program.transfers[k]
        if self.wires.grouped:
            self.posted.append((k, transfer, data))
            return
        distributed, group = self.wires.torch.distributed, self._group(transfer)
        call = distributed.isend if transfer.sends else distributed.irecv
        self.works[k] = call(data, self.wires.peer(transfer.peer), group=group, tag=transfer.tag)

    def _group(self, transfer: Transfer) -> Any:
        """The group for this direction; a message goes up if it goes to a higher rank."""
        return self.wires.up if transfer.sends == (transfer.peer > self.wires.rank) else self.wires.down

    def _flush(self) -> None:
        """Start what was posted for NCCL, all at once."""
        if not self.posted:
            return
        distributed = self.wires.torch.distributed
        works = distributed.batch_isend_irecv([
            distributed.P2POp(distributed.isend if t.sends else distributed.irecv, data, self.wires.peer(t.peer))
            for _, t, data in self.posted
        ])  # fmt: skip
        for number, (k, _, _) in enumerate(self.posted):
            self.works[k] = works[number] if len(works) == len(self.posted) else works[-1]
        self.posted.clear()
