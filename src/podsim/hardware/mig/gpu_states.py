"""A GPU as nvidia-smi shows it, and the change to the layout that somebody wants."""

from __future__ import annotations

import re

from podsim.errors import MigError, NoFitError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.change import additions, change_to
from podsim.hardware.mig.commands import change_commands
from podsim.hardware.mig.layouts import Layout, extensions, place, read_layout
from podsim.hardware.mig.profiles import Slicing, find_profile, slicing_of
from podsim.hardware.mig.results import GpuState
from podsim.hardware.mig.smi import SeenGpu, differences, find_slicing, layout_of


def gpu_state(seen: SeenGpu, gpu: str, want: str, add: str, busy: set[str]) -> GpuState:
    """The state of a GPU; `gpu` names it where nvidia-smi does not, `busy` are instances that stay, or "all".

    The change is to the layout `want`, or adds the instances of `add`. Raises MigError for layouts that cannot be.
    """
    slicing = slicing_of(load_gpu(gpu)) if gpu else find_slicing(seen)
    now = layout_of(slicing, seen)
    numbers = {
        instance.start: instance.instance_id for instance in seen.instances if instance.start is not None
    }
    uuids = {instance.start: instance.uuid for instance in seen.instances if instance.start is not None}
    ids = {start: number for start, number in numbers.items() if number is not None}
    change = None
    if want or add:
        stays = [
            instance for instance in now.instances if "all" in busy or str(numbers[instance.start]) in busy
        ]
        target, free = _target(slicing, now, want, add)
        change = change_to(slicing, now.instances, target, free=free, busy=stays)
    reached = change is not None and change.reachable
    return GpuState(
        index=seen.index, name=seen.name or slicing.name, slicing=slicing, layout=now,
        uuids=tuple(uuids[instance.start] for instance in now.instances),
        more={name: count for name, count in additions(slicing, now).items() if count},
        open=extensions(slicing, now), differences=differences(slicing, seen), change=change,
        commands=change_commands(slicing, seen.index, change, ids) if change is not None and reached else (),
    )  # fmt: skip


def _target(slicing: Slicing, now: Layout, want: str, add: str) -> tuple[Layout, bool]:
    """(layout that is wanted, whether its instances may stand elsewhere). Raises NoFitError for too much to add."""
    if want:
        return read_layout(slicing, want), not re.search(r"[@:]", want)
    more = read_layout(slicing, add).instances
    try:
        return place(
            slicing, [find_profile(slicing, instance.profile) for instance in (*now.instances, *more)]
        ), True
    except MigError as error:
        raise NoFitError([f"beside {now} no {add[:60]}: {problem}" for problem in error.problems]) from None
