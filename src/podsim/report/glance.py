"""A prediction at a glance, in at most fifteen lines of 80 columns: the plan, its step, its run, and what bounds it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from textwrap import wrap

from podsim.answers.answer import Answer, call
from podsim.answers.prediction import PlanResult, Prediction, Ranked, StageMemory
from podsim.report.columns import Column, Table, energy_text, mass_text
from podsim.report.predictions import cluster_name, runs_words, shared_choices
from podsim.report.screen import Block, Line, Paragraph, Rows, bold, dim
from podsim.units import duration, format_quantity

_DAY = 86400.0
_LABEL = 9
_BAR = 6
_JOB_FLAGS = ("--on", "--gpus", "--batch", "--sequence", "--set")
_WARNING_LINES = 2
"""lines that warnings take at most, together"""
_STAGES = 3
"""classes of stages whose memory is drawn"""


def prediction_glance(prediction: Prediction) -> Iterator[Block]:
    """One plan at a glance."""
    yield _title(prediction.model, prediction.gpus, prediction.cluster, prediction.notes)
    yield from _answer(prediction)


def plans_glance(result: Answer) -> Iterator[Block]:
    """The best plan at a glance, and the others in a table; or the runs of a benchmark."""
    if not isinstance(result, PlanResult):
        yield from call(result.view.report, result)
        return
    best = result.ranked[0].prediction
    title = _title(result.model, result.gpus, result.cluster, result.notes)
    yield bold(f"{title.text}; best on {best.gpus:,}") if best.gpus != result.gpus else title
    yield from _answer(best, result.notes)
    if len(result.ranked) > 1:
        yield ""
        has_sizes = len({ranked.prediction.gpus for ranked in result.ranked}) > 1
        yield Rows(_OTHERS, [_Other(result.ranked[0], ranked, has_sizes) for ranked in result.ranked])
    if result.optimism:
        yield Paragraph(f"{result.optimism.basis}.")
    partly = "" if result.complete else " (interrupted: the best so far)"
    yield dim(
        f"{result.evaluated:,} plans in {result.seconds:.1f} s{partly}, {result.fitting:,} fit. -v says why"
    )


class _Other:
    """A ranked plan next to the best one."""

    def __init__(self, best: Ranked, ranked: Ranked, has_sizes: bool) -> None:
        self.ranked, self.prediction = ranked, ranked.prediction
        self.slower = ranked.prediction.step_time / best.prediction.step_time - 1.0
        self.layout = short_layout(ranked.prediction.plan) + ", tight" * ranked.is_tight
        expense = ranked.prediction.expense
        self.cost = expense.low if expense is not None and expense.offer is not None else None
        self.days = ranked.prediction.training.expected if ranked.prediction.training else None
        self.gpus = ranked.prediction.gpus if has_sizes else None


_OTHERS = Table(
    Column("", "ranked.rank", ":d"),
    Column("step", "prediction.step_time", "s"),
    Column("GPUs", "gpus", ":,", optional=True),
    Column("", "slower", lambda share: f"{share:+.1%}" if share else "", drop=3),
    Column("simulated", "ranked.simulated", "s", optional=True),
    Column("MFU", "prediction.mfu", ":.1%", drop=2),
    Column("memory", "prediction.memory", lambda size: f"{size / 1e9:.1f} GB"),
    Column("days", "days", lambda seconds: f"{seconds / _DAY:,.4g}", optional=True, drop=4),
    Column("USD", "cost", lambda cost: short_money(cost, cost), optional=True, drop=1),
    Column("layout", "layout", wrap=True),
    indent=0,
)


def _title(model: str, gpus: int, cluster: str, notes: Sequence[str]) -> Paragraph:
    """The job, with what its cluster's name stands for."""
    resolved = next((note for note in notes if f" {gpus:,} " in note.replace("(", " ") and " x " in note), "")
    return bold(f"{model} on {resolved or f'{gpus:,} GPUs of {cluster_name(cluster, gpus)}'}")


