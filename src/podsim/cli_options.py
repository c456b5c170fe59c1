"""How options are read that several commands share."""

from __future__ import annotations

from podsim.errors import PodsimError

__all__ = ["one_format", "overrides", "pairs"]


def pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """Keys and values of a repeatable option."""
    found: dict[str, str] = {}
    for pair in given or []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key or not value:
            raise PodsimError(f"{option} {pair[:80]!r}: expected key=value, such as {example}")
        if key in found:
            raise PodsimError(f"{option} {key[:80]} is given twice: {found[key][:80]} and {value[:80]}")
        found[key] = value
    return found


def overrides(given: list[str] | None) -> dict[str, str]:
    """Keys and values of --set."""
    return pairs(given, "--set", "gpu.memory=64GB")


def one_format(json: bool, csv: bool) -> None:
    """Raise PodsimError for two formats at once."""
    if json and csv:
        raise PodsimError("--json and --csv: choose one")
