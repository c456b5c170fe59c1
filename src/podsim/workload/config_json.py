"""A config.json from an untrusted file: any bytes give a Config or a ModelError, never another exception."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from podsim.errors import ModelError
from podsim.foreign_files import read_json
from podsim.workload.specification import LIMITS, shown

_MOST_BYTES = 4_000_000
_MOST_PROBLEMS = 20
_REQUIRED = -1
_UNSIZED = ("sequence", "image_percent")
"""fields that size no tensor"""
_DERIVED = ("kv_heads", "head_dim")
"""fields for which 0 is what the others say"""
_SIZING_FLAG = re.compile(r"tie|moe|gate|double")


def load_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or in the config.json of a folder.

    Raises ModelError if there is none, if it is larger than 4 MB, or if it is no JSON object.
    """
    try:
        if path.is_dir():
            path = path / "config.json"
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise ModelError(
                f"{path}: {size} bytes are too many for a config.json; at most {_MOST_BYTES} are read"
            )
        if not path.is_file():
            raise ModelError(f"{path}: is no regular file; expected a config.json or a folder holding one")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            f"{str(path)[:200]}: cannot read a config.json: {reason}; a name works too, as llama-3.1-8b"
            " (`podsim models` lists them)"
        ) from error
    return _parse(text, str(path))


def _parse(text: str, where: str) -> dict[str, Any]:
    value = read_json(text, name=where, error=ModelError, hint="is the file complete?", is_finite=False)
    if not isinstance(value, dict):
        raise ModelError(f"{where}: holds {shown(value)}, but a config.json is one JSON object: {{...}}")
    return value


@dataclass(frozen=True, kw_only=True)
class Config:
    """Typed access to a JSON object; `problems` collects all mistakes, which are reported at once.

    A key may have synonyms (the first one present counts); null means absent. Synonyms with another value count as
    not read. What the file has under none of the names, it takes from `defaults`.
    """

    raw: Mapping[str, Any]
    prefix: str = ""
    problems: list[str] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The values that its class takes for keys that the file leaves out."""
    read: set[str] = field(default_factory=set)
    """The keys that were read, with their prefixes."""
    assumed: dict[str, object] = field(default_factory=dict)
    """The sizes that the file leaves out, and what was taken: a number, or "" for what the others say."""

    def having(self, changes: Mapping[str, Any]) -> Config:
        """The config with further keys, or other values."""
        return replace(self, raw={**self.raw, **changes})

    def value(self, *names: str) -> Any:
        """The value under the first of the names that has one, else the class's default; None without either."""
        return self._find(names)[1]

    def _find(self, names: tuple[str, ...]) -> tuple[str, Any]:
        stated = [name for name in names if name in self.raw]
        source = self.raw if stated else self.defaults
        first = next((name for name in names if source.get(name) is not None), names[0])
        value = source.get(first)
        self.read.update(f"{self.prefix}{name}" for name in stated if self.raw[name] in (value, None))
        return first, value

    def _assume(self, names: tuple[str, ...], value: object) -> None:
        """Note what was taken for a size that the file does not state."""
        if not any(name in self.raw for name in names):
            self.assumed.setdefault(f"{self.prefix}{names[0]}", value)

    def has_key(self, name: str) -> bool:
        """Whether the object or its class has the key, null or not."""
        return name in self.raw or name in self.defaults

    def complain(self, problem: str) -> None:
        """Add a problem (a hostile file cannot add more than a screenful)."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)

    def integer(self, limit: str, *names: str, default: int = _REQUIRED, least: int = 1) -> int:
        """Whole number from `least` to the limit of the field `limit`; without a default it is required."""
        name, value = self._find(names)
        most = LIMITS[limit]
        if value is None:
            if default == _REQUIRED:
                also = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
                self.complain(f"{self.prefix}{name}{also} is missing: a whole number from {least} to {most}")
                return 1
            if limit in _UNSIZED:
                return default
            if default > (limit != "state_input") or (default == 0 and limit in _DERIVED):
                self._assume(names, default or "")
            return default
        if limit not in _UNSIZED:
            self._assume((name, *names), value)
        if type(value) is not int or not least <= value <= most:
            self.complain(f"{self.prefix}{name}={shown(value)} must be a whole number from {least} to {most}")
            return max(1, least)
        return value

    def flag(self, *names: str, default: bool) -> bool:
        """True or false."""
        name, value = self._find(names)
        if _SIZING_FLAG.search(names[0]):
            self._assume(names, default if value is None else value)
        if value is None:
            return default
        if type(value) is not bool:
            self.complain(f"{self.prefix}{name}={shown(value)} must be true or false")
            return default
        return value

    def number(self, *names: str, default: float) -> float:
        """A finite number."""
        name, value = self._find(names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
            self.complain(f"{self.prefix}{name}={shown(value)} must be a finite number")
            return default
        return float(value)

    def probability(self, *names: str, default: float) -> float:
        """A number from 0 to 1, such as a dropout."""
        value = self.number(*names, default=default)
        if not 0.0 <= value <= 1.0:
            self.complain(f"{self.prefix}{self._find(names)[0]}={shown(value)} must be from 0 to 1")
        return value

    def text(self, *names: str, default: str = "") -> str:
        """Text."""
        name, value = self._find(names)
        if value is None:
            return default
        if not isinstance(value, str):
            self.complain(f"{self.prefix}{name}={shown(value)} must be text")
            return default
        return value

    def choice(self, name: str, choices: tuple[str, ...], *, default: str) -> str:
        """One of a few texts; the first of `choices` stands in for a wrong one."""
        value = self.text(name, default=default)
        if value not in choices:
            self.complain(f"{self.prefix}{name}={shown(value)} is not supported; {', '.join(choices)} are")
            return choices[0]
        return value

    def items(self, name: str) -> list[Any]:
        """A list; empty if absent."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(f"{self.prefix}{name}={shown(value)} must be a list")
            return []
        return value

    def indices(self, name: str) -> tuple[int, ...]:
        """A list of layer indices."""
        values = self.items(name)
        if any(type(x) is not int or not 0 <= x <= LIMITS["layers"] for x in values):
            self.complain(f"{self.prefix}{name} must be a list of layer indices, counted from 0")
            return ()
        return tuple(values)

    def table(self, name: str) -> Config:
        """A nested object; empty if absent. Its problems are this one's."""
        value = self.value(name)
        if value is not None and not isinstance(value, dict):
            self.complain(f"{self.prefix}{name}={shown(value)} must be an object")
            value = None
        return replace(self, raw=value or {}, prefix=f"{self.prefix}{name}.", defaults={})


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False
