"""What a user probably meant by words that are no command and no option: models, clusters, numbers of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import click

from podsim.cli.mistakes import kept_arguments
from podsim.errors import PodsimError
from podsim.hardware.catalog import aliases, find, names
from podsim.hardware.cluster import cluster_names
from podsim.hardware.cluster_names import catalog_name, read_spec
from podsim.options.question import Option
from podsim.questions.registry import words_meant
from podsim.workload.catalog import any_model_names
from podsim.workload.model_names import known_model

_MEANT = {**words_meant(), "version": "--version", "autocomplete": "completion"}
"""the command for each other word that users type"""
_JOB = ("--on", "h100", "--gpus", "64")


class LikelyError(click.UsageError):
    """A command line that cannot be read, with the one that was probably meant."""

    def __init__(self, message: str, instead: Sequence[str] | None) -> None:
        """Keep the likely arguments."""
        super().__init__(message)
        self.instead = list(instead) if instead else None


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
    return LikelyError(f"{text!r} has no meaning here: options begin with --", likely if is_changed else None)


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
    return flagged


def unknown_command(word: str, commands: Sequence[str], path: Sequence[str] = ()) -> LikelyError:
    """The error for a word that is no command; `path` is the group that it was asked of."""
    arguments = kept_arguments()
    at = arguments.index(word) if word in arguments else 0
    before, after = arguments[:at], arguments[at + 1 :]
    message = f"no command {' '.join([*path, word])[:60]!r}"
    if not path and (likely := _question(word, after)):
        return LikelyError(f"{message}; a command comes first", likely)
    short = {name.rpartition(" ")[2]: name for name in reversed(commands)}
    meant = _MEANT.get(word.lower(), "") if not path else ""
    close = [meant] if meant else get_close_matches(word.lower(), [*commands, *short], n=1, cutoff=0.6)
    if not close:
        return LikelyError(f"{message}; see podsim --help", None)
    name = short.get(close[0], close[0])
    return LikelyError(
        f"{message}; did you mean {' '.join([*path, name])}?", [*before, *name.split(), *after]
    )


def _question(word: str, after: Sequence[str]) -> list[str]:
    """The command that a model or a cluster without a command probably asks for; empty if it is neither."""
    if word.endswith(".json") or known_model(word, any_model_names()):
        return ["plan", word, *after, *([] if "--on" in after else _JOB)]
    return ["show", catalog_name(word)] if is_cluster(word) else []


def is_cluster(text: str) -> bool:
    """Whether a text names a cluster, a system or a GPU of the catalog."""
    try:
        name = read_spec(text).name
    except PodsimError:
        return False
    return (find(name) or ("",))[0] in ("cluster", "system", "gpu")


def completions(catalog: str, text: str) -> list[str]:
    """Names of a catalog that begin with a text, as a shell completes them."""
    known = any_model_names() if catalog == "models" else (*cluster_names(), *names("gpu"), *aliases("gpu"))
    return [name for name in known if name.startswith(text.lower())]
