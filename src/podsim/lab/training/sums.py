"""Gradients added up over data-parallel replicas: by a table of transfers or by the library, during the backward pass
(a communication hook of DistributedDataParallel) or after it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podsim.lab.engine import Engine
from podsim.lab.training.flat_tensors import fill, flattened, local_part
from podsim.lab.wires import Wires
from podsim.network.collectives.program import programs
from podsim.network.collectives.table import Table


class Sums:
    """Means of buffers over the ranks of some wires."""

    def __init__(self, wires: Wires, table: Table | None) -> None:
        """table: whose transfers are run; None: the library's all-reduce."""
        self.wires, self.table = wires, table
        self.engines: dict[int, Engine] = {}

    def mean(self, data: Any) -> None:
        """Put the mean over all ranks into a flat buffer; every rank calls it with as many elements."""
        if self.table is None:
            self.wires.torch.distributed.all_reduce(data, group=self.wires.group)
        else:
            engine = self._engine(data.numel())
            engine.run(data, data.clone() if engine.program.keeps_input else data)
            self.wires.settle()
        data.div_(self.wires.world)

    def _engine(self, elements: int) -> Engine:
        if elements not in self.engines:
            assert self.table is not None
            rank = self.wires.rank
            program = programs(self.table, elements, range(rank, rank + 1))[0]
            self.engines[elements] = Engine(program, self.wires)
        return self.engines[elements]

    def gradients(self, parameters: list[Any]) -> None:
        """Replace the gradients by their means, all in one buffer."""
        grads = [local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
        flat = flattened(grads)
        self.mean(flat)
        fill(grads, flat)


def hook_of(sums: Sums) -> Callable[[Any, Any], Any]:
    """A hook for DistributedDataParallel; buckets are added up one after the other, during the backward pass."""
    torch = sums.wires.torch
    pool = ThreadPoolExecutor(1)

    def hook(state: Any, bucket: Any) -> Any:
        result = torch.futures.Future()
        data = bucket.buffer()

        def run() -> None:
            try:
                sums.mean(data)
                result.set_result(data)
            except Exception as problem:
                result.set_exception(problem)

        pool.submit(run)
        return result

    hook.__annotations__ = {  # torch reads them, and this module names no type of torch's
        "bucket": torch.distributed.GradBucket, "return": torch.futures.Future[torch.Tensor],
    }  # fmt: skip
    return hook
