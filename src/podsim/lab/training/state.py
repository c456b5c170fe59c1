"""The state of a run as torch.distributed.checkpoint keeps it: weights and moments by their names in the whole network.

Names say nothing of the layout, and what is divided is a DTensor that knows its place. So a checkpoint of one layout is
read by any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podsim.errors import CheckpointError
from podsim.lab.checkpoints import begin, commit, discard, opened, part_of, steps
from podsim.lab.training.layout import Laid
from podsim.lab.wires import Board, Wires, load_part

__all__ = ["HISTORY", "Keeper", "state_of"]

HISTORY = "history.json"
"""beside torch's files: losses and seconds of the steps so far"""
_MOMENTS = ("exp_avg", "exp_avg_sq")


def state_of(laid: Laid, wires: Wires) -> dict[str, Any]:
    """Weights and moments of this rank by name: the tensors that training changes, so that loading fills them.

    To be called before the first step; it makes the moments, laid out as their parameters.
    """
    torch, found = wires.torch, {}
    held = {id(one) for group in laid.moments.param_groups for one in group["params"]}
    for name, parameter in laid.parameters():
        found[f"weights.{name}"] = parameter.detach()
        own = laid.own[id(parameter)]
        if id(own) not in held:
            continue
        moments = {kind: torch.zeros_like(parameter).detach() for kind in _MOMENTS}
        found |= {f"{kind}.{name}": moment for kind, moment in moments.items()}
        here = {kind: one if own is parameter else one.to_local() for kind, one in moments.items()}
        laid.moments.state[own] = here | {"step": torch.tensor(0.0)}
    return found


class Keeper:
    """Checkpoints of a run: every rank calls the same methods in the same order."""

    def __init__(self, root: Path, keep: int, laid: Laid, wires: Wires, board: Board) -> None:
        """root: the folder that holds them; keep: how many, 0 for all."""
        self.root, self.keep, self.laid, self.wires, self.board = root, keep, laid, wires, board
        self.broken = load_part("torch.distributed.checkpoint.api").CheckpointException
        self.io = load_part("torch.distributed.checkpoint")
        self.state = state_of(laid, wires)

    def save(self, step: int, layout: Mapping[str, Any], history: Mapping[str, Any] | None) -> None:
        """Write a checkpoint after so many steps, whole or not at all; `history` is what rank 0 keeps beside it.

        Raises CheckpointError where it cannot be written.
        """
        first = history is not None
        self._agree(lambda: begin(self.root, step) if first else None)
        folder = part_of(self.root, step)
        wrong = ""
        try:
            self.io.save(self.state, checkpoint_id=folder)
        except self.broken as problem:
            wrong = _cause(problem)

        def end() -> None:
            if wrong:
                discard(self.root, step)
                raise CheckpointError(f"{self.root}: the checkpoint of step {step} was not written: {wrong}")
            (folder / HISTORY).write_text(json.dumps(history), "utf-8")
            commit(self.root, step, layout=layout, keep=self.keep)

        self._agree(lambda: end() if first else None)

    def load(self) -> tuple[int, dict[str, Any]]:
        """(steps done, history) of the last checkpoint, which fills weights and moments; (0, {}) where there is none.

        Raises CheckpointError for a damaged one, and for that of another network.
        """
        step = self._agree(lambda: self._last() if self.wires.rank == 0 else None)
        if not step:
            return 0, {}
        folder = self.root / f"step-{step}"
        try:
            self.io.load(self.state, checkpoint_id=folder)
        except self.broken as problem:
            raise CheckpointError(
                f"{folder} does not fit this network; a run is resumed with the same model ({_cause(problem)})"
            ) from None
        for parameter in self.laid.moments.state:
            self.laid.moments.state[parameter]["step"] = self.wires.torch.tensor(float(step))
        return step, json.loads((folder / HISTORY).read_text("utf-8"))

    def _last(self) -> int:
        return opened(self.root).step if steps(self.root) else 0

    def _agree(self, work: Callable[[], Any]) -> Any:
        """What rank 0's work gives, at every rank; what it raises, everywhere."""
        told: dict[str, Any] = {}
        try:
            told["value"] = work()
        except (CheckpointError, OSError) as problem:
            told["problem"] = str(problem)
        if isinstance(told.get("value"), Path):
            told["value"] = None
        told = self.board.tell(told)
        if "problem" in told:
            raise CheckpointError(told["problem"])
        return told["value"]


def _cause(problem: BaseException) -> str:
    """What went wrong on the first rank that says so, in a line."""
    failures = getattr(problem, "failures", {})
    cause = next(iter(failures.values()))[0] if failures else problem
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0][:200]
