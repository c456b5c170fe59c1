"""Triton's config.pbtxt for a model and the instances it runs on.

A Triton server sees one MIG instance only (CUDA_VISIBLE_DEVICES=MIG-…), so a layout of seven is seven servers, each with
one instance group on its GPU 0; whole GPUs are one server with an instance group over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path

from podsim.answers.served import Served
from podsim.errors import PodsimError
from podsim.whole_files import write_files

_ENCODER = ("input_ids", "segment_ids", "input_mask")


def model_name(served: Served) -> str:
    """The name as a directory of a model repository."""
    return re.sub(r"[^a-z0-9_]+", "_", served.model.lower()).strip("_") or "model"


def config_text(served: Served, *, delay: float | None = None) -> str:
    """The text of config.pbtxt at the best batch: shapes, instance groups, dynamic batching.

    `delay` is the time, s, that the server may wait for a full batch: half of the limit minus two batches, or half of a
    batch without a limit.
    """
    assert served.best is not None
    batch = served.best.batch
    if delay is None:
        spare = None if served.limit is None else served.limit - 2 * served.best.latency
        delay = max(0.0, served.best.latency / 2 if spare is None else spare / 2)
    sizes = sorted({max(1, batch // 2), batch})
    slice_, gpus = "/" in served.gpu, range(1 if "/" in served.gpu else served.instances)
    note = f"# one server for each of {served.instances} instances of {served.gpu}\n" if slice_ else ""
    return (
        f'{note}name: "{model_name(served)}"\n'
        f"{_backend(served)}\n"
        f"max_batch_size: {batch}\n"
        f"{_tensors(served)}"
        f"{_instances(served, gpus)}"
        "dynamic_batching {\n"
        f"  preferred_batch_size: [ {', '.join(map(str, sizes))} ]\n"
        f"  max_queue_delay_microseconds: {round(delay * 1e6)}\n"
        "}\n"
    )


_PLATFORMS = (
    ("tensorrt", 'platform: "tensorrt_plan"'), ("onnx", 'platform: "onnxruntime_onnx"'),
    ("tensorflow", 'platform: "tensorflow_savedmodel"'), ("torchscript", 'platform: "pytorch_libtorch"'),
)  # fmt: skip
"""start of an engine's name -> what Triton calls it"""


def _instances(served: Served, gpus: range) -> str:
    """The instances of the model; of one divided over GPUs, the GPUs of each as TensorRT-LLM's backend takes them."""
    each = prod(int(str(served.plan.get(key, 1))) for key in ("tensor", "pipeline", "context"))
    if each == 1:
        return f"instance_group [\n  {{ count: 1 kind: KIND_GPU gpus: [ {', '.join(map(str, gpus))} ] }}\n]\n"
    ids = ";".join(",".join(str(copy * each + at) for at in range(each)) for copy in range(served.instances))
    return (
        f"instance_group [\n  {{ count: {served.instances} kind: KIND_CPU }}\n]\n"
        f'parameters {{ key: "gpu_device_ids" value: {{ string_value: "{ids}" }} }}\n'
    )


def _backend(served: Served) -> str:
    if served.kind == "generator":
        return 'backend: "tensorrtllm"'
    return next((text for name, text in _PLATFORMS if served.engine.startswith(name)), 'backend: "python"')


def _tensors(served: Served) -> str:
    if served.kind == "samples":
        return "# inputs and outputs: Triton completes them from the model file\n"
    if served.kind == "images":
        return tensor_list(
            "input", [("input", "TYPE_FP32", (3, served.tokens, served.tokens))]
        ) + tensor_list("output", [("output", "TYPE_FP32", (1000,))])
    if served.kind == "encoder":
        inputs = [(name, "TYPE_INT32", (served.tokens,)) for name in _ENCODER]
        return tensor_list("input", inputs) + tensor_list(
            "output", [("logits", "TYPE_FP32", (served.tokens, 2))]
        )
    inputs = [("input_ids", "TYPE_INT32", (-1,)), ("input_lengths", "TYPE_INT32", (1,)),
              ("request_output_len", "TYPE_INT32", (1,))]  # fmt: skip
    return tensor_list("input", inputs) + tensor_list("output", [("output_ids", "TYPE_INT32", (-1, -1))])


def tensor_list(name: str, tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> str:
    """The lines of (name, type, shape) of each input or output."""
    rows = [
        f'  {{ name: "{tensor}" data_type: {kind} dims: [ {", ".join(map(str, dims))} ] }}'
        for tensor, kind, dims in tensors
    ]
    return f"{name} [\n" + ",\n".join(rows) + "\n]\n"


def write_config(answer: Served, directory: Path) -> None:
    """config.pbtxt in a model repository. Raises PodsimError where nothing can be written, or no batch is in time."""
    if answer.best is None:
        raise PodsimError("triton: no batch is in time, so there is none to configure; give a longer latency")
    path = directory / model_name(answer) / "config.pbtxt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_files({path: config_text(answer)})
    except OSError as error:
        raise PodsimError(f"{path}: cannot be written: {error.strerror}") from None
