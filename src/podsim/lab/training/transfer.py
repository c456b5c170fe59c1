"""A small network trained for other classes, pruned 2:4, brought to int8 and exported: what each step gives.

The data are drawn: a class is a smooth pattern, a sample the pattern moved by up to four pixels, with noise, as bytes.
The first network learns 40 classes of many samples; the task has 10 others, and few samples. Rates are images a second
of one core, in its own seconds, so that other programs hardly count. Quantisation-aware training rounds weights and
activations to int8 in the forward pass (Jacob et al. 2018, arXiv 1712.05877), with a scale for each output.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from podsim.lab.training.pruning import Masks
from podsim.lab.training.sharpness import drawn_images
from podsim.lab.wires import load_part, load_torch
from podsim.learning.sparsity import compress

SIDE, CLASSES, PRODUCT = 16, 10, 512
_FIRST_CLASSES, _WIDTHS, _CHECKED = 40, (16, 32, 64), 4096
_AT_ONCE = 32
"""images of a batch in training, and of the forward passes that are timed"""


@dataclass(frozen=True, kw_only=True)
class TransferTask:
    """What is trained, and how long."""

    first_samples: int
    first_epochs: int
    samples: int
    epochs: int
    frozen: int
    """The first layers that fine-tuning leaves as they are."""
    seed: int


class Stage(NamedTuple):
    """What one step gave."""

    name: str
    network: Any
    accuracy: float
    """share. The images of the task, none of them trained on, in the right class."""
    bytes: float
    """B of the weights."""
    trained: float | None
    """1/s. Images of training; None where nothing is trained."""
    answered: float
    """1/s. Images of forward passes."""


def transfer_stages(task: TransferTask, file: Path) -> Iterator[Stage]:
    """The stages, each as soon as it ends; the last one is in `file`, as TorchScript. Raises LabError without PyTorch."""
    torch = load_torch()
    torch.set_num_threads(1)
    first = drawn_images(task.first_samples, _CHECKED, _FIRST_CLASSES, SIDE, task.seed + 1)
    data = drawn_images(task.samples, _CHECKED, CLASSES, SIDE, task.seed + 2)
    torch.manual_seed(task.seed)
    network = _network(torch, _FIRST_CLASSES)
    rate = _train(torch, network, first[0], task.first_epochs, 0.05, task.seed)
    yield _stage(torch, "pre-trained", network, first[1], rate)
    fresh = _network(torch, CLASSES)
    rate = _train(torch, fresh, data[0], task.epochs, 0.05, task.seed)
    yield _stage(torch, "from scratch", fresh, data[1], rate)

    network[-1] = torch.nn.Linear(_WIDTHS[-1], CLASSES)
    layers = [layer for layer in network if hasattr(layer, "weight")]
    for layer in layers[: task.frozen]:
        layer.requires_grad_(requires_grad=False)
    rate = _train(torch, network, data[0], task.epochs, 0.02, task.seed)
    yield _stage(torch, "fine-tuned", network, data[1], rate)
    network.requires_grad_()
    masks = Masks(torch, [network])
    masks.apply()
    yield _stage(torch, "pruned 2:4", network, data[1], None, _packed_bytes(network, masks))
    rate = _train(torch, network, data[0], task.epochs // 2, 0.02, task.seed, masks.apply)
    yield _stage(torch, "retrained", network, data[1], rate, _packed_bytes(network, masks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch speaks of the successors of what is used here
        aware = _aware(torch, network)
        masks = Masks(torch, [aware])
        rate = _train(torch, aware, data[0], task.epochs // 2, 0.01, task.seed, masks.apply)
        quantised = load_part("torch.ao.quantization").convert(aware.eval())
        yield _stage(torch, "int8", quantised, data[1], rate, _int8_bytes(quantised))
        torch.jit.save(torch.jit.trace(quantised, pixels(data[1][0][:_AT_ONCE])), str(file))
        exported = torch.jit.load(str(file))
        yield _stage(torch, "exported", exported, data[1], None, file.stat().st_size)


def pixels(images: Any) -> Any:
    """factor. What the network reads of images of bytes, [image, row, column]."""
    return images.float().div(25.5).sub(5.0).unsqueeze(1)


def sent_images(task: TransferTask, count: int) -> tuple[list[list[int]], list[int]]:
    """(bytes, class) of images that no network was trained on."""
    images, labels = drawn_images(task.samples, _CHECKED, CLASSES, SIDE, task.seed + 2)[1]
    return images[:count].flatten(1).tolist(), labels[:count].tolist()


def product_seconds() -> tuple[float, float]:
    """s of the processor for a product of square matrices of PRODUCT rows, in fp32 and in int8."""
    torch = load_torch()
    left = torch.randn(PRODUCT, PRODUCT)
    given = torch.quantize_per_tensor(left, 0.05, 64, torch.quint8)
    weight = torch.ops.quantized.linear_prepack(torch.quantize_per_tensor(left, 0.05, 0, torch.qint8), None)
    product = torch.ops.quantized.linear
    return _median_seconds(lambda: left @ left), _median_seconds(lambda: product(given, weight, 0.1, 64))


def _median_seconds(call: Callable[[], Any], seconds: float = 0.2) -> float:
    """s of the processor for a call: the median of calls that take `seconds` together."""
    took: list[float] = []
    call()
    while sum(took) < seconds:
        start = time.process_time()
        call()
        took.append(time.process_time() - start)
    return sorted(took)[len(took) // 2]


def _packed_bytes(network: Any, masks: Masks) -> float:
    """B of the weights with those under masks in the compressed layout."""
    packed = sum(
        compress(weight.detach().movedim(1, -1).flatten(0, -2).numpy()).bytes for weight, _ in masks.pairs
    )
    return packed + _dense_bytes(network) - 4 * masks.weights


def _network(torch: Any, classes: int) -> Any:
    nn, (few, some, many) = torch.nn, _WIDTHS
    convolutions = ((1, few, 1), (few, some, 2), (some, some, 1), (some, many, 2), (many, many, 1))
    layers: list[Any] = []
    for before, width, stride in convolutions:
        layers += [nn.Conv2d(before, width, 3, stride, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(many, classes))


def _aware(torch: Any, network: Any) -> Any:
    """The network with rounding to int8 in its forward pass."""
    ao = load_part("torch.ao.quantization")
    aware = torch.nn.Sequential(ao.QuantStub(), *copy.deepcopy(network), ao.DeQuantStub()).train()
    aware.qconfig = ao.get_default_qat_qconfig(torch.backends.quantized.engine)
    pairs = [[str(at), str(at + 1)] for at, part in enumerate(aware) if hasattr(part, "kernel_size")]
    return ao.prepare_qat(ao.fuse_modules_qat(aware, pairs))


def _train(
    torch: Any, network: Any, data: tuple[Any, Any], epochs: int, rate: float, seed: int,
    after: Callable[[], None] = lambda: None,
) -> float:  # fmt: skip
    """1/s. The images of training in a second of the processor; `after` is called after each step."""
    images, labels = pixels(data[0]), data[1]
    some = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(some, lr=rate, momentum=0.9, weight_decay=1e-4)
    order = torch.Generator().manual_seed(seed)
    steps = epochs * -(-len(labels) // _AT_ONCE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    network.train()
    start = time.process_time()
    for _ in range(epochs):
        for chosen in torch.randperm(len(labels), generator=order).split(_AT_ONCE):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
            after()
    return epochs * len(labels) / (time.process_time() - start)


def _stage(
    torch: Any,
    name: str,
    network: Any,
    data: tuple[Any, Any],
    trained: float | None,
    size: float | None = None,
) -> Stage:
    images, labels = data
    network.eval()
    with torch.inference_mode():
        chosen = torch.cat([network(pixels(part)).argmax(1) for part in images.split(8 * _AT_ONCE)])
        few = pixels(images[:_AT_ONCE])
        seconds = _median_seconds(lambda: network(few))
    accuracy = float((chosen == labels).double().mean())
    return Stage(name, network, accuracy, size or _dense_bytes(network), trained, _AT_ONCE / seconds)


def _dense_bytes(network: Any) -> float:
    return float(sum(weight.numel() * weight.element_size() for weight in network.parameters()))


def _int8_bytes(network: Any) -> float:
    """B of int8 weights, and of the scale, the zero and the bias of each output."""
    size = 0.0
    for layer in network:
        if callable(getattr(layer, "weight", None)):
            weight, bias = layer.weight(), layer.bias()
            scales = weight.q_per_channel_scales(), weight.q_per_channel_zero_points(), bias.detach()
            size += weight.numel() + sum(each.numel() * each.element_size() for each in scales)
    return size
