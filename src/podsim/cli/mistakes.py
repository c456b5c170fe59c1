"""Messages for a user's mistakes, at a glance: at most five lines, the last one the command to type instead."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from textwrap import wrap

import click

from podsim.answers.answer import load
from podsim.errors import NoFitError, PlanError, PodsimError, ScheduleError, close_names
from podsim.options.question import Option
from podsim.questions.registry import FLAGS_MEANT, commands
from podsim.records import dataclass

MOST_LINES = 5
LAYOUT_FLAGS = ("--tp", "--pp", "--cp", "--ep", "--dp")
_START = "podsim: "
_KEPT = "podsim.arguments"
"""where a context keeps the arguments of the command line"""


def keep_arguments(ctx: click.Context, arguments: Sequence[str]) -> None:
    """Keep the arguments of a command line, so that a mistake may show them corrected."""
    ctx.meta[_KEPT] = tuple(arguments)


def kept_arguments() -> list[str]:
    """The arguments of the running command line; empty outside one."""
    ctx = click.get_current_context(silent=True)
    return list(ctx.meta.get(_KEPT, ())) if ctx else []


def message_room() -> tuple[int, int]:
    """(columns, lines) that a message may take."""
    return max(40, shutil.get_terminal_size((80, 24)).columns), MOST_LINES


def mistake_lines(problems: Sequence[str], command: Sequence[str] | None = None) -> str:
    """Problems, a line or more for each, and the command to type instead, in at most five lines of the terminal."""
    width, room = message_room()
    typed = f"try: podsim {shlex.join(command)}" if command else ""
    room -= -(-len(typed) // width)
    lines: list[str] = []
    for number, problem in enumerate(problems):
        left = len(problems) - number - 1
        shown = wrap(
            _START + " ".join(problem.split()), width, subsequent_indent="  ", break_on_hyphens=False
        )
        if len(lines) + len(shown) + (left > 0) > room:
            if lines:
                lines.append(f"{_START}and {left + 1} more problem{'s' if left else ''}")
                break
            shown = wrap(
                _START + " ".join(problem.split()), width, subsequent_indent="  ", break_on_hyphens=False,
                max_lines=room - (left > 0), placeholder=" …",
            )  # fmt: skip
        lines += shown
    return "".join(f"{line}\n" for line in [*lines, *([typed] if typed else [])])


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """What is wrong with a command line, and the lines that were probably meant, the likeliest first."""

    text: str
    """The problem, with what is proposed instead."""
    plain: str
    """The same where no proposal works."""
    lines: Sequence[Sequence[str]] = ()
    more: Sequence[str] = ()
    """The further problems."""
    is_option: bool = False
    """Whether it is an unknown option: all of these are said at once."""


def question_mistake(
    error: PodsimError, options: Mapping[str, Option], given: Mapping[str, object], arguments: Sequence[str]
) -> Mistake:
    """What a question found wrong, with the commands that would work if the error or a close name knows one."""
    problems = error.problems if isinstance(error, (PlanError, ScheduleError)) else (str(error),)
    lines: list[Sequence[str]] = []
    if error.instead and arguments:
        lines.append(corrected(arguments, error.instead, options, given))
    elif len(arguments) == 1 and arguments[0] in commands():
        lines.append(shlex.split(commands()[arguments[0]].example))
    elif not isinstance(error, NoFitError):
        lines += [*load("cli.guesses:other_questions")(arguments), *_closer(problems, arguments)]
    if isinstance(error, PlanError) and {"tp", "model", "on", "micro_batch"} <= set(options):
        typed = pairwise(arguments) if isinstance(error, NoFitError) else ()
        degrees = [word for pair in typed if pair[0] in LAYOUT_FLAGS for word in pair]  # a search keeps them
        degrees += ["--launch", str(given["tool"]), "--save", "run"] if given.get("tool") else []
        lines += [[*line, *degrees] for line in _search(options, given) if line[0] != arguments[0]]
    text = problems[0] if problems else str(error)
    return Mistake(text=text, plain=text, lines=lines, more=problems[1:])


def _search(options: Mapping[str, Option], given: Mapping[str, object]) -> list[list[str]]:
    """The command that finds legal plans of the same job."""
    if not given.get("model") or not given.get("on"):
        return []
    kept = [name for name in ("on", "gpus", "batch", "sequence", "precision") if given.get(name)]
    values = [word for name in kept for word in (option_flag(options[name]), str(given[name]))]
    return [["plan", str(given["model"]), *values]]


def corrected(
    arguments: Sequence[str],
    instead: Mapping[str, object],
    options: Mapping[str, Option],
    given: Mapping[str, object],
) -> list[str]:
    """The arguments with other values of some options; an option that is not there is added."""
    words = list(arguments)
    for name, value in instead.items():
        known = options.get(name)
        if known is None:
            continue
        flag, text = option_flag(known), str(value)
        if known.argument and not known.flag:
            old = str(given.get(name) or "")
            words = [text if word == old else word for word in words] if old else [*words, text]
        elif flag in words:
            words[words.index(flag) + 1 : words.index(flag) + 2] = [text]
        elif equals := [k for k, word in enumerate(words) if word.startswith(f"{flag}=")]:
            words[equals[0]] = f"{flag}={text}"
        else:
            words += [flag] if value is True else [flag, text]
    return words


def option_flag(known: Option) -> str:
    """The flag of an option in a terminal."""
    return known.flag or f"--{known.name.replace('_', '-')}"


def _closer(problems: Sequence[str], arguments: Sequence[str]) -> list[list[str]]:
    """The arguments with an unknown name replaced by each close one."""
    lines = []
    for problem in problems:
        name, close = close_names(problem)
        wrong = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])", re.IGNORECASE)
        for number, word in enumerate(arguments):
            if name and wrong.search(word) and not word.startswith("-"):
                before, after = arguments[:number], arguments[number + 1 :]
                lines += [[*before, wrong.sub(known, word, count=1), *after] for known in close]
    return lines


def usage_mistake(
    error: click.UsageError, options: Mapping[str, Option], arguments: Sequence[str]
) -> Mistake:
    """What is wrong with a command line that cannot be read."""
    message = plain = error.format_message().rstrip(".")
    lines = list(getattr(error, "lines", ()))
    known = options.get(getattr(getattr(error, "param", None), "name", None) or "")
    if isinstance(error, click.NoSuchOption):
        flag = error.option_name
        close = _meant_flag(flag, options, arguments)
        path = error.ctx.command_path.removeprefix("podsim").strip() if error.ctx else ""
        plain = f"no option {flag}; see podsim help {path}"
        message = f"no option {flag}; did you mean {close}?" if close else plain
        lines = load("cli.guesses:other_questions")(arguments)
        if lines:
            message = f"podsim {path} does not take {arguments[1]}; podsim {lines[0][0]} does"
        meant = shlex.split(FLAGS_MEANT.get(flag.lower(), ""))
        if meant and meant[0] in map(option_flag, options.values()):
            message = f"no option {flag}; did you mean {shlex.join(meant)}?"
            lines = [[new for word in arguments for new in (meant if word == flag else [word])]]
        lines = [*lines, *_renamed(arguments, flag, close, options)]
    elif isinstance(error, click.MissingParameter) and known:
        is_word = known.argument and not known.flag
        message = plain = f"{known.name.upper() if is_word else option_flag(known)} is missing: {known.help}"
        lines = _with_missing(known, options, arguments)
    elif isinstance(error, click.BadParameter) and known:
        message = plain = f"{option_flag(known)}: {error.message}"
        lines = [*load("cli.guesses:counted_cluster")(known, options, arguments), *_digits(known, arguments)]
    plain, is_option = getattr(error, "plain", plain), isinstance(error, click.NoSuchOption)
    return Mistake(text=message, plain=plain, lines=lines, is_option=is_option)


def _with_missing(known: Option, options: Mapping[str, Option], arguments: Sequence[str]) -> list[list[str]]:
    """The arguments with an example of an option that is not there."""
    if likely := load("cli.guesses:words_with_flags")(known, options, arguments):
        return [likely]
    if not known.example:
        return []
    name = [] if known.argument and not known.flag else [option_flag(known)]
    command = [*arguments, *name, *shlex.split(known.example)]
    if known.name == "on" and "gpus" in options and "--gpus" not in arguments:
        command += ["--gpus", "64"]
    return [command]


def _digits(known: Option, arguments: Sequence[str]) -> list[list[str]]:
    """The arguments with only the digits of a whole number that could not be read."""
    flag = option_flag(known)
    if known.kind is not int or flag not in arguments[:-1]:
        return []
    number = arguments.index(flag) + 1
    text = re.search(r"\d[\d,]*(k\b)?", arguments[number].lower())
    if text is None or len(text[0]) > 20:
        return []
    value = int(text[0].rstrip("k").replace(",", "")) * (1024 if text[1] else 1)
    return [[*arguments[:number], str(value), *arguments[number + 1 :]]]


def _meant_flag(flag: str, options: Mapping[str, Option], arguments: Sequence[str]) -> str:
    """The flag that was probably meant: one with that other name, or the closest one; "" if none."""
    name = flag.lstrip("-").replace("_", "-").lower()
    also = {word: known for known in options.values() for word in known.also}
    flags = {option_flag(known).lstrip("-"): known for known in options.values()}
    close = [name] if name in also else get_close_matches(name, [*flags, *also], n=1, cutoff=0.7)
    if not close:
        return ""
    known = flags.get(close[0]) or also[close[0]]
    value = _value_after(flag, arguments)
    if known.name == "gpus" and value and not value[0].isdecimal() and "on" in options:
        known = options["on"]
    return option_flag(known)


def with_known_flags(arguments: Sequence[str], options: Mapping[str, Option]) -> list[str]:
    """The arguments with other names of options, as --seq, under the flags that they stand for; --on twice is a list."""
    flags = {flag for known in options.values() for flag in (option_flag(known), known.short, known.older)}
    others = {word for known in options.values() for word in known.also}
    own = {f"--{word}" for k in options.values() if k.argument and not k.flag for word in (k.name, *k.also)}
    words = []
    for word in arguments:  # --model NAME is NAME
        flag, equals, value = word.partition("=")
        words += [value] * bool(equals) if flag in own else [word]
    for word in list(words):
        flag = word.partition("=")[0]
        is_alone = flag in FLAGS_MEANT and _value_after(flag, words)[:1] in ("", "-")
        if flag[:2] == "--" and flag not in flags and flag[2:] in others and not is_alone:
            words = next(iter(_renamed(words, flag, _meant_flag(flag, options, words), options)), words)
    while words.count("--on") > 1 and words[-1] != "--on":
        last = len(words) - 1 - words[::-1].index("--on")
        first = words.index("--on")
        words[first + 1] += f",{words[last + 1]}"
        del words[last : last + 2]
    return words


def _value_after(flag: str, arguments: Sequence[str]) -> str:
    """The text that follows a flag; "" if there is none."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return ""


def _renamed(
    arguments: Sequence[str], flag: str, close: str, options: Mapping[str, Option]
) -> list[list[str]]:
    """The arguments with another flag; nodes become the GPUs that they have."""
    if not close:
        return []
    words = [
        close if word == flag else re.sub(rf"^{re.escape(flag)}(?==)", close, word) for word in arguments
    ]
    if close == "--gpus" and "node" in flag:
        try:
            per = load("hardware.cluster:load_cluster")(_value_after("--on", arguments)).gpus_per_node
            gpus = int(_value_after(flag, arguments)) * per
        except (PodsimError, ValueError):
            return []
        return [corrected(words, {"gpus": gpus}, options, {})]
    return [words] if words != list(arguments) else []
