"""`podsim measure transfer`: a small network fine-tuned, pruned, brought to int8, exported and served for real."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from podsim.answers.transferred import Transferred, TransferRow
from podsim.errors import PodsimError
from podsim.graphs.capturing import capture_module
from podsim.graphs.frozen_layers import trained_graph
from podsim.graphs.op_graph import OpGraph
from podsim.lab.options import outside
from podsim.lab.processes import stopped_by_signals
from podsim.lab.serving.image_engine import ImageEngine
from podsim.lab.serving.load_generator import last_token
from podsim.lab.serving.served_run import SentLoad, ServerRun, run_requests
from podsim.lab.serving.stream_server import StreamServer
from podsim.lab.training.pruning import is_prunable
from podsim.lab.training.transfer import (
    CLASSES,
    PRODUCT,
    SIDE,
    Stage,
    TransferTask,
    pixels,
    product_seconds,
    sent_images,
    transfer_stages,
)
from podsim.lab.wires import load_torch
from podsim.learning.format_accuracy import all_accuracy
from podsim.learning.sparsity import compressed_bytes
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question
from podsim.serving.batch_queue import BatchServer, simulate_queue
from podsim.serving.triton import tensor_list
from podsim.whole_files import write_whole

_STAGES, _LARGEST, _NAME = 8, 16, "transferred"
_BATCHES = (1, 2, 4, 8, _LARGEST)
Progress = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class MeasureTransferOptions:
    """What is trained, and how much of it."""

    first_samples: int = option(16384, "Samples of the first network, of 40 other classes.")
    first_epochs: int = option(8, "Passes over them.")
    samples: int = option(256, "Samples of the task, of ten classes.")
    epochs: int = option(40, "Passes over them in fine-tuning; half as many after pruning, and in int8.")
    frozen: int = option(2, "First layers that fine-tuning leaves as they are.")
    requests: int = option(1000, "Requests to the server.")
    load: float = option(0.5, "Share of the server's rate at which they are sent.")
    seed: int = option(0, "Seed of data, weights and arrivals.")
    to: Path | None = option(None, "Folder that gets the Triton model repository.")


@question(
    MeasureTransferOptions,
    output=PlotOutput,
    progress="training",
    status=lambda run: 130 if run.stopped else 0,
)
def measure_transfer(
    options: MeasureTransferOptions, *, progress: Progress = lambda done, parts, text="": None
) -> Transferred:
    """Accuracy, bytes and rate after each step of transfer learning, each beside what podsim says from the step before.

    `progress` is called with (steps done, steps, what the last gave). Ctrl-C, SIGTERM and SIGHUP keep the steps that
    ended. Raises PodsimError for what makes no sense, LabError without PyTorch.
    """
    if wrong := outside((
        ("first-samples", options.first_samples, 64, 1_000_000), ("first-epochs", options.first_epochs, 1, 1000),
        ("samples", options.samples, 32, 100_000), ("epochs", options.epochs, 2, 1000),
        ("frozen", options.frozen, 0, 5), ("requests", options.requests, 50, 4096), ("load", options.load, 0.05, 0.9),
        ("seed", options.seed, 0, 2**31),
    )):  # fmt: skip
        raise PodsimError("; ".join(wrong))
    task = TransferTask(**{name: getattr(options, name) for name in TransferTask.__dataclass_fields__})
    answer = Transferred(
        samples=options.samples, repository=str(options.to or ""), rows=(), load=None, p50=None, predicted_p50=None,
        p99=None, predicted_p99=None, others=None, stopped=True,
    )  # fmt: skip

    def say() -> None:
        row, done = answer.rows[-1], len(answer.rows)
        text = f"{row.stage}: {row.accuracy:.2%}, {row.bytes:,.0f} bytes, {row.answered:,.0f}/s"
        progress(done, _STAGES, text)

    with stopped_by_signals(), _model_file(options.to) as file:
        try:
            progress(0, _STAGES)
            stages: list[Stage] = []
            for stage in transfer_stages(task, file):
                stages.append(stage)
                answer = replace(answer, rows=(*answer.rows, _row(stages, task)))
                say()
            served = _served(options, task, file, stages[-1])
            row = replace(answer.rows[-1], stage="served", predicted_bytes=None, trained=None, **served.row)
            answer = replace(answer, rows=(*answer.rows, row), stopped=False, **served.latencies)
            say()
        except KeyboardInterrupt:
            if not answer.rows:
                raise
    return answer


@contextmanager
def _model_file(folder: Path | None) -> Iterator[Path]:
    """The place of the model in a Triton model repository, which has its config.pbtxt."""
    with TemporaryDirectory() as passing:
        place = (folder or Path(passing)) / _NAME
        try:
            (place / "1").mkdir(parents=True, exist_ok=True)
            write_whole(place / "config.pbtxt", _config())
        except OSError as error:
            raise PodsimError(f"{place}: cannot be written: {error.strerror}") from None
        yield place / "1" / "model.pt"


def _config() -> str:
    """Triton's config.pbtxt of a TorchScript file on a processor."""
    return (
        f'name: "{_NAME}"\nplatform: "pytorch_libtorch"\nmax_batch_size: {_LARGEST}\n'
        + tensor_list("input", [("INPUT__0", "TYPE_FP32", (1, SIDE, SIDE))])
        + tensor_list("output", [("OUTPUT__0", "TYPE_FP32", (CLASSES,))])
        + "instance_group [\n  { count: 1 kind: KIND_CPU }\n]\ndynamic_batching { }\n"
    )