def _answer(prediction: Prediction, notes: Sequence[str] = ()) -> Iterator[Block]:
    """The lines below the title; warnings first."""
    yield _Warnings(prediction.warnings)
    yield _line("Layout", layout_words(prediction.plan))
    if prediction.command:
        yield _Typed(prediction.command)
    titles = {" days": "GPUs", "unlike published": "Doubt"}
    yield from (_line(titles[word], note) for note in notes for word in titles if word in note)
    yield _line("Step", _step(prediction), "bold")
    if prediction.unchanged_time is not None:
        change = prediction.step_time / prediction.unchanged_time - 1.0
        words = f"{abs(change):.1%} {'slower' if change > 0 else 'faster'} than" if change else "the same as"
        yield _line("Change", f"{words} the {prediction.unchanged_time:.4g} s of this plan without --set")
    if prediction.own_runs is not None:
        yield _line("Runs", runs_words(prediction.own_runs))
    yield _line("Batch", _batch(prediction, (*notes, *prediction.notes)))
    yield _line(
        "Speed",
        f"{prediction.tokens_per_second:,.0f} tokens/s; MFU {prediction.mfu_6pd:.1%} "
        f"({prediction.parameter_flops:.3g} x parameters), {prediction.mfu:.1%} with attention",
    )
    yield _memory(prediction)
    if prediction.dropped is not None:
        yield _line("Experts", f"{prediction.dropped:.2%} of routed tokens find no room and are dropped")
    yield from _run(prediction)
    yield _line("Limit", f"{prediction.bottleneck.partition(': ')[0]}. More: -v, --detail")
    if not prediction.fits and prediction.command:
        yield _Typed(_search(prediction.command), "Instead")


def _line(label: str, text: str, style: str = "") -> Paragraph:
    return Paragraph(text, style, indent=" " * _LABEL, first=label.ljust(_LABEL))


