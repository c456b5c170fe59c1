"""Overrides of catalog entries: dotted keys with values as text, such as gpu.memory = "64 GB".

Each key changes one field only: a GPU with fewer SMs keeps its peaks.

Quantities and counts have limits. Values beyond those of any machine are rejected with the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from podsim.answers.answer import call
from podsim.errors import CatalogError, UnitError, raise_all, unknown_name
from podsim.hardware.parts import PEAKS, Gpu, Link, Nic, System
from podsim.units import format_quantity, parse_quantity

LIMITS: dict[str, tuple[float, float]] = {
    "B": (1e5, 1e20),
    "B/s": (1e6, 1e17),
    "FLOP/s": (1e8, 1e20),
    "W": (1.0, 1e9),
    "Hz": (1e6, 1e11),
    "s": (0.0, 1.0),
    "1/s": (1.0, 1e12),
}
"""The smallest and largest value by SI unit: far beyond any real part, so that they catch slips only."""


def read_quantity(value: object, unit: str, *, what: str) -> float:
    """The SI value of a quantity, given as text with a unit or as a bare SI number.

    Raises UnitError for anything else, for another unit, and for values outside LIMITS.
    """
    number = _parse(value, unit, what)
    low, high = LIMITS[unit]
    if not low <= number <= high:
        raise UnitError(
            f"{what}: {format_quantity(number, unit)} is out of reach; expected"
            f" {format_quantity(low, unit)} to {format_quantity(high, unit)}"
        )
    return number


def read_count(value: object, *, what: str, low: int = 1, high: int = 1_000_000) -> int:
    """The integer from low to high. Raises UnitError for anything else."""
    number = _parse(value, "", what)
    if not number.is_integer() or not low <= number <= high:
        raise UnitError(f"{what}: {number:g} will not do; expected a whole number from {low} to {high}")
    return int(number)


def _parse(value: object, unit: str, what: str) -> float:
    if not isinstance(value, (str, int, float)):
        raise UnitError(
            f"{what}: {type(value).__name__} is not a quantity; expected a number or text with a unit"
        )
    if isinstance(value, int) and abs(value) > 10**30:
        raise UnitError(f"{what}: a whole number of {value.bit_length()} bits is out of reach")
    return parse_quantity(value, unit, what=what)


Reader = Callable[[object, str], Any]
"""A function that reads the value of a key and raises UnitError with the rule."""


def quantity(unit: str) -> Reader:
    """A reader of quantities of one SI unit."""
    return lambda value, what: read_quantity(value, unit, what=what)


def count(low: int, high: int = 100_000) -> Reader:
    """A reader of integers from low to high."""
    return lambda value, what: read_count(value, what=what, low=low, high=high)


def words(*allowed: str) -> Reader:
    """A reader of text: one of the allowed words, or any text if there are none."""

    def read(value: object, what: str) -> str:
        if not isinstance(value, str) or not value.strip() or (allowed and value not in allowed):
            raise UnitError(
                f"{what}: {str(value)[:60]!r} will not do; expected {', '.join(allowed) or 'a text'}"
            )
        return value

    return read


ROUTINGS = ("adaptive", "ecmp", "destination", "static")
"""The ways in which switches choose among equal routes."""

COLLECTIVE_KEYS: dict[str, tuple[str, ...]] = {
    "nccl": (),
    "algo": ("auto", "ring", "tree", "nvls", "nvlstree", "collnet", "pat"),
    "proto": ("auto", "ll", "ll128", "simple"),
    "launch": ("process", "thread", "single"),
    "network": ("infiniband", "roce", "efa-v1", "efa-v2", "tcpxo", "tcpx", "slingshot", "sockets"),
    "gdr": ("yes", "no"),
    "sharp": ("yes", "no"),
    "tuned": ("yes", "no"),
}
"""The settings of collectives that a cluster may state, with the words that each takes; none for any text."""


def setting(*allowed: str) -> Reader:
    """A reader of a collective's setting: one of the words in any case, or true and false for yes and no."""
    read = words(*allowed)

    def read_setting(value: object, what: str) -> Any:
        word = ("no", "yes")[value] if isinstance(value, bool) else value
        return read(word.strip().lower() if isinstance(word, str) else word, what)

    return read_setting


COLLECTIVE_READERS = {f"collectives.{key}": setting(*allowed) for key, allowed in COLLECTIVE_KEYS.items()}


