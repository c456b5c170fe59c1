"""A parser of nvidia-smi's output about MIG.

It reads any of these, also one after the other in one text:

    nvidia-smi -L           GPUs and MIG devices with their UUIDs, without positions
    nvidia-smi mig -lgi     GPU instances with profile, instance number and position
    nvidia-smi mig -lgipp   the possible starts of each profile
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from podsim.errors import MigError, PodsimError
from podsim.foreign_files import read_text
from podsim.hardware.mig.layouts import Instance, Layout, problems_of
from podsim.hardware.mig.profiles import Profile, Slicing, find_profile, slicings

_GPU = re.compile(r"^GPU (\d{1,15}): (.+?)(?: \(UUID: (GPU-[0-9a-zA-Z-]+)\))?$")
_DEVICE = re.compile(
    r"^MIG (?:(\d{1,9})c\.)?(\S+)\s+Device\s+(\d{1,9}):(?: \(UUID: (MIG-[0-9a-zA-Z/-]+)\))?$"
)
_INSTANCE = re.compile(r"^\|\s*(\d{1,9})\s+MIG (\S+)\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9}):(\d{1,9})\s*\|$")
_PLACES = re.compile(
    r"^GPU\s+(\d{1,9})\s+Profile ID\s+(\d{1,9})\s+Placements?\s*:\s*\{([\d,\s]{0,99})\}\s*:\s*(\d{1,9})$"
)
_QUIET = re.compile(
    r"^[-+=|\s]*$|GPU instances:|GPU\s+Name|^\|\s*ID\s+ID|No GPU instances found|No MIG-enabled devices found|"
    r"^\|\s+(?:Profile|ID|Instance|Placement|Start:Size)[\w\s:]*\|$"
)

_LARGEST = 4_000_000
"""characters of a text that is read"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One instance as nvidia-smi names it."""

    profile: str
    profile_id: int | None = None
    """The number of the profile; None if only -L was given."""
    instance_id: int | None = None
    """The number of the GPU instance."""
    start: int | None = None
    """The first memory slice."""
    size: int | None = None
    """The number of memory slices."""
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class SeenGpu:
    """One GPU as nvidia-smi prints it."""

    index: int
    name: str = ""
    """The name in nvidia-smi -L."""
    uuid: str = ""
    instances: tuple[Seen, ...] = ()
    places: tuple[tuple[int, tuple[int, ...], int], ...] = ()
    """The (profile number, first memory slices, number of memory slices) of each profile that -lgipp lists."""


def read_smi(text: str) -> tuple[SeenGpu, ...]:
    """The GPUs of a text, by number. Raises MigError for unknown lines and for a text without GPUs."""
    gpus: dict[int, SeenGpu] = {}
    last, problems, known = -1, [], 0
    subdivided = False
    for number, raw in enumerate(text.replace("\x00", "").splitlines(), start=1):
        line = raw.strip()
        if match := _GPU.match(line):
            last = int(match[1])
            gpus[last] = replace(_gpu(gpus, last), name=match[2], uuid=match[3] or "")
        elif (match := _DEVICE.match(line)) and last >= 0:
            subdivided |= match[1] is not None
            gpus[last] = _add_device(gpus[last], match[2], match[4] or "")
        elif match := _INSTANCE.match(line):
            index = int(match[1])
            seen = Seen(profile=match[2], profile_id=int(match[3]), instance_id=int(match[4]), start=int(match[5]),
                        size=int(match[6]))  # fmt: skip
            gpus[index] = _add_instance(_gpu(gpus, index), seen)
        elif match := _PLACES.match(line):
            index, starts = (
                int(match[1]),
                tuple(int(start) for start in match[3].replace(" ", "").split(",") if start),
            )
            gpu = _gpu(gpus, index)
            gpus[index] = replace(gpu, places=(*gpu.places, (int(match[2]), starts, int(match[4]))))
        elif not _QUIET.search(line):
            problems.append(
                f"line {number}: {line[:80]!r} is not a line of nvidia-smi -L, mig -lgi or mig -lgipp"
            )
            continue
        known += 1
    if problems and (not gpus or len(problems) * 4 > known):
        raise MigError(
            [*problems[:5], *([f"… and {len(problems) - 5} more lines"] if len(problems) > 5 else [])]
        )
    if not gpus:
        raise MigError(["the text names no GPU; give the output of nvidia-smi -L, mig -lgi or mig -lgipp"])
    if subdivided and any(instance.start is None for gpu in gpus.values() for instance in gpu.instances):
        problems.append(
            "instances are shared by several compute instances (1c.…); add the output of nvidia-smi mig -lgi"
        )
    if problems:
        raise MigError(problems[:5])
    return tuple(gpus[index] for index in sorted(gpus))


def _gpu(gpus: dict[int, SeenGpu], index: int) -> SeenGpu:
    return gpus.get(index) or SeenGpu(index=index)


