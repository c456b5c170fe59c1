"""`podsim measure transfer`: a small network fine-tuned, pruned, brought to int8, exported and served for real."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from podsim.answers.transferred import Transferred, TransferRow
from podsim.errors import PodsimError, raise_all
from podsim.graphs.capturing import capture_module
from podsim.graphs.frozen_layers import trained_graph
from podsim.graphs.op_graph import OpGraph
from podsim.lab.processes import stopped_by_signals
from podsim.lab.run_sizes import out_of_bounds
from podsim.lab.serving.image_engine import ImageEngine
from podsim.lab.serving.load_generator import last_token
from podsim.lab.serving.served_run import SentLoad, ServerRun, run_requests
from podsim.lab.serving.stream_server import StreamServer
from podsim.lab.training import transfer
from podsim.lab.training.pruning import is_prunable
from podsim.lab.training.transfer import SIDE, Stage, TransferTask, transfer_stages
from podsim.lab.wires import load_torch
from podsim.learning.format_accuracy import all_accuracy
from podsim.learning.sparsity import compressed_bytes
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question
from podsim.serving.triton import tensor_list
from podsim.whole_files import scratch_folder, write_whole

_STAGES, _LARGEST, _NAME = 8, 16, "transferred"
Progress = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class MeasureTransferOptions:
    """What is trained, and how much of it."""

    first_samples: int = option(
        16384, "Samples of the first network, of 40 other classes.", least=64, most=1_000_000
    )
    first_epochs: int = option(8, "Passes over them.", least=1, most=1000)
    samples: int = option(256, "Samples of the task, of ten classes.", least=32, most=100_000)
    epochs: int = option(40, "Passes over them; half as many after pruning, and in int8.", least=2, most=1000)
    frozen: int = option(2, "First layers that fine-tuning leaves as they are.", least=0, most=5)
    requests: int = option(1000, "Requests to the server.", least=50, most=4096)
    seed: int = option(0, "Seed of data and weights.", least=0, most=2**31)
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
    """Accuracy, bytes and rate after each step of transfer learning, and what podsim says of it from the step before.

    `progress` is called with (steps done, steps, what the last gave). Ctrl-C, SIGTERM and SIGHUP keep the steps that
    ended. Raises PodsimError for what makes no sense, LabError without PyTorch.
    """
    raise_all(out_of_bounds(options))
    task = TransferTask(**{name: getattr(options, name) for name in TransferTask.__dataclass_fields__})
    answer = Transferred(samples=options.samples, repository=str(options.to or ""), rows=(), stopped=True)
    stages: list[Stage] = []
    with stopped_by_signals(), scratch_folder() as passing:
        try:
            progress(0, _STAGES)
            file = passing / "model.pt"
            kept = _model_file(options.to / _NAME) if options.to else None
            for stage in transfer_stages(task, file):
                if kept and stage.name == "exported":
                    write_whole(kept, file.read_bytes())
                stages.append(stage)
                answer = replace(answer, rows=(*answer.rows, _row(stages, task)))
                progress(*_said(answer.rows))
            row = _served(answer.rows[-1], *transfer.sent_images(task, options.requests), file)
            answer = replace(answer, rows=(*answer.rows, row), stopped=False)
            progress(*_said(answer.rows))
        except KeyboardInterrupt:
            if not answer.rows:
                raise
    return answer


def _said(rows: Sequence[TransferRow]) -> tuple[int, int, str]:
    """(steps done, steps, what the last gave)."""
    row = rows[-1]
    return (
        len(rows),
        _STAGES,
        f"{row.stage}: {row.accuracy:.2%}, {row.bytes:,.0f} bytes, {row.answered:,.0f}/s",
    )


def _model_file(folder: Path) -> Path:
    """The place of the model in a Triton model repository, which gets its config.pbtxt."""
    text = (
        f'name: "{_NAME}"\nplatform: "pytorch_libtorch"\nmax_batch_size: {_LARGEST}\n'
        + tensor_list("input", [("INPUT__0", "TYPE_FP32", (1, SIDE, SIDE))])
        + tensor_list("output", [("OUTPUT__0", "TYPE_FP32", (transfer.CLASSES,))])
        + "instance_group [\n  { count: 1 kind: KIND_CPU }\n]\ndynamic_batching { }\n"
    )
    try:
        (folder / "1").mkdir(parents=True, exist_ok=True)
        write_whole(folder / "config.pbtxt", text)
    except OSError as error:
        raise PodsimError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder / "1" / "model.pt"


def _row(stages: list[Stage], task: TransferTask) -> TransferRow:
    """The last step, and what the steps before and the laws say of it. A processor has no units for 2:4."""
    stage, before, said = stages[-1], stages[max(0, len(stages) - 2)], dict[str, float | None]()
    if len(stages) > 1:
        said = {"answered": before.answered, "trained": stage.trained and stages[0].trained}
    if stage.name == "fine-tuned" and task.frozen:
        graph = _graph(stage.network.requires_grad_())
        frozen = trained_graph(graph, f"frozen:{task.frozen}")
        work, less = (float((each.flops + each.flops_back).sum()) for each in (graph, frozen))
        said["trained"] = (stages[0].trained or 0.0) * work / less
    elif stage.name in {"pruned 2:4", "retrained"}:
        weights = [layer for layer in stage.network if hasattr(layer, "weight")]
        said["bytes"] = sum(4 * layer.bias.numel() + _weight_bytes(layer) for layer in weights)
        said["accuracy"] = stages[2].accuracy if stage.name == "retrained" else None
    elif stage.name == "int8":
        published = [row for row in all_accuracy() if (row.format, row.baseline) == ("int8", "fp32")]
        change = np.average([row.median for row in published], weights=[row.count for row in published])
        slow, fast = transfer.product_seconds()
        products = float(_graph(before.network).flops.sum()) * slow / (2 * transfer.PRODUCT**3)
        said["accuracy"] = before.accuracy * (1 + float(change))
        said["answered"] = 1 / (1 / before.answered - products * (1 - fast / slow))
        tensors = list(before.network.parameters())  # a byte a weight; a bias and a scale in fp32
        said["bytes"] = float(sum(each.numel() * (1 if each.ndim > 1 else 8) for each in tensors))
    elif stage.name == "exported":
        said |= {"accuracy": before.accuracy, "bytes": before.bytes}
    return TransferRow(
        stage=stage.name, accuracy=stage.accuracy, bytes=stage.bytes, trained=stage.trained, answered=stage.answered,
        **{f"predicted_{name}": said.get(name) for name in ("accuracy", "bytes", "trained", "answered")},
    )  # fmt: skip


def _graph(network: Any) -> OpGraph:
    """The passes of one image through the network."""
    return capture_module(network, (load_torch().zeros(1, 1, SIDE, SIDE),))


def _weight_bytes(layer: Any) -> int:
    """B of a layer's weight, in the compressed layout if it is pruned."""
    outputs, inputs, *rest = layer.weight.shape
    rows = outputs * math.prod(rest)
    return compressed_bytes(rows, inputs, 4) if is_prunable(layer) else 4 * rows * inputs


