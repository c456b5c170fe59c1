"""ResNet-50 on 1 to N ranks, first and later epochs, against what is predicted for the expected machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from podsim.acceptance.thresholds import THRESHOLDS, Figure, check, threshold_of
from podsim.answers.acceptance import Check, Curve
from podsim.lab.disk import scratch
from podsim.lab.ranks import Task, run_here
from podsim.lab.resnet import RECORD, Training, train_resnet, write_records

Note = Callable[[str], None]


class Images(NamedTuple):
    """What ResNet-50 did."""

    rates: dict[int, tuple[float, ...]]
    """1/s. The images by rank and epoch."""
    image: int
    batch: int
    device: str


def counts_of(ranks: int) -> tuple[int, ...]:
    """1, 2, 4, … and the last."""
    powers = [1 << power for power in range(ranks.bit_length()) if 1 << power < ranks]
    return (*powers, ranks)


def measure_images(folder: Path, ranks: int, *, gpu: bool, note: Note, alone: bool = False) -> Images:
    """Images a second on 1, 2, … ranks, or on all of them alone.

    Without GPUs images and batch are small, so that a step ends in a second.
    """
    image, batch, steps = (224, 208, 12) if gpu else (32, 4, 6)
    rates: dict[int, tuple[float, ...]] = {}
    with scratch(folder, RECORD * batch * steps * ranks) as own:
        for count in (ranks,) if alone else counts_of(ranks):
            note(f"ResNet-50 on {count} rank{'s' * (count > 1)}")
            path = own / f"records-{count}"
            write_records(path, count * batch * steps)
            training = Training(records=path, image=image, batch=batch, steps=steps, epochs=3)

            def work(wires: Any, said: Any, training: Training = training) -> Any:
                return train_resnet(training, wires, said)

            result = run_here(Task(work=work, nodes=count, timeout=300.0, backend="auto" if gpu else "gloo"))
            rates[count] = tuple(float(rate) for rate in result["rates"])
            path.unlink()
    return Images(rates, image, batch, "GPU" if gpu else "CPU")


def training_checks(
    images: Images, expected: float | None, basis: str, *, same: bool
) -> tuple[list[Check], list[Curve]]:
    """Later epochs on all ranks against what is expected, the first epoch against later ones, and the curves.

    expected: images a second of all ranks, None where nothing is known, and `basis`, what says so. same: it was measured
    on this machine before.
    """
    ranks = max(images.rates)
    rates = images.rates[ranks]
    later = {count: statistics.fmean(epochs[1:]) for count, epochs in images.rates.items()}
    how = f"PyTorch, {ranks} ranks, {images.batch} images of {images.image} x {images.image} each, on {images.device}"
    why = (
        ""
        if images.image == 224
        else "images are small, as there is no GPU: of 224 x 224 there would be even fewer"
    )
    all_ranks = Figure(group="training", name=f"ResNet-50, {ranks} ranks", unit="1/s", basis=basis, how=how)
    first = Figure(
        group="training", name="ResNet-50, first epoch", unit="1/s", basis="its own later epochs",
        how=f"{how}; records read from the folder",
    )  # fmt: skip
    checks = [
        check(
            all_ranks, threshold_of("training", same=same), measured=later[ranks], expected=expected, why=why
        ),
        check(first, THRESHOLDS["first epoch"], measured=rates[0], expected=later[ranks]),
    ]
    curves = [
        Curve(
            name="ResNet-50, images a second over ranks", over="ranks", over_unit="", unit="1/s",
            measured=tuple((float(count), rate) for count, rate in later.items()),
            expected=() if same or expected is None else tuple((float(n), expected * n / ranks) for n in later),
        ),
        Curve(
            name=f"ResNet-50, images a second by epoch, {ranks} ranks", over="epoch", over_unit="", unit="1/s",
            measured=tuple((float(epoch), rate) for epoch, rate in enumerate(rates)),
        ),
    ]  # fmt: skip
    return checks, curves
