"""`podsim scale ladder`: GPTs of several sizes trained for real, a law fitted to the small, the largest foretold."""

from __future__ import annotations

import os
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from podsim.answers.saved_run import read_trained
from podsim.answers.scaling_answers import CheckedLoss, ScaleLadder
from podsim.answers.trained import MeasuredTraining
from podsim.errors import LabError, PodsimError, raise_all
from podsim.lab.ranks import started_rank
from podsim.lab.training.trained_run import trained_run
from podsim.learning.loss_catalog import write_law
from podsim.learning.loss_choice import score
from podsim.learning.loss_fit import fit_law
from podsim.learning.loss_law import LossLaw
from podsim.learning.loss_runs import Runs
from podsim.options.measure_options import RanksOptions, TrainOptions
from podsim.options.output_options import PlotOutput
from podsim.options.question import Progress, like, no_progress, option, question
from podsim.options.scale_options import ScaleFitOptions
from podsim.whole_files import write_whole
from podsim.workload.catalog import load_model

_MODEL = "gpt-tiny"
_VOCABULARY = 256
_HEAD = 16
"""The width of a head; widths are multiples of it."""
_TEXT = 24_000_000
_READS = (0.3, 0.4, 0.55, 0.75, 1.0)
_WINDOW = 0.85
"""share. The parts of a run at which its loss is read, and where the window of the mean begins, relative to each."""
_BOOTSTRAPS = 100


@dataclass(frozen=True, kw_only=True)
class ScaleLadderOptions:
    """Tiny networks that are trained for real."""

    folder: Path = option(
        Path("ladder"), "Folder of the runs; finished ones are not repeated.", argument=True
    )
    widths: str = option(
        "16,32,48,64,96", "Widths of the networks, multiples of 16; the largest is held out."
    )
    steps: int = option(400, "Steps of each.")
    batch: int = option(32, "Sequences of a step.")
    sequence: int = option(128, "Tokens (bytes) of a sequence.")
    rate: float = option(4e-3, "Learning rate at width 32; others by the inverse root of their width.")
    data: str = option("python", "Text file that is learnt; python: the source of this Python's library.")
    seed: int = option(0, "Seed of the first weights and of the data.")
    backend: str = like(RanksOptions, "backend")
    save: Path | None = like(ScaleFitOptions, "save")


@dataclass(frozen=True, kw_only=True)
class _Rung:
    """One network of the ladder."""

    width: int
    layers: int
    rate: float
    """factor. The learning rate."""

    @property
    def overrides(self) -> dict[str, str]:
        """The changes of the model that make it."""
        fields = {
            "layers": self.layers, "hidden": self.width, "heads": self.width // _HEAD, "kv_heads": self.width // _HEAD,
            "head_dim": _HEAD, "ffn": 4 * self.width, "vocab": _VOCABULARY, "dropout": "false",
        }  # fmt: skip
        return {f"model.{name}": str(value) for name, value in fields.items()}


@question(
    ScaleLadderOptions,
    output=PlotOutput,
    progress="training",
)
def scale_ladder(options: ScaleLadderOptions, *, progress: Progress = no_progress) -> ScaleLadder:
    """Losses of tiny GPTs of several widths on the same text, a law of all but the largest, and its error on that one.

    The law that foretells the largest is written into the folder before that one trains.

    The learning rate stays constant after its warm-up, so that one run tells losses after several numbers of tokens.
    Finished runs are kept in the folder and read again; a run that was interrupted starts over. `progress` is called
    with (steps done, steps) of all runs together. Raises PodsimError for what makes no sense, and LabError for a run
    that broke off or where PyTorch is not installed.
    """
    save = None if options.save is None else Path(options.save)
    options = replace(options, folder=Path(options.folder), save=save)
    rungs = _rungs(options)
    text = _text(options)
    every = len(rungs) * options.steps
    runs: list[MeasuredTraining] = []
    law = None
    for number, rung in enumerate(rungs):
        before = number * options.steps
        if rung is rungs[-1]:
            law = _foretold_law(options, rungs, runs)

        def report(done: int, steps: int, before: int = before) -> None:
            progress(before + done, every)

        runs.append(_run(options, rung, text, report))
        progress(before + options.steps, every)
    assert law is not None
    return _answer(options, rungs, runs, text, law)