def _served(exported: TransferRow, images: list[list[int]], labels: list[int], file: Path) -> TransferRow:
    """The answers of the server to many clients, and what is said after one and four of them.

    One and four clients give the seconds of its batches, and, as one sends twice as much, those of the sender: many
    clients get the rate of the slower of both.
    """

    def make() -> StreamServer:
        return StreamServer(ImageEngine(file, SIDE, _LARGEST, transfer.pixels), SIDE**2 + 1, 256)

    def loop(clients: int, count: int) -> tuple[ServerRun, float]:
        start, load = time.process_time(), SentLoad(prompts=[], outputs=[1] * count, clients=clients)
        return run_requests(make, images[:count], load), time.process_time() - start

    half = len(images) // 2
    (alone, all_seconds), (few, half_seconds) = loop(1, len(images)), loop(4, half)
    many, _ = loop(2 * _LARGEST, len(images))
    steps = np.array([*alone.steps, *few.steps])
    full = float(np.polyval(np.polyfit(steps[:, 4], steps[:, 1], 1), _LARGEST))
    right = [last_token(row) == label for row, label in zip(many.requests, labels, strict=True)]
    return replace(
        exported, stage="served", accuracy=float(np.mean(right)), predicted_accuracy=exported.accuracy,
        predicted_bytes=None, answered=len(right) / max(row.done for row in many.requests),
        predicted_answered=min(_LARGEST / full, (len(images) - half) / max(all_seconds - half_seconds, 1e-9)),
    )  # fmt: skip
