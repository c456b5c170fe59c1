"""How options are read that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.report.screen import Report

OF_A_PREDICTION = ("detail", "tokens", "price", "pue", "carbon")
"""options of `predict` that say what is told of a plan, not what the plan is"""


def also_taking(
    command: Callable[..., None], other: Callable[..., None], without: Iterable[str] = ()
) -> Callable[..., None]:
    """The command, with the options of another one in place of its `**options`."""
    own, theirs = signature(command).parameters, signature(other).parameters
    fixed = [p for p in own.values() if p.kind is not Parameter.VAR_KEYWORD]
    taken = [p for name, p in theirs.items() if name not in own and name not in set(without)]
    hints = get_type_hints(other, include_extras=True) | get_type_hints(command, include_extras=True)

    def run(*arguments: Any, **named: Any) -> None:
        command(*arguments, **named)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {p.name: hints[p.name] for p in (*fixed, *taken)}
    parameters = [p.replace(annotation=hints[p.name]) for p in (*fixed, *taken)]
    run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """Keys and values of a repeatable option."""
    found: dict[str, str] = {}
    for pair in given or []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key or not value:
            raise PodsimError(f"{option} {pair[:80]!r}: expected key=value, such as {example}")
        if key in found:
            raise PodsimError(f"{option} {key[:80]} is given twice: {found[key][:80]} and {value[:80]}")
        found[key] = value
    return found


def throttled(given: list[str] | None, who: str, example: str) -> dict[int, tuple[float, float]]:
    """Numbers of `who`, factors and times (s) of --throttle."""
    from podsim.units import parse_quantity

    found = {}
    for number, text in pairs(given, "--throttle", example).items():
        factor, at, tau = text.partition("@")
        if not at:
            raise PodsimError(
                f"--throttle {number[:40]}={text[:40]}: expected FACTOR@TIME, such as {example}"
            )
        if not number.isdecimal():
            raise PodsimError(f"--throttle {number[:40]}: a {who} is a number, such as {example}")
        pair = parse_quantity(factor, what="--throttle"), parse_quantity(tau, "s", what="--throttle")
        found[int(number)] = pair
    return found


def overrides(given: list[str] | None) -> dict[str, str]:
    """Keys and values of --set."""
    return pairs(given, "--set", "gpu.memory=64GB")


def drawable(path: Path | None, option: str, kinds: tuple[str, ...] = (".svg", ".png")) -> None:
    """Raise PodsimError for a picture's name that does not say how it is to be drawn."""
    if path is not None and path.suffix.lower() not in kinds:
        given = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
        raise PodsimError(f"{option} {str(path)[-80:]}: give a name that ends in {given}")


def one_format(json: bool, csv: bool) -> None:
    """Raise PodsimError for two formats at once."""
    if json and csv:
        raise PodsimError("--json and --csv: choose one")


def print_result(
    value: Any, report: Callable[[Any], Report], *, json: bool, csv: bool, rows: Any = None
) -> None:
    """Print a result as JSON, as CSV (its `rows`, where they are not the result itself), or as a report.

    Raises PodsimError for two formats at once.
    """
    from podsim.report.data import to_csv, to_json
    from podsim.report.screen import show

    one_format(json, csv)
    if json:
        sys.stdout.write(to_json(value) + "\n")
    elif csv:
        sys.stdout.write(to_csv(value if rows is None else rows))
    else:
        show(report(value))