def _rungs(options: ScaleLadderOptions) -> list[_Rung]:
    """The networks, smallest first. Raises PodsimError with all that is wrong."""
    try:
        widths = sorted({int(text) for text in options.widths.split(",")})
    except ValueError:
        raise PodsimError(
            f"widths={options.widths[:60]!r}: expected numbers with commas, e.g. 16,32,48,64"
        ) from None
    known = range(_HEAD, 1025, _HEAD)
    wrong = [f"widths={width}: a multiple of {_HEAD} up to 1024" for width in widths if width not in known]
    if len(widths) < 4:
        wrong.append(
            f"widths={options.widths[:60]}: four or more; the largest is held out, and a law needs three sizes"
        )
    for name, least, most in (
        ("steps", 20, 1_000_000),
        ("batch", 1, 4096),
        ("sequence", 16, 4096),
        ("rate", 1e-6, 1),
    ):
        value = getattr(options, name)
        if not least <= value <= most:
            wrong.append(f"{name}={value}: between {least:g} and {most:g}")
    if options.save is not None and options.save.suffix != ".json":
        wrong.append(f"save={str(options.save)[-60:]}: give a name that ends in .json")
    if started_rank(os.environ) is not None:
        wrong.append("a ladder trains one network after the other on this machine; start it without torchrun")
    raise_all(wrong)
    return [
        _Rung(width=width, layers=2 + width // 32, rate=options.rate * (32 / width) ** 0.5)
        for width in widths
    ]


def _text(options: ScaleLadderOptions) -> Path:
    """The text that is learnt: the user's, or the source of this Python's library, written into the folder once."""
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        if options.data != "python":
            return Path(options.data)
        path = options.folder / "python.txt"
        if not path.exists():
            files = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
            parts = (file.read_bytes() for file in files if "site-packages" not in file.parts)
            write_whole(path, b"\n".join(parts)[:_TEXT])
    except OSError as problem:
        raise LabError(f"{options.folder}: cannot be written: {problem.strerror or problem}") from None
    return path


def _run(options: ScaleLadderOptions, rung: _Rung, text: Path, progress: Progress) -> MeasuredTraining:
    """The losses of one network: those of its file, or of a run now."""
    path = options.folder / f"width-{rung.width}.jsonl"
    if path.exists():
        kept = read_trained(path)
        same = (options.steps, options.seed, text.name, rung.overrides, options.sequence)
        if (len(kept.rows), kept.seed, Path(kept.data).name, dict(kept.changes), kept.sequence) == same and (
            abs(kept.rate / rung.rate - 1) < 1e-9 and kept.plan.get("global_batch") == options.batch
        ):
            return kept
    ladder_run = TrainOptions(
        model=_MODEL, overrides=rung.overrides, ranks=1, batch=options.batch, sequence=options.sequence,
        steps=options.steps, warmup=max(1, options.steps // 20), rate=rung.rate, seed=options.seed, data=str(text),
        backend=options.backend, timeout=600.0, save=path,
    )  # fmt: skip
    run = trained_run(ladder_run, progress=progress)
    assert isinstance(run, MeasuredTraining)
    return run


def _read_runs(options: ScaleLadderOptions, rungs: list[_Rung], runs: list[MeasuredTraining]) -> Runs:
    """Parameters, tokens and loss at several moments of the runs that are there."""
    changes = [{**rung.overrides, "sequence": str(options.sequence)} for rung in rungs]
    sizes = [float(load_model(_MODEL, changed).parameters) for changed in changes]
    points = [(size, *read) for size, run in zip(sizes, runs, strict=False) for read in _reads(options, run)]
    sizes_read, tokens, losses = np.array(points).T
    return Runs(parameters=sizes_read, tokens=tokens, loss=losses)


def _foretold_law(options: ScaleLadderOptions, rungs: list[_Rung], runs: list[MeasuredTraining]) -> LossLaw:
    """The law of all but the largest network, which is written into the folder before that one trains."""
    law = fit_law(_read_runs(options, rungs, runs), name="ladder", bootstraps=_BOOTSTRAPS)
    try:
        for path in (options.folder / "law.json", options.save):
            if path is not None:
                write_law(path, law)
    except OSError as problem:
        raise LabError(f"{options.folder}: cannot be written: {problem.strerror or problem}") from None
    return law


def _answer(
    options: ScaleLadderOptions, rungs: list[_Rung], runs: list[MeasuredTraining], text: Path, law: LossLaw
) -> ScaleLadder:
    """What the law of all but the largest network foretold, and what came."""
    every = _read_runs(options, rungs, runs)
    is_largest = every.parameters == every.parameters.max()
    band = law.band(every.parameters, every.tokens)
    points = zip(every.parameters.tolist(), every.tokens.tolist(), every.loss.tolist(), strict=True)
    return ScaleLadder(
        law=law, data=text.name, steps=options.steps, held_out=score(law, every.where(is_largest)),
        seconds=sum(row.seconds for run in runs for row in run.rows),
        rows=tuple(
            CheckedLoss(
                parameters=size, tokens=tokens, loss=loss, predicted=float(middle), low=float(low), high=float(high),
                use="foretold" if largest else "fitted",
            )
            for (size, tokens, loss), low, middle, high, largest in zip(points, *band, is_largest, strict=True)
        ),
    )  # fmt: skip


def _reads(options: ScaleLadderOptions, run: MeasuredTraining) -> list[tuple[float, float]]:
    """(tokens, mean loss around them) at several moments of a run; each batch is drawn from a far longer text."""
    step_tokens = float(options.batch * options.sequence)
    reads = []
    for share in _READS:
        end = round(share * options.steps)
        begin = min(end - 1, round(_WINDOW * end))
        losses = [row.loss for row in run.rows[begin:end] if row.loss is not None]
        reads.append((step_tokens * (begin + end) / 2, float(np.mean(losses))))
    return reads
