"""Cells of a row that is to become podsim's nouns, and how it is said that it cannot."""

from __future__ import annotations

from collections.abc import Mapping


class NotExpressible(Exception):
    """The row lacks something, or describes what podsim does not model; the text says what."""


def stated(row: Mapping[str, str], column: str) -> str:
    """What a row says in a column; "" where it says nothing or has no such column."""
    return (row.get(column) or "").strip()


def whole(row: Mapping[str, str], column: str, default: int | None = None) -> int:
    """The whole number, from 1, in a column; `default` where it is blank, if there is one. Else NotExpressible."""
    text = stated(row, column)
    if not text:
        if default is None:
            raise NotExpressible(f"{column} is not given")
        return default
    try:
        value = float(text)
    except ValueError:
        raise NotExpressible(f"{column}={text!r} is not a number") from None
    if not 0 < value < 1e12 or value != int(value):
        raise NotExpressible(f"{column}={text!r} is not a whole number from 1")
    return int(value)


def read_settings(text: str) -> tuple[str, dict[str, str]]:
    """("gpt-22b", {"layers": "96"}) of "gpt-22b layers=96": the name, "" if there is none, and the settings."""
    words = text.split()
    settings = dict(word.split("=", maxsplit=1) for word in words if "=" in word)
    return " ".join(word for word in words if "=" not in word), settings


def write_settings(name: str, settings: Mapping[str, object]) -> str:
    """The text that `read_settings` reads; blanks within values are left out."""
    return " ".join(filter(None, [name, *(f"{k}={str(v).replace(' ', '')}" for k, v in settings.items())]))