def change_collectives(
    before: Mapping[str, str] | tuple[tuple[str, str], ...], values: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    """The settings of collectives with those of dotted keys changed, as (key, word)."""
    given = {
        key.removeprefix("collectives."): word for key, word in values.items() if key in COLLECTIVE_READERS
    }
    return tuple((dict(before) | given).items())


CLOCKS = ("burst", "sustained")
"""The clocks of measured kernels: of short ones on a cool board, and of runs of seconds, which power limits."""


def _read_clock(value: object, what: str) -> float | str:
    """A word of CLOCKS, or a quantity in Hz; UnitError for anything else."""
    if isinstance(value, str) and value.strip().lower() in CLOCKS:
        return value.strip().lower()
    try:
        return read_quantity(value, "Hz", what=what)
    except UnitError as error:
        raise UnitError(f"{error}, or one of {', '.join(CLOCKS)}") from None


GPU_KEYS: dict[str, Reader] = {
    "memory": quantity("B"),
    "memory_bandwidth": quantity("B/s"),
    "l2": quantity("B"),
    "power": quantity("W"),
    "clock": _read_clock,
    "sms": count(1, 10_000),
    "nvlinks": count(0, 1_000),
    "nvlink_bandwidth": quantity("B/s"),
    "nvlink_latency": quantity("s"),
    **{f"peaks.{name}": quantity("FLOP/s") for name in PEAKS},
    **{f"sparse_peaks.{name}": quantity("FLOP/s") for name in PEAKS},
}
"""The fields of a GPU that may be overridden, with their readers."""


def read_overrides(
    given: Mapping[str, object], known: Mapping[str, Reader]
) -> tuple[dict[str, Any], list[str]]:
    """(values in SI by key, problems), for keys of the table `known`."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    if len(given) > 200:
        return {}, [f"{len(given)} keys given; there are {len(known)} to choose from"]
    for key, value in given.items():
        if key not in known:
            problems.append(unknown_name("key", key, known))
            continue
        try:
            values[key] = known[key](value, key)
        except UnitError as error:
            problems.append(str(error))
    return values, problems


def override_gpu(gpu: Gpu, overrides: Mapping[str, object]) -> Gpu:
    """The GPU with fields changed by dotted keys, which may start with "gpu." as they do for a cluster.

    Raises CatalogError with all problems.
    """
    given = {key.removeprefix("gpu."): value for key, value in overrides.items()}
    values, problems = read_overrides(given, GPU_KEYS)
    raise_all(problems, CatalogError)
    return change_gpu(gpu, values)


def change_gpu(gpu: Gpu, values: Mapping[str, Any]) -> Gpu:
    """The GPU with fields changed to values in SI, each with a note that the user set it."""
    fields: dict[str, Any] = {}
    for key, value in values.items():
        head, _, rest = key.partition(".")
        if value in CLOCKS:
            fields["is_sustained"] = value == "sustained"
            continue
        fields[head] = {**fields.get(head, getattr(gpu, head)), rest: value} if rest else value
    notes = {**gpu.notes, **dict.fromkeys(values, "set by the user")}
    return replace(gpu, **fields, notes=notes)


def change_system(system: System, gpu: Gpu, values: Mapping[str, Any]) -> System:
    """The system with a GPU, changed as `values` says, and its number of GPUs and power; other keys are ignored."""
    fields = {key.removeprefix("gpu."): value for key, value in values.items() if key.startswith("gpu.")}
    fields.pop("name", None)
    changed = change_gpu(gpu, fields) if fields else gpu
    gpus = values.get("gpus_per_node", system.gpus)
    power = values.get("power", system.power * min(1.0, gpus / system.gpus))
    if changed == system.gpu and gpus == system.gpus and power == system.power:
        return system
    if system.torus is not None and gpus != system.gpus:
        system = call("hardware.torus_slices:cut_system", system, system.nics, gpus)
    system = replace(system, gpu=changed, gpus=gpus, power=power, datasheet={})
    is_pair = system.topology == "nvlink-pair" and gpus == 2
    if (
        changed.bridge and not is_pair
    ) or not changed.nvlink:  # cards without NVLink to all others leave PCI Express
        topology = "pcie-root" if system.topology == "pcie-root" else "pcie"
        return replace(system, topology=topology, nvswitch=None, nvswitches=0)
    return system


def change_link(link: Link, values: Mapping[str, Any], which: str) -> Link:
    """The link `which` (nvlink or network) with the bandwidth and latency that `values` gives."""
    return Link(
        name=link.name if link.bandwidth else which,
        bandwidth=values.get(f"{which}.bandwidth", link.bandwidth),
        latency=values.get(f"{which}.latency", link.latency),
    )


def change_adapters(system: System, link: Link, nics: int, fabric: str) -> System:
    """The system with adapters that match a cluster's network."""
    if not nics:
        return replace(system, nic=None, nics=0, datasheet={})
    sold = system.nic or Nic(name="as given", ports=1, bandwidth=0.0, kind=fabric)
    nic = replace(sold, bandwidth=link.bandwidth, latency=link.latency, kind=fabric)
    return replace(system, nic=nic, nics=nics, datasheet={})
