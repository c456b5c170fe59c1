"""One command: its options from their declarations, its question, how its answer is printed, and what ends it early."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from podsim import __version__
from podsim.answers.answer import View, call, load
from podsim.cli.mistakes import kept_arguments, option_flag, question_mistake, with_known_flags
from podsim.errors import LabError, NoFitError, PodsimError
from podsim.options.output_options import NoOutput, Output
from podsim.options.question import Manner, Option, options_of
from podsim.questions.registry import DIVIDED, Entry, function_of
from podsim.quoting import visible, visible_lines

if TYPE_CHECKING:
    _PathBase = click.ParamType[Path]
else:
    _PathBase = click.ParamType

_FORMS = ("json", "csv", "fio_json")
"""options that choose how an answer is printed"""


class Command(click.Command):
    """A command whose parameters are made when they are needed."""

    def __init__(self, question: str, entry: Entry) -> None:
        """Keep the entry; nothing of the question is imported."""
        super().__init__(
            name=question.rpartition(" ")[2], help=entry.help, callback=self._run,
            epilog=f"Example: podsim {entry.example}",
            context_settings={"help_option_names": ["-h", "--help"], "allow_extra_args": True},
        )  # fmt: skip
        self.question = question
        self.example = entry.example

    @property
    def options(self) -> dict[str, Option]:
        """All options by name: those of the question, then those of its output."""
        return {**options_of(self._group), **options_of(self._output)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; words that have no meaning are an error that knows the likely command."""
        ctx.meta["podsim.words"] = [*ctx.command_path.split(), *args]
        if any(known.has_sign for known in self.options.values()):  # a blank, so that click sees no flag
            args = [f" {word}" if word[:1] == "-" and word[1:2].isdecimal() else word for word in args]
        if "overrides" in self.options and "force" not in self.options:
            args = ["--set=model.force=true" if word == "--force" else word for word in args]
        args = with_known_flags(args, self.options)
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise load("cli.guesses:stray_words")(ctx, self.options)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their groups; of many only those that are used most."""
        load("cli.help:write_options")(self, options_of(self._group), ctx, formatter)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, from the declarations of the options."""
        if not self.params:
            self.params = [parameter(known) for known in self.options.values()]
        return super().get_params(ctx)

    @property
    def _group(self) -> type:
        return self._manner.group

    @property
    def _output(self) -> type:
        return self._manner.output or Output

    @cached_property
    def _manner(self) -> Manner:
        manner: Manner = function_of(self.question).manner
        return manner

    def _run(self, **given: Any) -> None:
        if self.question in DIVIDED:
            said = _explicit(given)
            new = next(name for name, taken in DIVIDED[self.question] if not taken or set(taken) & set(said))
            sys.stderr.write(
                f"podsim: now podsim {self.question} {new}; the old spelling goes next release\n"
            )
        if status := guarded(lambda: self._answered(given), partial(self._said, given)):
            raise click.exceptions.Exit(status)

    def _said(self, given: Mapping[str, Any], error: PodsimError) -> str:
        """What is printed of a question's error, with the command that would work."""
        if self._manner.enough and isinstance(error, NoFitError):
            error = call(self._manner.enough, error, self._group(**_values(options_of(self._group), given)))
        mistake = question_mistake(error, self.options, given, kept_arguments())
        application = click.get_current_context().find_root().command
        return str(load("cli.repairs:mistake_text")(application, mistake))

    def check(self, given: Mapping[str, Any]) -> None:
        """Read the names that the options give, without asking; raises what the question would of them."""
        asked = options_of(self._group)
        options = _values(asked, given)
        if options.get("plan"):
            return
        is_network = load("workload.catalog:is_captured")(options.get("model"))
        is_cluster = "on" in asked and asked["on"].complete == "clusters"
        named = load("hardware.cluster_names:clusters_of")
        for cluster in (named(options["on"]) if is_cluster else []) or [""]:
            if self._manner.reads and not is_network:
                call(self._manner.reads, self._group(**{**options, "on": cluster}))
            elif cluster:
                load("hardware.cluster:load_cluster")(cluster, None, options.get("gpus"))

    def _answered(self, given: Mapping[str, Any]) -> int:
        """Ask and print; the exit status."""
        manner = self._manner
        output = self._output(**_values(options_of(self._output), given))
        _one_format(output)
        options = _values(options_of(self._group), given)
        with first_rank_speaks() if manner.ranked else nullcontext():
            if manner.check:
                call(manner.check, output, options)
            answer = self._asked(options, output)
        _warn_of_hosts(options)
        if answer is None:  # another rank has the result
            return 0
        if isinstance(output, NoOutput):
            return manner.status(answer)
        if manner.write:
            answer = call(manner.write, answer, output, options) or answer
        view = self._view(answer, output, options)
        if not manner.write and getattr(output, "plot", None) is not None:
            image = load("report.pictures:image_of")(answer, output.plot.suffix.lower()[1:], view)
            load("whole_files:write_whole")(output.plot, image)
        text = partial(call, manner.text, answer, output, options) if manner.text else None
        print_answer(answer, output, view, text=text, detail=options.get("detail"))
        if manner.after:
            call(manner.after, answer, output, options)
        sys.stdout.flush()
        return manner.status(answer)

    def _view(self, answer: Any, output: Any, options: Mapping[str, Any]) -> View:
        """The view of the question, or of the kind of answer."""
        view = self._manner.view
        if view is not None and not isinstance(view, View):
            view = call(view, answer, output, options)
        known: View = view or load("report.views:view_of")(answer)
        return known

    def _asked(self, options: Mapping[str, Any], output: Any) -> Any:
        """The answer to the question."""
        manner = self._manner
        if manner.progress or manner.activity or manner.ranked or isinstance(output, NoOutput):
            return self._answer_of(options, output)
        with load("report.progress:waiting")(self.name):
            return self._answer_of(options, output)

    def _answer_of(self, options: Mapping[str, Any], output: Any) -> Any:
        """The answer of the question, or of the function that asks it."""
        manner = self._manner
        if manner.ask:
            return call(manner.ask, options, output)
        named = load("hardware.cluster_names:clusters_of")
        if manner.compared and len(clusters := named(options.get("on"))) > 1:
            return call(manner.compared, self.question, _explicit(options), clusters)
        if manner.network and load("workload.catalog:is_captured")(options.get("model")):
            return call(manner.network, options)
        if options.get("plan"):
            options = _explicit(options)
        plotted = {manner.plotted: output.plot is not None} if manner.plotted else {}
        with _progress(manner.progress) as progress, _activity(manner.activity):
            return function_of(self.question)(**options, **plotted, **progress)


