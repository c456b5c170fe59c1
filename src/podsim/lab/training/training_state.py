"""The state of a run in its checkpoints: weights and moments by their names in the whole network.

Names say nothing of the layout, and a divided tensor is a DTensor that knows its place in the whole. So any layout reads
the checkpoint of any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podsim.errors import CheckpointError
from podsim.lab.checkpoint_files import begin, commit, discard, opened, part_of, steps, unwritten
from podsim.lab.training.flat_tensors import local_part
from podsim.lab.training.optimizers import moment_names
from podsim.lab.training.rank_layout import Layout
from podsim.lab.training.shards import Shard, load_safetensors, read_shards, shapes_of, write_shards
from podsim.lab.wires import Board, Wires

HISTORY = "history.json"
"""next to the shards: losses and seconds of the steps so far, and what stays the same where the run goes on"""
_PICKLED = ".metadata"
"""the index of torch.distributed.checkpoint, which earlier releases wrote: a pickle"""


def state_of(layout: Layout, wires: Wires) -> dict[str, Any]:
    """Weights and moments of this rank by name: the tensors that training changes, so that loading fills them.

    To be called before the first step; it makes the moments, divided as their parameters are.
    """
    torch, state = wires.torch, {}
    held = {id(tensor) for group in layout.moments.param_groups for tensor in group["params"]}
    for name, parameter in layout.parameters():
        state[f"weights.{name}"] = parameter.detach()
        own = layout.own[id(parameter)]
        if id(own) not in held:
            continue
        moments = {kind: torch.zeros_like(parameter).detach() for kind in moment_names(layout.moments)}
        state |= {f"{kind}.{name}": moment for kind, moment in moments.items()}
        here = {kind: local_part(tensor) for kind, tensor in moments.items()}
        layout.moments.state[own] = here | {"step": torch.tensor(0.0)}
    return state


class Keeper:
    """Checkpoints of a run: every rank calls the same methods in the same order."""

    def __init__(self, root: Path, keep: int, layout: Layout, wires: Wires, board: Board) -> None:
        """root: the folder that holds them; keep: how many, 0 for all."""
        self.root, self.keep, self.layout, self.wires, self.board = root, keep, layout, wires, board
        load_safetensors()
        self.state = state_of(layout, wires)
        shards = {name: _shard_of(tensor) for name, tensor in self.state.items()}
        self.shards = {name: shard for name, shard in shards.items() if all(shard.size)}

    def ready(self, step: int) -> None:
        """Make sure that a checkpoint of this step can be written. Raises CheckpointError where it cannot be."""

        def tried() -> None:
            begin(self.root, step)
            discard(self.root, step)

        self._agree(lambda: tried() if self.wires.rank == 0 else None)

    def save(self, step: int, layout: Mapping[str, Any], history: Mapping[str, Any] | None) -> None:
        """Write a checkpoint of this step, completely or not at all; `history` is what rank 0 keeps with it.

        Raises CheckpointError where it cannot be written.
        """
        first = history is not None
        self._agree(lambda: begin(self.root, step) if first else None)
        folder = part_of(self.root, step)
        data = {name: local_part(self.state[name]).contiguous().cpu().numpy() for name in self._own()}
        problem: OSError | None = None
        try:
            write_shards(folder, self.wires.rank, {name: self.shards[name] for name in data}, data)
        except OSError as error:
            problem = error
        failures = self.board.gather(None if problem is None else [problem.errno, problem.strerror])

        def end() -> None:
            if failed := [each for each in failures or () if each is not None]:
                discard(self.root, step)
                raise unwritten(self.root, step, OSError(*failed[0]))
            (folder / HISTORY).write_text(json.dumps(history), "utf-8")
            commit(self.root, step, layout=layout, keep=self.keep)

        self._agree(lambda: end() if first else None)

    def load(self, same: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """(steps done, history) of the last checkpoint, which fills weights and moments; (0, {}) where there is none.

        same: what must be as it was when the checkpoint was written. Raises CheckpointError for a damaged one, and for
        that of another network or run.
        """
        step = self._agree(lambda: self._last() if self.wires.rank == 0 else None)
        if not step:
            return 0, {}
        folder = self.root / f"step-{step}"
        history: dict[str, Any] = json.loads((folder / HISTORY).read_text("utf-8"))
        before = history.get("same", {})  # checkpoints of earlier releases do not say
        other = [f"{name} was {before[name]}, not {value}" for name, value in same.items()
                 if name in before and before[name] != value]  # fmt: skip
        if other:
            raise CheckpointError(
                f"{folder} is of another run: {'; '.join(other)}. A run is resumed with the same network, batch, seed "
                "and data; the layout may be another one"
            )
        held = self.board.gather(sorted(self.state))
        self._agree(lambda: self._check_all_used(folder, held) if held is not None else None)
        try:
            arrays = read_shards(folder, self.shards)
        except CheckpointError as problem:
            raise _unfit(folder, str(problem)) from None
        for name, array in arrays.items():
            local_part(self.state[name]).copy_(self.wires.torch.from_numpy(array))
        for parameter in self.layout.moments.state:
            self.layout.moments.state[parameter]["step"] = self.wires.torch.tensor(float(step))
        return step, history

    def _own(self) -> list[str]:
        """Names of the shards that this rank writes: of equal ones, the first rank writes its own."""
        keys = {name: json.dumps([name, *shard.offset]) for name, shard in self.shards.items()}
        held = self.board.gather(list(keys.values()))
        writers: dict[str, int] = {}
        for rank, each in enumerate(held or ()):
            for key in each:
                writers.setdefault(key, rank)
        writers = self.board.tell(writers)
        return [name for name, key in keys.items() if writers[key] == self.wires.rank]

    def _check_all_used(self, folder: Path, held: list[list[str]]) -> None:
        """Raise CheckpointError for tensors of a checkpoint that no rank has a place for."""
        if unused := sorted(set(shapes_of(folder)) - {name for names in held for name in names}):
            raise _unfit(folder, f"{len(unused)} of its tensors have no place, such as {unused[-1]}")

    def _last(self) -> int:
        """The last checkpoint's step, 0 for none; CheckpointError for one that is damaged, or a pickle."""
        if not steps(self.root):
            return 0
        last = opened(self.root)
        if _PICKLED in last.files:
            raise CheckpointError(
                f"{last.folder} was written by an earlier podsim, with an index that is a pickle: reading one can run "
                "any command, so it is not read. Finish the run with the podsim that wrote it, or start it again with "
                "another --checkpoint folder"
            )
        return last.step

    def _agree(self, work: Callable[[], Any]) -> Any:
        """What rank 0's work gives, at every rank; what it raises, everywhere."""
        answer: dict[str, Any] = {}
        try:
            answer["value"] = work()
        except (CheckpointError, OSError) as problem:
            answer["problem"] = str(problem)
        if isinstance(answer.get("value"), Path):
            answer["value"] = None
        answer = self.board.tell(answer)
        if "problem" in answer:
            raise CheckpointError(answer["problem"])
        return answer["value"]


def _shard_of(tensor: Any) -> Shard:
    """The position of this rank's part in a tensor; of size 0 for a rank that holds none of it."""
    shape = tuple(tensor.shape)
    if not hasattr(tensor, "to_local"):
        return Shard(shape=shape, offset=(0,) * len(shape), size=shape)
    (chunk,) = tensor.__create_chunk_list__()
    return Shard(shape=shape, offset=tuple(chunk.offsets), size=tuple(chunk.sizes))


def _unfit(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{folder} does not fit this network; a run is resumed with the same model ({why})"
    )
