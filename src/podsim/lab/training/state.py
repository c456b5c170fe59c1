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
from podsim.lab.checkpoints import begin, commit, discard, opened, part_of, steps, unwritten
from podsim.lab.places import first_line
from podsim.lab.training.layout import Laid
from podsim.lab.wires import Board, Wires, load_part

__all__ = ["HISTORY", "Keeper", "state_of"]

HISTORY = "history.json"
"""beside torch's files: losses and seconds of the steps so far, and what stays the same where the run goes on"""
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

    def ready(self, step: int) -> None:
        """Make sure that a checkpoint of so many steps can be written. Raises CheckpointError where it cannot be."""

        def tried() -> None:
            begin(self.root, step)
            discard(self.root, step)

        self._agree(lambda: tried() if self.wires.rank == 0 else None)

    def save(self, step: int, layout: Mapping[str, Any], history: Mapping[str, Any] | None) -> None:
        """Write a checkpoint after so many steps, whole or not at all; `history` is what rank 0 keeps beside it.

        Raises CheckpointError where it cannot be written.
        """
        first = history is not None
        self._agree(lambda: begin(self.root, step) if first else None)
        folder = part_of(self.root, step)
        wrong: BaseException | None = None
        try:
            self.io.save(self.state, storage_writer=_writer(self.io, folder))
        except self.broken as problem:
            wrong = _cause(problem)

        def end() -> None:
            if wrong is not None:
                discard(self.root, step)
                raise unwritten(self.root, step, wrong)
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
        self._agree(lambda: self._all_taken(folder, held) if held is not None else None)
        try:
            self.io.load(self.state, checkpoint_id=folder)
        except self.broken as problem:
            raise _unfit(folder, first_line(_cause(problem))) from None
        for parameter in self.laid.moments.state:
            self.laid.moments.state[parameter]["step"] = self.wires.torch.tensor(float(step))
        return step, history

    def _all_taken(self, folder: Path, held: list[Any]) -> None:
        """Raise CheckpointError for weights in a checkpoint that no rank has a place for; torch says nothing."""
        there = self.io.FileSystemReader(folder).read_metadata().state_dict_metadata
        if left := sorted(set(there) - {name for names in held for name in names}):
            raise _unfit(folder, f"{len(left)} of its tensors have no place, such as {left[-1]}")

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


def _writer(io: Any, folder: Path) -> Any:
    """torch's writer of files, but that it says what the system said: a full drive ends in an error of its archive."""

    class Writer(io.FileSystemWriter):  # type: ignore[misc]
        def write_data(self, *given: Any, **named: Any) -> Any:
            try:
                return super().write_data(*given, **named)
            except RuntimeError as problem:
                raise _system(problem) from None

    return Writer(folder)


def _system(problem: BaseException) -> BaseException:
    """The system's error that an error came after; itself, where there is none."""
    found: BaseException | None = problem
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__
    return problem if found is None else found


def _cause(problem: BaseException) -> BaseException:
    """What went wrong on the first rank that says so; a full drive before all else."""
    failures = [cause for cause, _ in getattr(problem, "failures", {}).values()] or [problem]
    return next((cause for cause in failures if isinstance(cause, OSError)), failures[0])


def _unfit(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{folder} does not fit this network; a run is resumed with the same model ({why})"
    )