class _Warnings:
    """Warnings in two lines: the beginnings of the first ones, and how many more there are."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    def __call__(self, width: int) -> Iterator[Line]:
        """The lines on a terminal of some columns."""
        shown = self.texts[:_WARNING_LINES]
        for text in shown:
            more = len(self.texts) - len(shown) if text is shown[-1] else 0
            end = f" (and {more} more: -v)" if more else ""
            lines = wrap(
                f"Warning: {text}", width - len(end), max_lines=_WARNING_LINES // len(shown), placeholder=" … (-v)"
            )  # fmt: skip
            yield from ((((line + (end if line is lines[-1] else "")), "warning"),) for line in lines)


class _Typed:
    """A command to type; its lines end as a shell wants it."""

    def __init__(self, command: str, label: str = "Type") -> None:
        self.words, self.label = shlex.split(command), label

    def __call__(self, width: int) -> Iterator[Line]:
        """The lines on a terminal of some columns."""
        lines, line = [], self.label.ljust(_LABEL)
        start = line
        for word in _pairs(self.words):
            if line != start and len(line) + len(word) + 3 > width:
                lines.append(f"{line}\\")
                line = start = " " * _LABEL
            line += f"{word} "
        lines.append(line.rstrip())
        return (((text, ""),) for text in lines)


def _pairs(words: Sequence[str]) -> Iterator[str]:
    """Quoted words, an option with its value."""
    flag = ""
    for word in map(shlex.quote, words):
        if word.startswith("--"):
            if flag:
                yield flag
            flag = word
        else:
            yield f"{flag} {word}".strip()
            flag = ""
    if flag:
        yield flag


def _search(command: str) -> str:
    """The command that finds plans of the job that a command predicts."""
    kept, words = ["podsim", "plan"], shlex.split(command)[2:]
    for before, word in zip(["", *words], words, strict=False):
        if not word.startswith("--") and before in _JOB_FLAGS:
            kept += [before, word]
        elif not word.startswith("--") and not before.startswith("--"):
            kept.append(word)
    return shlex.join(kept)


def layout_words(plan: Mapping[str, object]) -> str:
    """How a plan divides a model, in words: "8 replicas x 4 stages x 2-way tensor; micro-batch 1, 1f1b, ZeRO-1"."""
    kinds = (("dp", "replicas"), ("pp", "stages"), ("cp", "-way context"), ("tp", "-way tensor"))
    degrees = [
        f"{plan[name]}{'' if word.startswith('-') else ' '}{word}" for name, word in kinds if plan[name] != 1
    ]
    if plan["ep"] != 1:
        degrees.append(f"experts over {plan['ep']}")
    return f"{' x '.join(degrees) or 'one GPU'}; {', '.join(_choices(plan))}"


def short_layout(plan: Mapping[str, object]) -> str:
    """The same in the letters of the field: "tp=2 pp=4 dp=8 mb=1 ZeRO-1"."""
    degrees = [f"{name}={plan[name]}" for name in ("tp", "pp", "dp", "cp", "ep") if plan[name] != 1]
    zero = [f"ZeRO-{plan['zero']}"] if plan["zero"] else []
    again = {"none": [], "selective": ["selective"], "full": ["full recompute"]}[str(plan["recompute"])]
    return " ".join([*degrees, f"mb={plan['micro_batch']}", *zero, *again])


def _choices(plan: Mapping[str, object]) -> list[str]:
    """The other choices of a plan that are not the usual ones."""
    words = [f"micro-batch {plan['micro_batch']}", *shared_choices(plan)]
    some = f" of {plan['recompute_layers']} layers" if plan["recompute_layers"] else ""
    again = [] if plan["recompute"] == "none" else [f"{plan['recompute']} recomputation{some}"]
    return [*words, *again, str(plan["precision"]), *([] if plan["flash"] else ["unfused attention"])]


def _step(prediction: Prediction) -> str:
    text = format_quantity(prediction.step_time, "s")
    if (band := prediction.band) is None:
        return f"{text} (no error band)"
    low, high = (format_quantity(prediction.step_time * (1 + share), "s") for share in (band.low, band.high))
    return f"{text}, {low} to {high} ({band.low:+.0%} to {band.high:+.0%})"


def _batch(prediction: Prediction, notes: Sequence[str]) -> str:
    """The batch of a step, and which of its figures were not given."""
    plan = prediction.plan
    sequence = round(prediction.tokens_per_second / prediction.samples_per_second)
    open_ones = [
        name
        for name, is_open in (
            ("batch", any("default: about" in text for text in prediction.assumptions)),
            ("sequence", any(note.startswith("sequence ") for note in notes)),
        )
        if is_open
    ]
    default = f" (default {' and '.join(open_ones)})" if open_ones else ""
    return f"{plan['global_batch']:,} sequences of {sequence:,} tokens{default}"


def _memory(prediction: Prediction) -> Paragraph:
    """The memory of the fullest stage against the limit, and a bar for each class of stages."""
    room = prediction.memory_limit
    verdict = "fits" if prediction.fits else "DOES NOT FIT"
    stages = prediction.stages
    if len(stages) > _STAGES:
        fullest = max(stages, key=lambda stage: stage.total)
        firsts = {stage.first for stage in (stages[0], fullest, stages[-1])}
        stages = tuple(stage for stage in stages if stage.first in firsts)
    bars = [_stage_text(stage, _bar(stage.total / room), len(prediction.stages)) for stage in stages]
    text = f"{prediction.memory / 1e9:.1f} of {room / 1e9:.1f} GB: {verdict} {', '.join(bars)}"
    return _line("Memory", text, "good" if prediction.fits else "alarm")


def _bar(share: float) -> str:
    full = min(_BAR, round(share * _BAR))
    return "▇" * full + "▁" * (_BAR - full) + ("!" if share > 1 else "")


def _stage_text(stage: StageMemory, bar: str, classes: int) -> str:
    """A bar with the stages that it stands for, unless these are all."""
    if classes == 1:
        return bar
    last = stage.first + stage.count - 1
    return f"{stage.first}{'' if stage.count == 1 else f'-{last}'} {bar} {stage.total / 1e9:.1f}"


def _time(seconds: float) -> str:
    """A time in days, or below two in a smaller unit."""
    count = seconds / _DAY
    return f"{count:,.1f} days" if count >= 10 else f"{count:.3g} days" if count >= 2 else duration(seconds)


def short_money(low: float, high: float) -> str:
    """An amount or a range with three digits: "268 k", "1.5 M to 2.51 M"."""
    ends = [format_quantity(amount, "", digits=3) for amount in (low, high)]
    return ends[0] if low == high else " to ".join(ends)


def _run(prediction: Prediction) -> Iterator[Block]:
    """Days, money and energy of the whole run, with failures."""
    run, expense = prediction.training, prediction.expense
    if run is None:
        yield from (_line("Days", note) for note in prediction.notes if note.startswith("fine-tuning has no"))
        return
    notes = [note for note in prediction.notes if " a parameter " in note]
    deadline = [note.partition(":")[0] for note in prediction.notes if "-day deadline" in note]
    amount = f"{format_quantity(run.tokens, '', digits=3)} tokens" + (" (20 a parameter)" if notes else "")
    until = "".join(f"; {text}" for text in deadline)
    without = _time(run.seconds).removesuffix(" days") if run.expected >= 2 * _DAY else _time(run.seconds)
    counted = f" with failures, {without} without" if isfinite(run.mtbf) else "; failures are not known"
    yield _line("Days", f"{_time(run.expected)}{counted}; {amount}{until}", "bold")
    if expense is None:
        return
    part = run.expected / expense.duration  # 1, or the steps of a run where the expense is that of a step
    energy = f"{energy_text(expense.energy * part)}, {mass_text(expense.carbon * part)} CO2"
    if (offer := expense.offer) is not None:
        cost = short_money(expense.low * part, expense.high * part)
        yield _line("Money", f"{cost} USD; {offer.words}")
    elif part == 1:
        yield _line("Money", "no price of this GPU is known: --price 2.10 (USD per GPU-hour)")
    yield _line("Energy", f"{energy}; {format_quantity(expense.power, 'W')} mean draw of the machine")
