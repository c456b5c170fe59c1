"""Small networks trained with small and large batches to one training loss: how they generalise, and how sharp they end.

The data are drawn: a class is a smooth pattern, a sample the pattern moved by up to four pixels, with noise; a network of
two hidden layers can learn the training samples by heart. All runs of a batch train at once, a run in each row of the
weights. Sharpness is the largest eigenvalue of the Hessian of the training loss, by power iteration on products of the
Hessian and a vector (Pearlmutter 1994). Claim: Keskar et al. 2017, arXiv 1609.04836.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from podsim.lab.wires import load_torch

_CLASSES, _SIDE, _COARSE, _MOVED, _WIDTH = 10, 12, 5, 4, 128
_VALIDATED = 8192
"""count. The samples of the validation set."""
_EVERY = 16
"""steps between two looks at the training loss"""
_ITERATIONS = 60


@dataclass(frozen=True, kw_only=True)
class SharpnessTask:
    """What is trained."""

    samples: int
    target: float
    """nat. The training loss at which a run ends."""
    epochs: int
    """The most epochs of a run."""
    data_seed: int


class Minimum(NamedTuple):
    """Where one run ended."""

    steps: int
    """The steps to the target; 0 for a run that did not reach it."""
    training: float
    """nat. The training loss."""
    validation: float
    """nat. The validation loss."""
    error: float
    """share. The validation samples in a wrong class."""
    sharpness: float
    """factor. The largest eigenvalue of the Hessian of the training loss."""


def train_group(
    task: SharpnessTask, batch: int, rates: Sequence[float], seeds: Sequence[int],
    progress: Callable[[float], None] = lambda share: None,
) -> list[Minimum]:  # fmt: skip
    """The end of a run for each (rate, seed) by plain SGD; a seed gives the same first weights and order to each rate.

    `progress` is called with the share of the most epochs that is over. Raises LabError without PyTorch.
    """
    torch = load_torch()
    (inputs, labels), validation = drawn_samples(task)
    every = [(rate, seed) for rate in rates for seed in seeds]
    weights = _first_weights(torch, inputs.shape[1], [seed for _, seed in every])
    rate = torch.tensor([rate for rate, _ in every])
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    reached, step = torch.zeros(len(every), dtype=torch.long), 0
    training = _whole(torch, weights, inputs, labels)
    for epoch in range(task.epochs):
        order = torch.stack([torch.randperm(task.samples, generator=each) for each in orders])
        for chosen in order.repeat(len(rates), 1).split(batch, dim=1):
            slopes = torch.autograd.grad(
                losses(torch, weights, inputs[chosen], labels[chosen]).sum(), weights
            )
            with torch.no_grad():
                for weight, slope in zip(weights, slopes, strict=True):
                    weight.sub_((rate * (reached == 0)).view(-1, 1, 1) * slope)
            step += 1
            if step % _EVERY == 0:
                training = _whole(torch, weights, inputs, labels)
                reached = torch.where((reached == 0) & (training <= task.target), step, reached)
        progress((epoch + 1) / task.epochs)
        if ((reached > 0) | ~training.isfinite()).all():
            break
    training, checked = _whole(torch, weights, inputs, labels), _whole(torch, weights, *validation)
    with torch.no_grad():
        wrong = (_outputs(torch, weights, validation[0]).argmax(2) != validation[1]).double().mean(1)
    columns = (reached, training, checked, wrong, largest_eigenvalues(torch, weights, inputs, labels))
    return [Minimum(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def drawn_samples(task: SharpnessTask) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """(inputs, classes) of training and of validation."""
    torch = load_torch()
    draws = torch.Generator().manual_seed(task.data_seed)
    images, labels = _patterns(torch, draws, task.samples + _VALIDATED, _CLASSES, _SIDE)
    inputs = images.flatten(1)
    return (inputs[: task.samples], labels[: task.samples]), (inputs[task.samples :], labels[task.samples :])


def drawn_images(trained: int, checked: int, classes: int, side: int, seed: int) -> list[tuple[Any, Any]]:
    """(images of bytes, classes) of training and of validation; an image is [row, column]."""
    torch = load_torch()
    images, labels = _patterns(torch, torch.Generator().manual_seed(seed), trained + checked, classes, side)
    pixels = images.add(5.0).mul(25.5).round().clamp(0, 255).to(torch.uint8)
    return [(pixels[:trained], labels[:trained]), (pixels[trained:], labels[trained:])]


def _patterns(torch: Any, draws: Any, count: int, classes: int, side: int) -> tuple[Any, Any]:
    """(samples, [sample, row, column], and their classes): a pattern of the class, moved, with noise."""
    coarse = torch.randn(classes, 1, _COARSE, _COARSE, generator=draws)
    patterns = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bicubic")[:, 0]
    labels = torch.randint(classes, (count,), generator=draws)
    moves = torch.randint(-_MOVED, _MOVED + 1, (count, 2), generator=draws).tolist()
    images = torch.stack(
        [patterns[label].roll(move, (0, 1)) for label, move in zip(labels, moves, strict=True)]
    )
    return images + torch.randn(images.shape, generator=draws), labels


def losses(torch: Any, weights: Sequence[Any], inputs: Any, labels: Any) -> Any:
    """nat. The mean loss of each run; samples are [sample, …] for all runs, or [run, sample, …]."""
    scores = _outputs(torch, weights, inputs)
    same = labels.expand(scores.shape[:2]).flatten()
    loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), same, reduction="none")
    return loss.view(scores.shape[:2]).mean(1)


def largest_eigenvalues(torch: Any, weights: Sequence[Any], inputs: Any, labels: Any) -> Any:
    """factor. The eigenvalue of largest size of each run's Hessian: v <- H v / |v|, whose Rayleigh quotient converges."""
    slopes = torch.autograd.grad(losses(torch, weights, inputs, labels).sum(), weights, create_graph=True)
    draws = torch.Generator().manual_seed(0)
    along = [torch.randn(weight.shape, generator=draws) for weight in weights]
    for _ in range(_ITERATIONS):
        length = sum(part.square().sum((1, 2)) for part in along).sqrt().view(-1, 1, 1)
        along = [part / length for part in along]
        rise = sum((slope * part).sum() for slope, part in zip(slopes, along, strict=True))
        product = torch.autograd.grad(rise, weights, retain_graph=True)
        value = sum((part * bent).sum((1, 2)) for part, bent in zip(along, product, strict=True))
        along = [bent.detach() for bent in product]
    return value


def _first_weights(torch: Any, inputs: int, seeds: Sequence[int]) -> list[Any]:
    """The weights of each layer, [run, in, out]."""
    widths = (inputs, _WIDTH, _WIDTH, _CLASSES)
    made = []
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        draws = [torch.Generator().manual_seed(1000 * seed + layer) for seed in seeds]
        each = [torch.randn(rows, columns, generator=draw) * (2 / rows) ** 0.5 for draw in draws]
        made.append(torch.stack(each).requires_grad_())
    return made


def _outputs(torch: Any, weights: Sequence[Any], inputs: Any) -> Any:
    """The scores of the classes, [run, sample, class]."""
    hidden = inputs
    for weight in weights[:-1]:
        hidden = torch.relu(hidden @ weight)
    return hidden @ weights[-1]


def _whole(torch: Any, weights: Sequence[Any], inputs: Any, labels: Any) -> Any:
    """nat. The loss of each run on a whole set."""
    with torch.no_grad():
        return losses(torch, weights, inputs, labels)