def _warn_of_hosts(options: Mapping[str, Any]) -> None:
    """Say on standard error what makes a measured machine that an option names unsure."""
    for name in ("on", "expect", "client"):
        path = options.get(name)
        if isinstance(path, str) and path.lower().endswith(".toml"):
            with suppress(PodsimError):  # a file of another kind, of which the command itself speaks
                host = load("hardware.cluster:load_cluster")(path).host
                if host is not None and host.warning:
                    sys.stderr.write(f"podsim: {host.warning}\n")


def _explicit(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the user typed: a plan file gives the others."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in options.items() if source(name) is not ParameterSource.DEFAULT}


def parameter(known: Option) -> click.Parameter:
    """An option of a command, or an argument, as it is declared."""
    if known.kind is bool:
        flag = option_flag(known)
        both = flag if known.flag else f"{flag}/--no-{flag.removeprefix('--')}"
        names = [*([known.short] if known.short else []), both, known.name]
        return click.Option(names, is_flag=True, default=known.default, help=known.help)
    default = {} if known.is_required or known.many else {"default": known.default}
    details = {"type": _type(known), "required": known.is_required, **default}
    if known.complete:
        details["shell_complete"] = lambda ctx, param, text: load("cli.guesses:completions")(
            known.complete, text
        )
    if known.argument and not known.flag:
        count = -1 if known.many else 1
        return click.Argument([known.name], nargs=count, metavar=known.metavar or None, **details)
    is_shown = default.get("default") not in (None, "")
    if known.bare is not None:
        details |= {"is_flag": False, "flag_value": known.bare}
    flags = [option_flag(known), *([known.older] if known.older else [])]
    details["help"] = known.help  # of an argument click knows none before 8.5, and nobody shows it
    return click.Option([*flags, known.name], multiple=known.many, show_default=is_shown, **details)


class _PathType(_PathBase):
    """A path that this machine can name, whether or not there is a file."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            is_name = b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            is_name = False
        if not is_name:
            self.fail(f"{value!r} holds a character that no path can hold.", param, ctx)
        return Path(value)


def _type(known: Option) -> Any:
    return _PathType() if known.kind is Path else known.kind


def _values(options: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a group, as its functions take them; repeated ones are read."""
    values = {name: _value(known, given[name]) for name, known in options.items()}
    return {
        name: value for name, value in values.items() if not (value is None and options[name].is_required)
    }


def _value(known: Option, value: Any) -> Any:
    if known.many:
        if not value:
            return known.default
        return known.read(value, option_flag(known)) if known.read else tuple(value)
    if known.suffixes and value is not None and value.suffix.lower() not in known.suffixes:
        ends = f"{', '.join(known.suffixes[:-1])} or {known.suffixes[-1]}"
        raise PodsimError(f"{option_flag(known)} {str(value)[-80:]}: give a name that ends in {ends}")
    return value


def _one_format(output: Any) -> None:
    """Raise PodsimError for several forms at once."""
    flags = [option_flag(known) for name, known in options_of(type(output)).items() if name in _FORMS]
    if sum(bool(getattr(output, name, False)) for name in _FORMS) > 1:
        raise PodsimError(f"{', '.join(flags[:-1])} and {flags[-1]}: choose one")


def print_answer(
    answer: Any, output: Any, view: View, *, text: Callable[[], str | None] | None, detail: object
) -> None:
    """Print an answer as JSON, as CSV, or as a report (or a `text` instead); write its page, if it is wanted.

    The page has the full report, where the terminal gets it at a glance.
    """
    report = partial(load("report.views:report_of"), answer, view, detail=detail)
    if getattr(output, "html", None) is not None and text is None:
        load("cli.page_output:write_page")(answer, output.html, report(brief=False), view)
    if getattr(output, "json", False):
        sys.stdout.write(answer_json(answer, view) + "\n")
    elif getattr(output, "csv", False):
        sys.stdout.write(load("report.plain_data:to_csv")(load("report.views:rows_of")(answer, view)))
    elif text is not None and (written := text()) is not None:
        sys.stdout.write(written)
    else:
        is_brief = bool(view.brief) and not output.verbose and not detail
        load("report.screen:show")(report(brief=is_brief))


def answer_json(answer: Any, view: View) -> str:
    """An answer as JSON: its own keys (or `rows`), and under `podsim` the version, the command and the units."""
    words = click.get_current_context().meta.get("podsim.words", [])
    plain = load("report.views:data_of")(answer, view)  # which may make what has units
    head = {
        "version": __version__, "command": shlex.join(words), "units": load("report.field_notes:units_of")(answer),
    }  # fmt: skip
    rest = plain if isinstance(plain, dict) else {"rows": plain}
    return str(load("report.plain_data:to_json")({"podsim": head, **rest}))


@contextmanager
def _progress(title: str) -> Iterator[dict[str, Any]]:
    """The keyword of a question that reports its progress, drawn on standard error."""
    if not title:
        yield {}
        return
    drawn = load("report.progress:status_line")() if title == "doing" else load("report.progress:bar")(title)
    with drawn as progress:
        yield {"progress": progress}


def _activity(title: str) -> AbstractContextManager[object]:
    """Says on standard error, after a second, what a question does."""
    if not title:
        return nullcontext()
    bar: Callable[[str], AbstractContextManager[object]] = load("report.progress:bar")
    return bar(title)


def guarded(command: Callable[[], int], text: Callable[[PodsimError], str]) -> int:
    """The exit status of a command whose mistakes and interruptions end on one screen, without a traceback."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except PodsimError as error:
        sys.stderr.write(visible_lines(text(error)))
        return 1 if isinstance(error, NoFitError) else 2
    except KeyboardInterrupt:
        sys.stderr.write("\npodsim: interrupted\n")
        return 130
    except MemoryError:
        sys.stderr.write("podsim: this takes more memory than there is; ask for less at once\n")
        return 2
    except BrokenPipeError:  # the reader has seen enough; nothing more may be written, not even at exit
        _write_no_more()
        return 0
    except OSError as error:
        sys.stderr.write(
            f"podsim: cannot write {visible(str(error.filename or 'the result'))}: {error.strerror or error}\n"
        )
        _write_no_more()
        return 2


def _write_no_more() -> None:
    with suppress(OSError):  # a stream of Python alone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def first_rank_speaks() -> Iterator[None]:
    """Every rank of a job gets the same options; the first alone reports mistakes in them. A run that broke off is
    reported by all.
    """
    try:
        yield
    except LabError:
        raise
    except PodsimError:
        if os.environ.get("RANK", "0") == "0":
            raise
        raise click.exceptions.Exit(2) from None
