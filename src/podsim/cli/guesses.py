"""What a user probably meant by words that are no command and no option: models, clusters, numbers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from podsim.cli.mistakes import LAYOUT_FLAGS, kept_arguments
from podsim.hardware.catalog import aliases, names
from podsim.hardware.cluster import cluster_names
from podsim.hardware.cluster_names import catalog_name, is_cluster
from podsim.options.question import Option
from podsim.questions.registry import ASKING, GROUPS_ASKED, LISTS, PLANNED, words_meant
from podsim.workload.catalog import any_model_names
from podsim.workload.model_names import known_model

_JOB = ("--on", "h100", "--gpus", "64")
_EXAMPLE = ("plan", "llama-3.1-8b", *_JOB)


class LikelyError(click.UsageError):
    """A command line that cannot be read, with those that were probably meant."""

    def __init__(self, message: str, lines: Sequence[Sequence[str]] = (), *, proposal: str = "") -> None:
        """Keep the likely lines; the proposal is said where one of them works."""
        super().__init__(message + proposal)
        self.lines = lines
        self.plain = message


def stray_words(ctx: click.Context, options: Mapping[str, Option]) -> LikelyError:
    """The error for words after the last argument: a model in several words, a cluster, a number of GPUs."""
    words, arguments = list(ctx.args), kept_arguments()
    kept = [word for word in arguments if word not in words]
    first = next((name for name, known in options.items() if known.argument and not known.flag), "")
    stated = str(ctx.params.get(first, ""))
    model = known_model("-".join([stated, *words]), any_model_names()) if first == "model" else ""
    named = [model if word == stated else word for word in kept]
    likely = named if model else kept + _flagged(words, options, arguments)
    text = " ".join(words)[:60]
    is_changed = bool(model) or len(likely) > len(kept)
    lines = [*other_questions(arguments), *([likely] if is_changed else [])]
    return LikelyError(f"unexpected argument {text!r}: options begin with --", lines)


def words_with_flags(
    missing: Option, options: Mapping[str, Option], arguments: Sequence[str]
) -> list[str] | None:
    """The arguments with flags before a cluster and a number of GPUs that lack them; None where no word names one."""
    words = [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if not word.startswith("-") and not before.startswith("--")
    ]
    stray = [word for word in words[2:] if word.isdecimal() or is_cluster(word)]
    if missing.name != "on" or not any(map(is_cluster, stray)):
        return None
    return [word for word in arguments if word not in stray] + _flagged(stray, options, arguments)


def _flagged(words: Sequence[str], options: Mapping[str, Option], arguments: Sequence[str]) -> list[str]:
    """Words with the options that they are probably values of."""
    flagged: list[str] = []
    for word in words:
        free = [name for name in ("on", "gpus") if name in options and f"--{name}" not in arguments]
        if "on" in free and is_cluster(word):
            flagged += ["--on", word]
        elif "gpus" in free and word.isdecimal():
            flagged += ["--gpus", word]
        elif "sizes" in options and re.fullmatch(r"(?i)\d+[kmgt]i?b?", word):
            flagged += ["--sizes", word]
    return flagged


def unknown_command(word: str, commands: Sequence[str], path: Sequence[str] = ()) -> LikelyError:
    """The error for a word that is no command; `path` is the group that it was asked of."""
    arguments = kept_arguments()
    at = arguments.index(word) if word in arguments else 0
    before, after = arguments[:at], arguments[at + 1 :]
    message = f"no command {' '.join([*path, word])[:60]!r}"
    if not path and (likely := _question(word, after)):
        return LikelyError(f"{message}; a command comes first", [likely])
    if not path and word.lower() in ASKING:
        named = next((name for name in after if known_model(name, any_model_names())), _EXAMPLE[1])
        proposal = ["plan", named, *_JOB]
        return LikelyError(f"{message}: name a command, a model and a cluster to ask a question", [proposal])
    short = {name.rpartition(" ")[2]: name for name in reversed(commands)}
    if not path and word.lower() in LISTS:
        return LikelyError(f"{message}; models, clusters or gpus alone are listed", [after or ["models"]])
    key = word.lower().replace("_", "-")
    meant = words_meant().get(key, "") if not path else _asked_of_group(path[0], word)
    if meant == "predict" and not {*LAYOUT_FLAGS, "--zero"} & set(after):
        meant = "plan"  # a plan that fits, as no layout is typed
    close = [meant] if meant else get_close_matches(key, [*commands, *short], n=1, cutoff=0.7)
    if not close:
        return LikelyError(f"{message}; see podsim {' '.join(['help', *path])}")
    name = short.get(close[0], close[0])
    first, dashes, flags = name.partition(" --")
    words = [*before, *first.split(), *after, *f"{dashes}{flags}".split()]
    other = "" if _is_job_file(after) else f"; did you mean {' '.join([*path, name])}?"
    return LikelyError(message, [words], proposal=other)


def _asked_of_group(group: str, word: str) -> str:
    """The command of a group that a model or a cluster without a command asks for; "" if the word is neither."""
    of_model, of_cluster = GROUPS_ASKED.get(group, ("", ""))
    command = of_model if of_model and known_model(word, any_model_names()) else of_cluster * is_cluster(word)
    return f"{command} {word}" if command else ""


def other_questions(arguments: Sequence[str]) -> list[list[str]]:
    """The questions that a model or clusters probably ask where the command takes neither."""
    command, words = (arguments[0], list(arguments[1:])) if arguments else ("", [])
    names = [word for word in words if not word.startswith("-")]
    if command in PLANNED and names and known_model(names[0], any_model_names()):
        return [["plan", *words]]
    if command in ("plan", "predict") and _is_job_file(words):
        return [["advise", *words]]
    clusters = [name for name in names if is_cluster(name)]
    if command == "compare" and len(clusters) > 1:
        model = next((name for name in names if known_model(name, any_model_names())), _EXAMPLE[1])
        return [["plan", model, "--on", ",".join(clusters), "--gpus", "64"]]
    return []


def _is_job_file(words: Sequence[str]) -> bool:
    """Whether words begin with a file that starts a job: one that describes no model."""
    path = Path(words[0]) if words else Path()
    if not path.is_file() or path.suffix[1:] not in ("json", "sh", "toml", "yaml", "yml", "sbatch", "slurm"):
        return False
    return not re.search(r'"(model_type|architectures)"', path.read_text("utf-8", "replace")[: 1 << 20])


def counted_cluster(
    known: Option, options: Mapping[str, Option], arguments: Sequence[str]
) -> list[list[str]]:
    """The arguments with 64xh100 as GPUs of a cluster."""
    wrong = next((word for word in arguments if re.fullmatch(r"\d+x[a-z].*", word, re.IGNORECASE)), "")
    count, _, name = wrong.lower().partition("x")
    if known.name != "gpus" or "on" not in options or not is_cluster(name):
        return []
    given = [count if word == wrong else word for word in arguments]
    return [given if "--on" in given else [*given, "--on", name]]


def _question(word: str, after: Sequence[str]) -> list[str]:
    """The command that a model or a cluster without a command probably asks for; empty if it is neither."""
    if word.endswith(".json") or known_model(word, any_model_names()):
        return ["plan", word, *after, *([] if "--on" in after else _JOB)]
    return ["show", catalog_name(word)] if is_cluster(word) else []


def completions(catalog: str, text: str) -> list[str]:
    """Names of a catalog that begin with a text, as a shell completes them."""
    known = any_model_names() if catalog == "models" else (*cluster_names(), *names("gpu"), *aliases("gpu"))
    return [name for name in known if name.startswith(text.lower())]
