"""Python functions of keywords, made from functions of a group of options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from podsim.options.option import Option, options_of

Group = TypeVar("Group")
Answer = TypeVar("Answer")
More = ParamSpec("More")


def question(
    group: type[Group],
) -> Callable[[Callable[Concatenate[Group, More], Answer]], Callable[..., Answer]]:
    """Make a function of a group of options one of their names, as `podsim.predict("gpt2", on="dgx-a100", tp=8)`.

    Its signature and its help show the options. Keywords that are not options, such as `progress`, stay as they are.
    """

    def made(answer: Callable[Concatenate[Group, More], Answer]) -> Callable[..., Answer]:
        options = options_of(group)
        shown = _signature(options, answer)

        @wraps(answer)
        def ask(*arguments: Any, **named: Any) -> Answer:
            try:
                given = shown.bind(*arguments, **named).arguments
            except TypeError as error:
                raise TypeError(f"{answer.__name__}(): {error}{_hint(named, shown)}") from None
            said = {name: value for name, value in given.items() if name in options}
            return answer(
                group(**said), **{name: value for name, value in given.items() if name not in options}
            )  # type: ignore[call-arg]

        ask.__signature__ = shown  # type: ignore[attr-defined]
        ask.__doc__ = _document(answer, options)
        return ask

    return made


def _signature(options: dict[str, Option], answer: Callable[..., Any]) -> Signature:
    _, *more = signature(answer).parameters.values()
    parameters = [_parameter(each) for each in options.values()] + more
    parameters.sort(
        key=lambda each: (
            each.kind,
            each.kind is Parameter.POSITIONAL_OR_KEYWORD and each.default is not Parameter.empty,
        )
    )
    return Signature(parameters, return_annotation=signature(answer).return_annotation)


def _parameter(known: Option) -> Parameter:
    return Parameter(
        known.name, Parameter.POSITIONAL_OR_KEYWORD if known.argument else Parameter.KEYWORD_ONLY,
        default=Parameter.empty if known.default is MISSING else known.default, annotation=known.annotation,
    )  # fmt: skip


def _hint(named: dict[str, Any], shown: Signature) -> str:
    """The closest names to a keyword that does not exist."""
    from difflib import get_close_matches

    wrong = next((name for name in named if name not in shown.parameters), "")
    close = get_close_matches(wrong, shown.parameters) if wrong else []
    return f"; did you mean {', '.join(close)}?" if close else ""


def _document(answer: Callable[..., Any], options: dict[str, Option]) -> str:
    """The docstring, with a line for each option."""
    width = max(map(len, options), default=0)
    lines = [f"{name:{width}}  {known.help}" for name, known in options.items()]
    return "\n".join([cleandoc(answer.__doc__ or ""), *(["", "Options:", ""] if lines else []), *lines])
