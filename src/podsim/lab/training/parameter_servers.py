"""A parameter server: one process that holds the weights, gets gradients from replicas, and sends weights back.

    ps     a round at a time: it waits for every replica, and updates once with the mean, as an all-reduce would
    ssp    each gradient is an update as it comes; a replica that is too many steps ahead of the slowest waits
    async  each gradient is an update as it comes; nobody waits

Where each gradient is an update of its own there are as many updates to a round as replicas, so the learning rate is
divided by their number: a round moves the weights about as far as a step of all replicas together.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from podsim.lab.training.flat_tensors import fill, flattened, parts_of
from podsim.lab.training.optimizers import make_optimizer, set_rate
from podsim.lab.training.rank_layout import Layout
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Wires


class Replica:
    """A replica's end: gradients out, weights in."""

    def __init__(self, wires: Wires, layout: Layout, server: int) -> None:
        """server: the rank that holds the weights."""
        self.wires, self.layout, self.server = wires, layout, server

    def exchange(self) -> None:
        """Send the gradients, and take the weights that come back."""
        torch, parameters = self.wires.torch, [parameter for _, parameter in self.layout.parameters()]
        flat = flattened([parameter.grad for parameter in parameters])
        torch.distributed.send(flat, self.server, group=self.wires.up)
        torch.distributed.recv(flat, self.server, group=self.wires.down)
        fill(parameters, flat)


class _Server:
    """The weights, and what is known of each replica."""

    def __init__(self, job: Training, wires: Wires, layout: Layout) -> None:
        torch, self.replicas = wires.torch, int(job.plan.dp)
        self.wires, self.job = wires, job
        parameters = [parameter for _, parameter in layout.parameters()]
        self.weights = flattened(parameters)
        self.tensors = [torch.nn.Parameter(part) for part in parts_of(self.weights, parameters)]
        self.a_round = 1 if job.exchange == "ps" else self.replicas
        self.optimizer = make_optimizer(job.optimizer, self.tensors, job.rate / self.a_round)
        self.updates = 0
        self.clock = [0] * self.replicas
        self.sent = [0] * self.replicas
        self.late: Counter[int] = Counter()
        self.replies: dict[int, tuple[Any, Any]] = {}
        """the last reply to each replica, and the weights that it holds until they are there"""

    def receive(self) -> tuple[int, Any]:
        """(the replica, its gradients), whoever sends first."""
        torch = self.wires.torch
        flat = torch.empty_like(self.weights)
        return torch.distributed.recv(flat, group=self.wires.up), flat

    def update(self, gradients: Any) -> None:
        """Move the weights."""
        for tensor, part in zip(self.tensors, parts_of(gradients, self.tensors), strict=True):
            tensor.grad = part
        set_rate(self.optimizer, self.job.rate / self.a_round, self.updates // self.a_round, self.job.warmup)
        self.optimizer.step()
        self.updates += 1

    def reply(self, replica: int) -> None:
        """Send the weights as they are now, while the next gradients come in."""
        self.sent[replica] = self.updates
        sent = self.weights.clone()
        work = self.wires.torch.distributed.isend(sent, replica, group=self.wires.down)
        self.replies[replica] = (work, sent)

    def round(self) -> None:
        """All replicas once, in step."""
        came = dict(self.receive() for _ in range(self.replicas))
        total = came[0]
        for replica in range(1, self.replicas):
            total += came[replica]
        self.late[0] += self.replicas
        self.update(total / self.replicas)
        for replica in range(self.replicas):
            self.reply(replica)

    def run_free(self) -> None:
        """Every gradient of the run as it comes."""
        bound = self.job.staleness if self.job.exchange == "ssp" else None
        waiting: list[int] = []
        for _ in range(self.job.steps * self.replicas):
            replica, gradients = self.receive()
            self.late[self.updates - self.sent[replica]] += 1
            self.update(gradients)
            self.clock[replica] += 1
            waiting.append(replica)
            slowest = min(self.clock)
            for replica_ in [
                replica_ for replica_ in waiting if bound is None or self.clock[replica_] - slowest <= bound
            ]:
                waiting.remove(replica_)
                self.reply(replica_)
        for replica in waiting:  # those that were ahead to the end
            self.reply(replica)


def serve(job: Training, wires: Wires, layout: Layout) -> dict[str, int]:
    """Serve a whole run; how many gradients were how many updates late."""
    server = _Server(job, wires, layout)
    if job.exchange == "ps":
        for _ in range(job.steps):
            server.round()
    else:
        server.run_free()
    for work, _ in server.replies.values():
        work.wait()
    return {str(key): count for key, count in sorted(server.late.items())}
