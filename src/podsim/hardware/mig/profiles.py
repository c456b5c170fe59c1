"""The instance profiles of each GPU with MIG, and the memory slices at which each may start."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from podsim.answers.fields import shown
from podsim.errors import CatalogError, MigError, unknown_name
from podsim.hardware.overrides import read_quantity
from podsim.hardware.parts import Gpu


@dataclass(frozen=True, kw_only=True)
class Profile:
    """One kind of instance."""

    name: str = shown("profile")
    """The name in nvidia-smi, as 3g.20gb."""
    id: int = shown("number")
    """The number in nvidia-smi."""
    compute: int = shown(is_hidden=True)
    """The number of compute slices."""
    size: int = shown(is_hidden=True)
    """The number of memory slices."""
    memory: float = shown(format=lambda size: f"{size / 2**30:.2f} GiB")
    """B. The memory of an instance."""
    sms: int = shown("SMs")
    """The number of streaming multiprocessors."""
    most: int = shown("at most")
    """The number of instances of it that one GPU can hold."""
    starts: tuple[int, ...] = shown(
        "starts at memory slice",
        of_row=lambda profile: f"{', '.join(map(str, profile.starts))} (takes {profile.size})",
    )
    """The memory slices at which it may start."""
    copy_engines: int = shown(is_hidden=True)
    """The number of engines that copy to and from the host."""
    nvdec: int = shown(is_hidden=True)
    """The number of video decoders."""
    jpeg: int = shown(is_hidden=True)
    """The number of JPEG decoders."""
    ofa: int = shown(is_hidden=True)
    """The number of optical-flow units."""

    @property
    def media(self) -> bool:
        """Whether its instance has the media engines of the GPU (+me), of which there is one set."""
        return self.name.endswith("+me")

    @property
    def short(self) -> str:
        """The short name: 3g of 3g.20gb."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Slicing:
    """The slices of one kind of GPU and the profiles over them."""

    name: str
    """The name of the chip and its memory: a100-40gb."""
    gpus: tuple[str, ...] = shown(is_hidden=True)
    """The catalog names of the GPUs with this table."""
    compute_slices: int
    """The number of compute slices of the whole GPU."""
    memory_slices: int
    """The number of memory slices of the whole GPU."""
    profiles: tuple[Profile, ...]
    """The profiles of its instances."""
    source: str
    """The source of the profiles."""
    confirmed: str
    """The state of the source: yes, or partial (all but what the notes name)."""
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The values that were not read in the source, or that differ between listings."""

    @property
    def basic(self) -> tuple[Profile, ...]:
        """The profiles without media engines and without extra memory: 1g, 2g, 3g, 4g, 7g."""
        least: dict[int, Profile] = {}
        for profile in self.profiles:
            if not profile.media and (
                profile.compute not in least or profile.size < least[profile.compute].size
            ):
                least[profile.compute] = profile
        return tuple(least[key] for key in sorted(least))

    @property
    def whole(self) -> Profile:
        """The profile of the entire GPU."""
        return max(self.profiles, key=lambda profile: profile.size)


_KEYS = {"gpus", "source", "confirmed", "compute_slices", "memory_slices", "profiles", "notes"}


@cache
def slicings() -> dict[str, Slicing]:
    """All known slicings by name. Raises CatalogError for a file that breaks its schema."""
    tables = tomllib.loads(files("podsim.hardware.mig").joinpath("profiles.toml").read_text("utf-8"))
    sources = tables.pop("sources")
    return {name: _slicing(name, table, sources) for name, table in tables.items()}


def _slicing(name: str, table: Mapping[str, Any], sources: Mapping[str, str]) -> Slicing:
    wrong = sorted(set(table) ^ _KEYS)
    if wrong or not table["source"] or set(table["source"]) - set(sources):
        raise CatalogError(
            f"profiles.toml: [{name}] needs {', '.join(sorted(_KEYS))}, with known sources; see {wrong}"
        )
    profiles = tuple(
        Profile(
            **{
                **row,
                "memory": read_quantity(row["memory"], "B", what=row["name"]),
                "starts": tuple(row["starts"]),
            }
        )
        for row in table["profiles"]
    )
    return Slicing(
        name=name, gpus=tuple(table["gpus"]), compute_slices=table["compute_slices"],
        memory_slices=table["memory_slices"], profiles=profiles, confirmed=table["confirmed"], notes=table["notes"],
        source="; ".join(sources[key] for key in table["source"]),
    )  # fmt: skip


def slicing_names() -> tuple[str, ...]:
    """The names of the GPUs with known profiles."""
    return tuple(gpu for slicing in slicings().values() for gpu in slicing.gpus)


def slicing_of(gpu: Gpu) -> Slicing:
    """The slicing of `gpu`. Raises MigError for a GPU without MIG, for an instance, and for unknown profiles."""
    for slicing in slicings().values():
        if gpu.name in slicing.gpus:
            return slicing
    known = ", ".join(slicing_names())
    if gpu.fraction < 1:
        raise MigError(
            [f"{gpu.name} is already an instance; divide its GPU instead: {gpu.name.partition('/')[0]}"]
        )
    if not gpu.mig:
        raise MigError([f"{gpu.name} has no MIG; GPUs that can be divided: {known}"])
    raise MigError([f"{gpu.name} has MIG, but its profiles are unknown; podsim knows those of {known}"])


def find_profile(slicing: Slicing, text: str) -> Profile:
    """The profile with a name (3g.20gb, MIG 3g.20gb, 3g) or a number (9). Raises MigError for an unknown one."""
    key = text.strip().lower().removeprefix("mig").strip().removeprefix("-")
    for profile in slicing.profiles:
        if key in (profile.name, str(profile.id)):
            return profile
    for profile in slicing.basic:
        if key == profile.short:
            return profile
    names = [name for profile in slicing.profiles for name in (profile.name, str(profile.id))]
    elsewhere = [s.name for s in slicings().values() if any(key == p.name for p in s.profiles)]
    hint = f"{key} is a profile of {', '.join(elsewhere)}; " if elsewhere else ""
    raise MigError([f"{slicing.name}: {hint}{unknown_name('profile', text.strip(), names)}"])