def _add_instance(gpu: SeenGpu, seen: Seen) -> SeenGpu:
    """The GPU with one more instance of -lgi, which replaces a device of -L."""
    for number, instance in enumerate(gpu.instances):
        if instance.start is None and instance.profile == seen.profile:
            merged = replace(seen, uuid=instance.uuid)
            return replace(gpu, instances=(*gpu.instances[:number], merged, *gpu.instances[number + 1 :]))
    return replace(gpu, instances=(*gpu.instances, seen))


def _add_device(gpu: SeenGpu, profile: str, uuid: str) -> SeenGpu:
    """The GPU with one more device of -L, merged with an instance of -lgi that has no UUID yet."""
    for number, instance in enumerate(gpu.instances):
        if instance.start is not None and not instance.uuid and instance.profile == profile:
            return replace(
                gpu,
                instances=(
                    *gpu.instances[:number],
                    replace(instance, uuid=uuid),
                    *gpu.instances[number + 1 :],
                ),
            )
    return replace(gpu, instances=(*gpu.instances, Seen(profile=profile, uuid=uuid)))


_NAMES = (
    (r"a100.*80", "a100-80gb"), (r"a800", "a100-80gb"), (r"a100", "a100-40gb"), (r"a30\b", "a30-24gb"),
    (r"h200", "h200-141gb"), (r"h100 80gb hbm3|h100-sxm", "h100-80gb"),
)  # fmt: skip


def find_slicing(gpu: SeenGpu) -> Slicing:
    """How the GPU is divided: by its name, else by the profiles that were printed.

    Raises MigError if no known GPU has these profiles, or several have.
    """
    for pattern, name in _NAMES:
        if gpu.name and re.search(pattern, gpu.name.lower()):
            return slicings()[name]
    if gpu.name:
        raise MigError(
            [f"GPU {gpu.index}: {gpu.name} has no known profiles; podsim knows {', '.join(slicings())}"]
        )
    fitting = [slicing for slicing in slicings().values() if _is_match(slicing, gpu)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(sorted({seen.profile for seen in gpu.instances})) or "its positions alone"
    if not fitting:
        raise MigError([f"GPU {gpu.index}: no known GPU has profiles {shown} with these numbers and sizes"])
    names = ", ".join(slicing.name for slicing in fitting)
    raise MigError(
        [f"GPU {gpu.index}: {shown} may be of {names}; name the GPU, or add the output of nvidia-smi -L"]
    )


def _is_match(slicing: Slicing, gpu: SeenGpu) -> bool:
    by_name = {profile.name: profile for profile in slicing.profiles}
    by_id = {profile.id: profile for profile in slicing.profiles}
    return all(
        seen.profile in by_name
        and seen.profile_id in (None, by_name[seen.profile].id)
        and seen.size in (None, by_name[seen.profile].size)
        for seen in gpu.instances
    ) and all(number in by_id and by_id[number].size == size for number, _, size in gpu.places)


def differences(slicing: Slicing, gpu: SeenGpu) -> tuple[str, ...]:
    """The differences between -lgipp and the table of profiles; older drivers list fewer profiles."""
    if not gpu.places:
        return ()
    by_id = {profile.id: profile for profile in slicing.profiles}
    problems = []
    for number, starts, size in gpu.places:
        known = by_id.get(number)
        if known is None:
            problems.append(f"profile {number} is unknown for {slicing.name}")
        elif (starts, size) != (known.starts, known.size):
            problems.append(
                f"{known.name}: this driver starts it at {', '.join(map(str, starts)) or 'none'} with {size} memory"
                f" slices;"
                f" the table at {', '.join(map(str, known.starts))} with {known.size}"
            )
    listed = {number for number, _, _ in gpu.places}
    return (
        *problems,
        *(
            f"{profile.name} is not offered by this driver"
            for profile in slicing.profiles
            if profile.id not in listed
        ),
    )


def layout_of(slicing: Slicing, gpu: SeenGpu) -> Layout:
    """The instances of a GPU as a layout. Raises MigError for instances without a position and for broken rules."""
    problems, made = [], []
    for seen in gpu.instances:
        try:
            profile: Profile = find_profile(slicing, seen.profile)
        except MigError as error:
            problems += [f"GPU {gpu.index}: {problem}" for problem in error.problems]
            continue
        if seen.start is None:
            problems.append(
                f"GPU {gpu.index}: nvidia-smi -L does not state the position of {seen.profile}; add nvidia-smi mig -lgi"
            )
        else:
            made.append(
                Instance(profile=profile.name, start=seen.start, size=profile.size, compute=profile.compute)
            )
    problems += [] if problems else [f"GPU {gpu.index}: {text}" for text in problems_of(slicing, made)]
    if problems:
        raise MigError(list(dict.fromkeys(problems)))
    return Layout(slicing=slicing.name, instances=tuple(sorted(made)))


def read_smi_text(path: Path) -> str:
    """The text of a file. Raises PodsimError where it cannot be read."""
    return read_text(
        path, most=_LARGEST, error=PodsimError, hint="no output of nvidia-smi is", is_lenient=True
    )
