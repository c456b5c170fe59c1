"""The table of what a browser may ask: each question with its options, its limit, and how its answer becomes JSON.

A request is a JSON object of option names and values. Options that name files of the server are refused; a file that
the visitor sent is named `upload:ID`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from podsim.errors import PlanError, PodsimError, unknown_name
from podsim.foreign_files import refuse_constant
from podsim.options.question import Option, options_of

LONGEST_TEXT = 2000
"""characters of the text of one option"""
MOST_VALUES = 200
"""values of a repeated option"""
_WITH_SLASH = ("overrides", "bandwidth", "server_bandwidth", "limit")
"""options whose values may hold a slash: they are quantities, as 100Gb/s"""
UPLOAD = "upload:"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, and the rules of asking it."""

    verb: str
    """The function, as MODULE:FUNCTION of podsim."""
    options: str
    """The options, as MODULE:CLASS of podsim."""
    about: str
    data: str = "report.plain_data:plain_value"
    """The function from an answer to its JSON."""
    is_quick: bool = False
    """Whether it answers in a fraction of a second: it has its own workers, and its answers are kept."""
    has_progress: bool = False
    """Whether it reports its progress."""
    uploads: tuple[str, ...] = ()
    """The options that may name an uploaded file."""


_MODEL = ("model", "on")
_FILES = (
    "save", "launch", "plan", "read", "raw", "rows", "chakra", "experiment", "against", "topology"
)  # fmt: skip
"""options that name files of the machine; only an upload can stand for one"""

QUESTIONS: Mapping[str, Question] = MappingProxyType({
    "predict": Question(
        verb="questions.train.predict:predict",
        options="options.plan_options:PredictOptions", is_quick=True, uploads=_MODEL,
        about="Step time and memory of one plan: podsim predict.",
    ),
    "plan": Question(
        verb="questions.train.plan:plan",
        options="options.plan_options:SearchOptions", has_progress=True, uploads=_MODEL,
        about="The best plans among every legal one: podsim plan.",
    ),
    "launch": Question(
        verb="questions.train.launch:launch",
        options="options.plan_options:LaunchOptions", is_quick=True, uploads=_MODEL,
        about="The file that starts a plan: podsim launch.",
    ),
    "defaults": Question(
        verb="web.default_values:default_values", options="options.plan_options:SearchOptions", is_quick=True,
        uploads=_MODEL,
        about="What a search takes where an option is not given, each value with its origin.",
    ),
    "map": Question(
        verb="web.plan_map:plan_map", options="web.plan_map:MapOptions", has_progress=True, uploads=_MODEL,
        about="Every plan of a search, counted in the cells of two axes.",
    ),
    "timeline": Question(
        verb="web.step_timeline:step_timeline", options="web.step_timeline:TimelineOptions",
        uploads=(*_MODEL, "against"), about="A played step with its spans: podsim simulate.",
    ),
    "schedule": Question(
        verb="questions.train.schedule:schedule",
        options="options.step_options:ScheduleOptions", is_quick=True,
        about="A pipeline schedule, action by action: podsim schedule.",
    ),
    "collective": Question(
        verb="questions.machine.collective:collective",
        options="options.machine_options:CollectiveOptions", is_quick=True,
        about="The time of a collective by size: podsim collective.",
    ),
    "rounds": Question(
        verb="web.collective_rounds:collective_rounds", options="web.collective_rounds:RoundsOptions", is_quick=True,
        about="An all-reduce round by round.",
    ),
    "machine": Question(
        verb="web.machine_levers:machine_levers", options="web.machine_levers:LeverOptions", is_quick=True,
        uploads=("on",), about="The values of a machine that a design changes.",
    ),
    "measured": Question(
        verb="web.trusted_runs:measured_runs", options="options.machine_options:NoOptions", is_quick=True,
        about="The measured runs that stand behind predictions, each with its error.",
    ),
    "goodput": Question(
        verb="questions.train.goodput:goodput",
        options="options.fleet_options:GoodputOptions", uploads=_MODEL,
        about="The days of a run with failures: podsim goodput.",
    ),
    "scale": Question(
        verb="questions.learn.scale_best:scale_best",
        options="options.scale_options:ScaleBestOptions", has_progress=True,
        data="report.scale_tables:fit_data", about="The network that learns most in some days: podsim scale best.",
    ),
    "queue": Question(
        verb="questions.operate.queue:queue",
        options="options.fleet_options:QueueOptions", has_progress=True, uploads=("trace",),
        data="report.queue_tables:plain_result", about="Jobs through a queue: podsim queue.",
    ),
    "mig": Question(
        verb="questions.machine.mig:mig_layouts",
        options="options.machine_options:MigLayoutsOptions", is_quick=True,
        about="The layouts of MIG instances on a GPU: podsim mig layouts.",
    ),
    "fabric": Question(
        verb="web.fabric_drawing:fabric_drawing", options="web.fabric_drawing:DrawingOptions",
        uploads=("on",), about="The drawing of a server or a fabric: podsim show --fabric.",
    ),
    "names": Question(
        verb="web.catalog_names:catalog_names", options="options.machine_options:NoOptions", is_quick=True,
        about="The names that the catalogs know.",
    ),
})  # fmt: skip


def load(name: str) -> Any:
    """What MODULE:NAME of podsim is."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"podsim.{module}"), attribute)


def group_of(question: Question) -> Any:
    """The options of a question."""
    return load(question.options)


def known_options(question: Question) -> dict[str, Option]:
    """The options that a request may give, by name."""
    return {
        name: known
        for name, known in options_of(group_of(question)).items()
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
        for name, question in QUESTIONS.items()
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
            if name not in known:
                raise PodsimError(unknown_name("option", name, known))
            if value is not None and value != "":
                values[name] = _value(known[name], value, question, path_of)
        except (PodsimError, ValueError, OverflowError) as error:
            problems.append(" ".join(str(error).split())[:400])
    problems += [
        f"{name}: it must be given" for name in known if known[name].is_required and name not in values
    ]
    if problems:
        raise PlanError(problems)
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
    if isinstance(value, bool):
        return value
    if str(value).lower() not in known:
        raise PodsimError(f"{name}={str(value)[:40]!r}: true or false")
    return known[str(value).lower()]


def _number(known: Option, value: Any) -> Any:
    kind: Any = known.kind
    is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    try:
        number = kind(value) if is_number and len(str(value)) <= 40 else None
    except ValueError:
        number = None
    if number is None or not math.isfinite(number) or (kind is int and not _is_exact(value, number)):
        raise PodsimError(f"{known.name}={str(value)[:40]!r}: {'a whole' if kind is int else 'a'} number")
    return number


def _is_exact(value: Any, number: int) -> bool:
    return isinstance(value, str) or number == value


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
