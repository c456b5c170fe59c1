"""`podsim scale batch`: the critical batch, and what other batches cost in steps, samples and learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from podsim.answers.batch_sizes import BatchAdvice, BatchRow, PublishedAccuracy
from podsim.answers.saved_run import read_trained
from podsim.errors import PodsimError, check_name, raise_all, unknown_name
from podsim.foreign_files import csv_table, finite, read_text
from podsim.learning.batch_critical import BatchLaw, fit_batch_law, published_rows
from podsim.learning.batch_noise import noise_of_run
from podsim.learning.batch_rules import RULE_OF, noisy_rate, scaled_rate
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question

_MOST = 1 << 20
_MOST_BATCHES = 64
_COLUMNS = {
    "batch": ("batch", "batch_size", "global_batch", "b"),
    "steps": ("steps", "step", "iterations", "s"),
}
_AROUND = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)


@dataclass(frozen=True, kw_only=True)
class BatchOptions:
    """A measured run, and the batches that are asked for."""

    source: str = option(
        "", "RUN.jsonl of `train --noise-scale --save`, a CSV of batch and steps, or a published table: zhang-85m.",
        argument=True,
    )  # fmt: skip
    critical: float | None = option(None, "Critical batch in samples, instead of a source.")
    batch: str = option("", "Batches, with commas: 64,256,1024; default around the critical one.")
    optimizer: str = option("adamw", "Whose rule is usual: adamw, sgd, lars or lamb.")
    rate: float | None = option(None, "Learning rate at --base-batch.")
    base_batch: int | None = option(None, "Batch that --rate is for; default the first one.")


class Measured(NamedTuple):
    """Steps at some batches."""

    name: str
    target: str
    batches: tuple[float, ...]
    steps: tuple[float, ...]
    roles: tuple[str, ...]


class Critical(NamedTuple):
    """A critical batch and its evidence."""

    source: str
    law: BatchLaw
    low: float | None
    high: float | None
    measured: Measured | None


@question(
    BatchOptions,
    output=PlotOutput,
)
def scale_batch(options: BatchOptions) -> BatchAdvice:
    """The critical batch of a run or a table, and steps, samples and learning rates of batches.

    A run of `train --noise-scale` gives the gradient noise scale, and relative steps; a table of steps by batch gives the
    law's constants. Published accuracies are repeated as they are: podsim predicts none.

    Raises PodsimError for a file that is neither, for too few batches, and for numbers that make no sense.
    """
    raise_all(list(_problems(options)))
    critical = _critical(options)
    batches = _batches(options, critical)
    base = options.base_batch or batches[0]
    rows = tuple(_row(batch, base, critical, options) for batch in batches)
    test = _errors(critical, "test")
    return BatchAdvice(
        source=critical.source, target=critical.measured.target if critical.measured else "",
        critical=critical.law.critical, low=critical.low, high=critical.high,
        error=critical.law.error if critical.measured else None,
        held_out=float(np.mean(test)) if test else None, optimizer=options.optimizer, rule=RULE_OF[options.optimizer],
        rows=rows, published=_published_accuracies(),
    )  # fmt: skip


def _problems(options: BatchOptions) -> Iterator[str]:
    if bool(options.source) == (options.critical is not None):
        names = ", ".join(dict.fromkeys(row.name for row in published_rows() if row.steps))
        yield f"give a source or --critical: RUN.jsonl of train --noise-scale, a CSV of batch and steps, or {names}"
    if options.critical is not None and not 0 < options.critical < 1e12:
        yield f"critical={options.critical:g}; a critical batch is a positive number of samples"
    if options.optimizer not in RULE_OF:
        yield unknown_name("optimizer", options.optimizer, RULE_OF)
    if options.rate is not None and not (0 < options.rate < 1e3):
        yield f"rate={options.rate:g}; a learning rate is above 0 and below 1,000"
    if options.base_batch is not None and options.base_batch < 1:
        yield f"base_batch={options.base_batch}; a batch has 1 sample or more"
    if options.base_batch is not None and options.rate is None:
        yield "base_batch is the batch of a learning rate: give rate, too"


def _critical(options: BatchOptions) -> Critical:
    """The critical batch of the source."""
    if options.critical is not None:
        law = BatchLaw(critical=options.critical, fewest_steps=1.0, error=0.0)
        return Critical("as given", law, None, None, None)
    path = Path(options.source)
    if path.suffix == ".jsonl":
        return _noise(path)
    measured = _read_table(path) if path.suffix == ".csv" else _published_steps(options.source)
    used = [index for index, role in enumerate(measured.roles) if role == "calibrate"]
    law = fit_batch_law(
        [measured.batches[index] for index in used], [measured.steps[index] for index in used]
    )
    if len(used) < 4:
        return Critical(measured.name, law, None, None, measured)
    others = [
        np.log(
            fit_batch_law(
                [measured.batches[index] for index in used if index != left],
                [measured.steps[index] for index in used if index != left],
            ).critical
        )
        for left in used
    ]
    error = math.sqrt((len(used) - 1) * float(np.var(others)))
    low, high = (law.critical * math.exp(sign * 1.282 * error) for sign in (-1, 1))
    return Critical(measured.name, law, low, high, measured)


def _noise(path: Path) -> Critical:
    """The gradient noise scale of a run of `train --noise-scale`."""
    run = read_trained(path)
    noise = noise_of_run(run)
    if noise is None:
        raise PodsimError(f"{path.name}: no gradient norms; run podsim train again with --noise-scale --save")
    law = BatchLaw(critical=noise.critical, fewest_steps=1.0, error=0.0)
    return Critical(f"gradient noise of {noise.steps} steps of {path.name}", law, noise.low, noise.high, None)


def _published_steps(name: str) -> Measured:
    """A published table by its name."""
    known = dict.fromkeys(row.name for row in published_rows() if row.steps)
    check_name("table of steps by batch", name, known)
    rows = [row for row in published_rows() if row.name == name]
    return Measured(
        f"{rows[0].study}, {rows[0].model}", rows[0].metric, tuple(float(row.batch) for row in rows),
        tuple(float(row.steps or 0) for row in rows), tuple(row.role for row in rows),
    )  # fmt: skip


def _read_table(path: Path) -> Measured:
    """A CSV with columns batch and steps. Raises PodsimError for a file that is none."""
    text = read_text(path, most=_MOST, error=PodsimError, hint="a table of batches is small", is_lenient=True)
    columns, rows = csv_table(text, name=path.name, error=PodsimError)
    heads = {head.lower(): head for head in columns}
    names = {
        kind: next((heads[word] for word in words if word in heads), None) for kind, words in _COLUMNS.items()
    }
    if missing := [kind for kind, head in names.items() if head is None]:
        raise PodsimError(f"{path.name}: no column {' and '.join(missing)}; its head must say batch,steps")
    pairs = [tuple(finite(row[str(names[kind])]) for kind in ("batch", "steps")) for row in rows]
    if wrong := [number for number, pair in enumerate(pairs, 1) if None in pair]:
        raise PodsimError(f"{path.name}: row {wrong[0]} holds no two numbers")
    batches, steps = zip(*pairs, strict=True) if pairs else ((), ())
    return Measured(path.name, "the table's target", batches, steps, ("calibrate",) * len(pairs))


def _batches(options: BatchOptions, critical: Critical) -> tuple[int, ...]:
    """The batches that are asked for, those of the table, or powers of 2 around the critical one."""
    if options.batch:
        words = options.batch.split(",")
        if len(words) > _MOST_BATCHES or not all(
            word.strip().isdecimal() and int(word) > 0 for word in words
        ):
            raise PodsimError(
                f"batch={options.batch[:60]}: up to {_MOST_BATCHES} whole numbers with commas: 64,256,1024"
            )
        return tuple(sorted({int(word) for word in words}))
    if critical.measured:
        return tuple(sorted({max(1, int(batch)) for batch in critical.measured.batches}))
    middle = 2 ** round(math.log2(max(1.0, critical.law.critical)))
    return tuple(dict.fromkeys(max(1, round(middle * factor)) for factor in _AROUND))


def _row(batch: int, base: int, critical: Critical, options: BatchOptions) -> BatchRow:
    """One batch."""
    law, measured = critical.law, critical.measured
    steps = law.steps(batch)
    samples = steps * batch if measured else 1 + batch / law.critical
    at = list(measured.batches).index(batch) if measured and batch in measured.batches else None
    rates = {
        rule: None if options.rate is None else scaled_rate(options.rate, base, batch, rule)
        for rule in ("linear", "sqrt")
    }
    return BatchRow(
        batch=batch, steps=steps, samples=samples, linear=rates["linear"], root=rates["sqrt"],
        usual=None
        if options.rate is None
        else noisy_rate(options.rate, base, batch, law.critical, RULE_OF[options.optimizer]),
        measured=measured.steps[at] if measured and at is not None else None,
        role=measured.roles[at] if measured and at is not None else "",
    )  # fmt: skip


def _errors(critical: Critical, role: str) -> list[float]:
    """Relative errors of the law on the rows of a role."""
    if not critical.measured:
        return []
    rows = zip(critical.measured.batches, critical.measured.steps, critical.measured.roles, strict=True)
    return [abs(critical.law.steps(batch) / steps - 1) for batch, steps, own in rows if own == role]


def _published_accuracies() -> tuple[PublishedAccuracy, ...]:
    names = ("study", "model", "optimizer", "batch", "metric", "value", "notes", "source")
    return tuple(
        PublishedAccuracy(**{name: asdict(row)[name] for name in names})
        for row in published_rows()
        if row.value is not None
    )
