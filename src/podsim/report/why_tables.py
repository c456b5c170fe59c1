"""Why a run is as slow as it is: a chain of causes in at most twenty lines of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.telemetry import Contention, Explained, Fault
from podsim.report.screen import Block, Paragraph, bold
from podsim.units import format_quantity

_FAULTS, _WINDOWS = 3, 2
_KINDS = {
    "adapter": "adapter", "nvlink": "NVLink", "pcie": "PCIe link", "socket": "link between sockets", "leaf": "cable",
    "spine": "cable", "storage": "storage", "torus": "link",
}  # fmt: skip


def why_report(answer: Explained) -> Iterator[Block]:
    """The faults, the windows in which traffic met, and what each costs."""
    times = f"{_seconds(answer.step_time)} a step" if answer.step_time else ""
    healthy = f", {_seconds(answer.healthy)} without faults (simulated)" if answer.healthy is not None else ""
    yield bold(f"{answer.job}, {answer.source}{': ' * bool(times)}{times}{healthy if times else ''}")
    if not answer.faults:
        yield "No fault: ports and ranks are as their peers are, and cables as planned."
    for fault in answer.faults[:_FAULTS]:
        yield Paragraph(_fault_text(fault, answer.step_time))
    if len(answer.faults) > _FAULTS:
        rest = ", ".join(f"{fault.kind} {fault.port}" for fault in answer.faults[_FAULTS : _FAULTS + 4])
        yield Paragraph(f"And {len(answer.faults) - _FAULTS} more: {rest}")
    for window in answer.contention[:_WINDOWS]:
        yield Paragraph(_window_text(window, answer.step_time))
    yield from (Paragraph(note) for note in answer.notes)


def _seconds(value: float) -> str:
    return format_quantity(value, "s")


def _cost(cost: float | None, step: float) -> str:
    """What something costs a step, as a clause."""
    if cost is None:
        return ""
    if cost < 1e-3 * step:
        return "it costs the step nothing"
    return f"it costs {_seconds(cost)} of the step ({100 * cost / step:.1f} %)" if step else ""


def _fault_text(fault: Fault, step: float) -> str:
    """A fault as a sentence."""
    plural = "s" * (not fault.ranks.isdigit())
    ranks = "" if fault.port.startswith("rank ") or not fault.ranks else f" (rank{plural} {fault.ranks})"
    ends = f"{fault.remedy} would end it" if fault.remedy else ""
    chain = "; ".join(part for part in (fault.evidence, _cost(fault.cost, step), ends) if part)
    return f"{fault.kind[:1].upper()}{fault.kind[1:]}, {fault.port}{ranks}: {chain}."


def _window_text(window: Contention, step: float) -> str:
    """A meeting of owners on a port as a sentence."""
    full = f", {100 * window.utilisation:.0f} % full" if window.utilisation else ""
    when = f"from {_seconds(window.start)} to {_seconds(window.end)}{full}"
    if not window.owners:
        return f"{window.port} is busiest {when}."
    first, *others = window.owners
    verb = f"meet {' and '.join(others[:2])} on" if others else "use"
    text = (
        f"{first[:1].upper()}{first[1:]} {verb} {_KINDS.get(window.kind, window.kind)} {window.port} {when}"
    )
    since = f", since {window.reason}" if window.reason else ""
    chain = "; ".join(part for part in (text + since, _cost(window.cost, step), window.remedy) if part)
    return f"{chain}."
