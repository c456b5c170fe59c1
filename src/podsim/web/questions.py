"""What a browser may ask: the questions of the registry with a screen, and how a request becomes their options.

A request is a JSON object of option names and values. Options that name files of the server are refused; a file that
the visitor sent is named `upload:ID`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

from podsim.errors import PlanError, PodsimError, check_name, raise_all
from podsim.foreign_files import refuse_constant
from podsim.options.question import Manner, Option, options_of
from podsim.questions.registry import Screen, function_of, screens

LONGEST_TEXT = 2000
"""characters of the text of one option"""
MOST_VALUES = 200
"""values of a repeated option"""
_WITH_SLASH = ("overrides", "bandwidth", "server_bandwidth", "limit")
"""options whose values may hold a slash: they are quantities, as 100Gb/s"""
UPLOAD = "upload:"


_FILES = (
    "save", "launch", "plan", "read", "raw", "rows", "chakra", "experiment", "against", "topology"
)  # fmt: skip
"""options that name files of the machine; only an upload can stand for one"""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, and the rules of asking it."""

    about: str
    ask: Callable[..., Any]
    screen: Screen

    @property
    def manner(self) -> Manner:
        """How it is asked and answered."""
        manner: Manner = self.ask.manner  # type: ignore[attr-defined]
        return manner

    @property
    def has_progress(self) -> bool:
        """Whether it reports its progress."""
        return "progress" in signature(self.ask).parameters

    @property
    def uploads(self) -> tuple[str, ...]:
        """The options that may name an uploaded file."""
        return self.screen.uploads

    @property
    def options(self) -> dict[str, Option]:
        """All its options, by name."""
        return options_of(self.manner.group)


@cache
def question_of(name: str) -> Question:
    """The question of a name of the API, which is loaded only now. KeyError for another name."""
    own, entry = screens()[name]
    assert entry.screen is not None
    return Question(about=entry.help, ask=function_of(own), screen=entry.screen)


def known_options(question: Question) -> dict[str, Option]:
    """The options that a request may give, by name."""
    return {
        name: known
        for name, known in question.options.items()
        if name in question.uploads or (known.kind is not Path and name not in _FILES)
    }


def described_questions() -> dict[str, Any]:
    """The description of the JSON API: each question with its options, as a form needs them."""
    return {
        name: {
            "about": question.about,
            "path": f"/api/{name}",
            "method": "POST",
            "streams": question.has_progress,
            "uploads": list(question.uploads),
            "options": [_described(known) for known in known_options(question).values()],
        }
        for name in screens()
        if (question := question_of(name))
    }


def _described(known: Option) -> dict[str, Any]:
    default = None if known.is_required or known.default in ((), "") else known.default
    return {
        "name": known.name,
        "help": known.help,
        "kind": "text" if known.kind in (None, str, Path) else known.kind.__name__,
        "required": known.is_required,
        "default": default,
        "choices": [choice for choice in known.choices if choice],
        "many": known.many,
        "flag": known.flag or ("" if known.argument else f"--{known.name.replace('_', '-')}"),
    }


def read_request(body: bytes) -> dict[str, Any]:
    """The JSON object of a request. PodsimError for anything else."""
    try:
        given = json.loads(body.decode("utf-8") or "{}", parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100]
        raise PodsimError(f"the request is not JSON that podsim can read: {reason}") from None
    if not isinstance(given, dict):
        raise PodsimError('the request must be a JSON object of options, as {"model": "gpt2"}')
    return given


def read_options(
    question: Question, given: Mapping[str, Any], path_of: Callable[[str], Path]
) -> dict[str, Any]:
    """The options of a request, read as a terminal's are; `path_of` gives the path of an upload by its ID.

    PlanError with all problems.
    """
    known = known_options(question)
    problems, values = [], {}
    for name, value in given.items():
        try:
            check_name("option", name, known)
            if value is not None and value != "":
                values[name] = _value(known[name], value, question, path_of)
        except (PodsimError, ValueError, OverflowError) as error:
            problems.append(" ".join(str(error).split())[:400])
    problems += [
        f"{name}: it must be given" for name in known if known[name].is_required and name not in values
    ]
    raise_all(problems, PlanError)
    return values


def _value(known: Option, value: Any, question: Question, path_of: Callable[[str], Path]) -> Any:
    if known.many:
        return _values(known, value)
    if isinstance(value, str) and value.startswith(UPLOAD):
        if known.name not in question.uploads:
            raise PodsimError(f"{known.name}: this option takes no file")
        return path_of(value.removeprefix(UPLOAD))
    if known.kind is Path or known.name in _FILES:
        raise PodsimError(f"{known.name}: send the file first, and name it as upload:ID")
    if isinstance(value, (list, dict)):
        raise PodsimError(f"{known.name}: one value is expected, not {type(value).__name__}")
    if known.kind is bool:
        return _flag(known.name, value)
    if known.kind in (int, float):
        return _number(known, value)
    if isinstance(value, bool):
        raise PodsimError(f"{known.name}: true and false are no values of this option")
    return _text(known.name, str(value))


def _values(known: Option, value: Any) -> Any:
    """The values of a repeated option: a list, or an object of names and values."""
    if isinstance(value, dict):
        texts = [f"{name}={_joined(item)}" for name, item in value.items()]
    elif isinstance(value, list):
        texts = [_scalar(known.name, item) for item in value]
    else:
        texts = [_scalar(known.name, value)]
    if len(texts) > MOST_VALUES:
        raise PodsimError(f"{known.name}: {len(texts)} values; at most {MOST_VALUES} can be given")
    texts = [_text(known.name, text) for text in texts]
    if known.read:
        return known.read(texts, known.name)
    return tuple(texts)


def _joined(value: Any) -> str:
    """One value as text, or several with commas, as limits are written."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise PodsimError(f"{name}: a list holds text and numbers, not {type(value).__name__}")
    return str(value)


def _flag(name: str, value: Any) -> bool:
    known = {"true": True, "false": False, "1": True, "0": False}
    if str(value).lower() not in known:
        raise PodsimError(f"{name}={str(value)[:40]!r}: true or false")
    return known[str(value).lower()]


def _number(known: Option, value: Any) -> Any:
    kind: Any = known.kind
    is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    try:
        number = kind(value) if is_number and len(str(value)) <= 40 else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (kind is int and not isinstance(value, str) and number != value):
        raise PodsimError(f"{known.name}={str(value)[:40]!r}: {'a whole' if kind is int else 'a'} number")
    return number


def _text(name: str, text: str) -> str:
    """Text that names no file of the server."""
    if len(text) > LONGEST_TEXT:
        raise PodsimError(f"{name}: {len(text):,} characters; at most {LONGEST_TEXT:,} can be given")
    if not text.isprintable():
        raise PodsimError(f"{name}: the text holds a character that cannot be printed")
    is_path = text.strip() in (".", "..") or "\\" in text or text.startswith("~")
    if is_path or ("/" in text and name not in _WITH_SLASH):
        raise PodsimError(
            f"{name}={text[:40]!r}: this page reads no files of its server; send the file instead"
        )
    return text