def _row(stages: list[Stage], task: TransferTask) -> TransferRow:
    """The last step beside what the steps before and the laws say of it."""
    stage, said = stages[-1], dict[str, float | None]()
    if len(stages) > 1 and stage.trained:
        said["trained"] = _trained_rate(stages, task)
    if len(stages) in {3, 4, 5}:
        said["answered"] = stages[0].answered  # a processor has no sparse units
    if stage.name in {"pruned 2:4", "retrained"}:
        said["bytes"] = sum(
            4 * layer.bias.numel()
            + (_packed(layer.weight) if is_prunable(layer) else 4 * layer.weight.numel())
            for layer in stage.network
            if hasattr(layer, "weight")
        )
    if stage.name == "retrained":
        said["accuracy"] = stages[-3].accuracy
    if stage.name == "int8":
        changes = [row for row in all_accuracy() if (row.format, row.baseline) == ("int8", "fp32")]
        change = float(np.average([row.median for row in changes], weights=[row.count for row in changes]))
        slow, fast = product_seconds()
        weights = [each for each in stages[-2].network.parameters() if each.ndim > 1]
        said["accuracy"] = stages[-2].accuracy * (1 + change)
        said["answered"] = 1 / (
            1 / stages[-2].answered - _product_seconds_of_image(stages[1], slow) * (1 - fast / slow)
        )
        said["bytes"] = float(
            sum(weight.numel() + 8 * len(weight) for weight in weights)
        )  # a bias and a scale
    if stage.name == "exported":
        said |= {"accuracy": stages[-2].accuracy, "bytes": stages[-2].bytes, "answered": stages[-2].answered}
    return TransferRow(
        stage=stage.name, accuracy=stage.accuracy, bytes=stage.bytes, trained=stage.trained, answered=stage.answered,
        **{f"predicted_{name}": said.get(name) for name in ("accuracy", "bytes", "trained", "answered")},
    )  # fmt: skip


def _packed(weight: object) -> int:
    """B of a weight, [outputs, inputs, ...], in the compressed layout."""
    outputs, inputs, *rest = weight.shape  # type: ignore[attr-defined]
    return compressed_bytes(outputs * int(np.prod(rest)), inputs, 4)


def _graph(stage: Stage) -> OpGraph:
    """One image through the network, forward and backward."""
    return capture_module(stage.network, (load_torch().zeros(1, 1, SIDE, SIDE),))


def _trained_rate(stages: list[Stage], task: TransferTask) -> float:
    """1/s. The rate of training by the first network's rate and the arithmetic of both."""
    graph = _graph(stages[1])
    mine = trained_graph(graph, f"frozen:{task.frozen}") if len(stages) == 3 and task.frozen else graph
    whole, part = (float((each.flops + each.flops_back).sum()) for each in (graph, mine))
    return (stages[0].trained or 0.0) * whole / part


def _product_seconds_of_image(stage: Stage, seconds: float) -> float:
    """s of an image's products, at the rate of a large product that takes `seconds`."""
    return float(_graph(stage).flops.sum()) * seconds / (2.0 * PRODUCT**3)


class _Served(NamedTuple):
    """What the server gave: fields of the last row, and of the answer."""

    row: dict[str, float]
    latencies: dict[str, float]


def _served(options: MeasureTransferOptions, task: TransferTask, file: Path, stage: Stage) -> _Served:
    """The server with clients in loops, then at a part of the rate that it then had.

    One and four clients give the seconds of its batches, and, as one sends twice as much, those of the sender: many
    clients get the rate of the slower of both.
    """
    images, labels = sent_images(task, options.requests)

    def run(load: SentLoad) -> ServerRun:
        def make() -> StreamServer:
            return StreamServer(ImageEngine(file, SIDE, _LARGEST, pixels), SIDE**2 + 1, 256)

        return run_requests(make, images[: len(load.outputs)], load)

    def loop(clients: int, count: int) -> tuple[ServerRun, float]:
        start = time.process_time()
        return run(SentLoad(prompts=[], outputs=[1] * count, clients=clients)), time.process_time() - start

    (alone, all_seconds), (few, half_seconds) = loop(1, len(images)), loop(4, len(images) // 2)
    sender = (all_seconds - half_seconds) / (len(images) - len(images) // 2)
    many, _ = loop(2 * _LARGEST, len(images))
    steps = np.array([*alone.steps, *few.steps])
    line = np.polyfit(steps[:, 4], steps[:, 1], 1)
    trip = float(np.median([row.done - row.sent for row in alone.requests]))
    server = BatchServer(
        batches=np.array(_BATCHES, float),
        seconds=np.polyval(line, _BATCHES),
        fixed=max(0.0, trip - float(np.polyval(line, 1))),
    )
    rate = len(many.requests) / max(row.done for row in many.requests)
    times = np.cumsum(np.random.default_rng(options.seed).exponential(1 / (options.load * rate), len(images)))
    sent = run(SentLoad(prompts=[], outputs=[1] * len(images), times=times.tolist()))
    latency = np.array([row.done - row.sent for row in sent.requests])
    law = simulate_queue(server, times)
    right = np.mean([last_token(row) == label for row, label in zip(sent.requests, labels, strict=True)])
    return _Served(
        {"accuracy": float(right), "predicted_accuracy": stage.accuracy, "answered": rate,
         "predicted_answered": min(server.capacity, 1 / max(sender, 1e-6))},
        {"load": options.load * rate, "p50": float(np.quantile(latency, 0.5)), "predicted_p50": law.percentile(0.5),
         "p99": float(np.quantile(latency, 0.99)), "predicted_p99": law.percentile(0.99), "others": sent.others},
    )  # fmt: skip
