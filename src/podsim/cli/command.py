"""One command: its options from their declarations, its question, how its answer is printed, and what ends it early."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from podsim.cli.late_import import load
from podsim.cli.mistakes import option_flag, unusable_text
from podsim.errors import PodsimError
from podsim.options.question import Option, options_of
from podsim.quoting import visible, visible_lines

if TYPE_CHECKING:
    from markupsafe import Markup

    from podsim.report.screen import Report  # which loads rich, and `podsim --help` shall not

    _PathBase = click.ParamType[Path]
else:
    _PathBase = click.ParamType
import os

from podsim import __version__
from podsim.errors import LabError, NoFitError

Status = Callable[[Any], int]
Charts = Callable[[], "Sequence[Markup]"]
"""draws the charts of a page"""
_FORMS = ("json", "csv", "fio_json")
"""options that choose how an answer is printed"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table of commands."""

    help: str
    options: str = "machine_options:NoOptions"
    """The options, as MODULE:CLASS of podsim.options."""
    verb: str = ""
    """The verb: a public name of podsim, or MODULE:FUNCTION."""
    network: str = ""
    """The function that answers for a captured network, given the options; without one the verb does."""
    ask: str = ""
    """The function that asks, given (options, output), where the output decides what to ask."""
    check: str = ""
    """The check, given (output, options), that raises PodsimError for contradictory options before the work begins."""
    output: str = "output_options:Output"
    report: str = ""
    """The function from an answer to its report."""
    brief: str = ""
    """The function from an answer to its report at a glance; --verbose prints `report`."""
    rows: str = ""
    """The attribute, or MODULE:FUNCTION, of the rows of CSV; by default the answer itself."""
    data: str = ""
    """The function from an answer to its JSON; by default the answer itself."""
    show: str = ""
    """The function that prints an answer in every form, given (answer, output, options), if `report` and `rows` do not.
    """
    picture: str = ""
    """The function that draws --plot, given (answer, kind)."""
    plotted: str = ""
    """The keyword of the question that is true if --plot is given."""
    progress: str = ""
    """The title of a bar, or "doing" for a line, if the question reports its progress."""
    activity: str = ""
    """The activity, said on standard error after a second, if the question reports no progress."""
    ranked: bool = False
    """Whether it runs in every rank of a job, and only the first reports mistakes."""
    status: Status = lambda answer: 0
    """The exit status by the answer."""


