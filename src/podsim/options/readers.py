"""Readers of options that are repeated: NAME=VALUE, RANK=FACTOR, RANK=FACTOR@TIME."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.errors import PodsimError
from podsim.options.option import Reader
from podsim.units import parse_quantity


def pairs(example: str) -> Reader:
    """A reader of names and values."""

    def read(texts: Sequence[str], flag: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for text in texts:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not key or not value:
                raise PodsimError(f"{flag} {text[:80]!r}: expected key=value, such as {example}")
            if key in values:
                raise PodsimError(f"{flag} {key[:80]} is given twice: {values[key][:80]} and {value[:80]}")
            values[key] = value
        return values

    return read


def factors(member: str, example: str) -> Reader:
    """A reader of numbers of members (ranks, workers) and the factor of each."""

    def read(texts: Sequence[str], flag: str) -> dict[int, float]:
        return {
            _number(number, flag, member, example): parse_quantity(text, what=f"{flag} {number[:40]}")
            for number, text in pairs(example)(texts, flag).items()
        }

    return read


def throttles(member: str, example: str) -> Reader:
    """A reader of numbers of members, and for each its factor when hot and the time in which it gets hot (s)."""

    def read(texts: Sequence[str], flag: str) -> dict[int, tuple[float, float]]:
        values = {}
        for number, text in pairs(example)(texts, flag).items():
            factor, at, time = text.partition("@")
            if not at:
                raise PodsimError(
                    f"{flag} {number[:40]}={text[:40]}: expected FACTOR@TIME, such as {example}"
                )
            values[_number(number, flag, member, example)] = (
                parse_quantity(factor, what=flag),
                parse_quantity(time, "s", what=flag),
            )
        return values

    return read


def servers(example: str) -> Reader:
    """A reader of numbers of servers and the GPU of each."""

    def read(texts: Sequence[str], flag: str) -> dict[int, str]:
        return {
            _number(number, flag, "server", example): gpu
            for number, gpu in pairs(example)(texts, flag).items()
        }

    return read


def _number(text: str, flag: str, member: str, example: str) -> int:
    """The number of a member, counted from 0."""
    try:
        return int(text)
    except ValueError:
        raise PodsimError(f"{flag} {text[:40]}: a {member} is a number, such as {example}") from None