class Command(click.Command):
    """A command whose parameters are made when they are needed."""

    def __init__(self, name: str, row: Row, example: str = "") -> None:
        """Keep the row; nothing of it is imported."""
        super().__init__(
            name=name, help=row.help, callback=self._run, epilog=f"Example: podsim {example}",
            context_settings={"help_option_names": ["-h", "--help"], "allow_extra_args": True},
        )  # fmt: skip
        self.row = row
        self.example = example

    @property
    def options(self) -> dict[str, Option]:
        """All options by name: those of the question, then those of its output."""
        return {**options_of(self._group), **options_of(self._output)}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; words that have no meaning are an error that knows the likely command."""
        ctx.meta["podsim.words"] = [*ctx.command_path.split(), *args]
        if any(known.has_sign for known in self.options.values()):  # a blank, so that click sees no flag
            args = [f" {word}" if word[:1] == "-" and word[1:2].isdecimal() else word for word in args]
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise load("cli.guesses:stray_words")(ctx, self.options)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their groups."""
        sections: dict[str, list[tuple[str, str]]] = {}
        asked = options_of(self._group)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            known = asked.get(parameter.name or "")
            if record is not None and not isinstance(parameter, click.Argument):
                sections.setdefault(known.section if known else "Output", []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The parameters, from the declarations of the options."""
        if not self.params:
            self.params = [parameter(known) for known in self.options.values()]
        return super().get_params(ctx)

    @property
    def _group(self) -> Any:
        return load(f"options.{self.row.options}")

    @property
    def _output(self) -> Any:
        return load(f"options.{self.row.output}")

    def _run(self, **given: Any) -> None:
        status = guarded(
            lambda: self._answered(given), lambda error: unusable_text(error, self.options, given)
        )
        if status:
            raise click.exceptions.Exit(status)

    def _answered(self, given: Mapping[str, Any]) -> int:
        """Ask and print; the exit status."""
        row = self.row
        output = self._output(**_values(options_of(self._output), given))
        _one_format(output)
        options = _values(options_of(self._group), given)
        with first_rank_speaks() if row.ranked else nullcontext():
            if row.check:
                load(row.check)(output, options)
            answer = self._asked(options, output)
        _warn_of_hosts(options)
        if answer is None:  # another rank has the result
            return 0
        if row.picture and output.plot is not None:
            load("whole_files:write_whole")(
                output.plot, load(row.picture)(answer, output.plot.suffix.lower()[1:])
            )
        if row.show:
            load(row.show)(answer, output, options)
        elif row.report:
            data = load(row.data) if row.data else None
            is_brief = row.brief and not output.verbose and not options.get("detail")
            report = load(row.brief if is_brief else row.report)
            print_answer(answer, output, report, full=load(row.report), rows=_rows(row, answer), data=data)
        sys.stdout.flush()
        return row.status(answer)

    def _asked(self, options: Mapping[str, Any], output: Any) -> Any:
        """The answer to the question."""
        row = self.row
        if row.progress or row.activity or row.ranked or row.output.endswith("NoOutput"):
            return self._answer_of(options, output)
        with load("report.progress:waiting")(self.name):
            return self._answer_of(options, output)

    def _answer_of(self, options: Mapping[str, Any], output: Any) -> Any:
        """The answer of the question, or of the function that asks it."""
        row = self.row
        if row.ask:
            return load(row.ask)(options, output)
        if row.network and load("graphs.networks:is_captured")(options.get("model")):
            return load(row.network)(options)
        if options.get("plan"):
            options = _explicit(options)
        plotted = {row.plotted: output.plot is not None} if row.plotted else {}
        with _progress(row.progress) as progress, _activity(row.activity):
            return load(row.verb)(**options, **plotted, **progress)


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
    answer: Any,
    output: Any,
    report: Callable[[Any], Report],
    *,
    rows: Any = None,
    data: Callable[[Any], Any] | None = None,
    charts: Charts | None = None,
    full: Callable[[Any], Report] | None = None,
) -> None:
    """Print an answer as JSON (its `data`), as CSV (its `rows`), or as a report; write its page, if it is wanted.

    The page has the `full` report, where the terminal gets a shorter one.
    """
    if getattr(output, "html", None) is not None:
        load("cli.page_output:write_page")(answer, output.html, full or report, charts)
    if getattr(output, "json", False):
        sys.stdout.write(answer_json(answer, data(answer) if data else answer) + "\n")
    elif getattr(output, "csv", False):
        sys.stdout.write(load("report.plain_data:to_csv")(answer if rows is None else rows))
    else:
        load("report.screen:show")(report(answer))


def answer_json(answer: Any, shown: Any) -> str:
    """An answer as JSON: its own keys (or `rows`), and under `podsim` the version, the command and the units."""
    words = click.get_current_context().meta.get("podsim.words", [])
    head = {
        "version": __version__, "command": shlex.join(words), "units": load("report.json_units:units_of")(answer),
    }  # fmt: skip
    plain = load("report.plain_data:plain_value")(shown)
    rest = plain if isinstance(plain, dict) else {"rows": plain}
    return str(load("report.plain_data:to_json")({"podsim": head, **rest}))


def _rows(row: Row, answer: Any) -> Any:
    """What CSV shows of an answer."""
    if ":" in row.rows:
        return load(row.rows)(answer)
    return getattr(answer, row.rows) if row.rows else answer


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
