"""Fits the constants of inference to measured rows: python -m reference.fit_inference [--leave network|gpu|N].

Writes podsim/graphs/inference.toml. With --leave nothing is written: each network, GPU or fold of the READMEs' tables is
predicted by a fit to the others, and the errors are printed by family.
"""

from __future__ import annotations

import argparse
import re
import sys
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

import podsim.graphs
from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.price_inference import InferenceCosts, InferenceRun, read_inference_run
from podsim.accuracy.tables import find_kind, make_row, measurement
from podsim.errors import PodsimError
from podsim.graphs.inference import FILE, PRODUCTS, gpu_family, load_serving, served_batch
from reference.curate_networks import canonical, is_training
from reference.packaged import raw_rows

Floats = NDArray[np.float64]

RULES = {
    "pytorch": "none", "paddle": "none", "onnx": "all", "onnx-tensorrt": "all", "tensorrt": "all",
    "tensorrt-triton": "all", "torchscript": "chains", "mxnet": "chains", "tensorflow": "chains",
    "tensorflow2": "chains", "tensorflow2-keras": "chains", "tensorflow2-tabular": "chains",
    "tensorflow-xla": "chains", "tensorflow-triton": "chains", "tensorflow-tensorrt": "chains",
    "tensorflow-tensorrt-host": "chains", "tensorrt-hps": "all", "torchscript-speech": "chains",
    "pytorch-detection": "none", "tensorflow2-detection": "chains",
}  # fmt: skip
"""Engine -> its rule of fusion."""
TITLES = {
    "pytorch": "PyTorch, eager", "paddle": "PaddlePaddle", "onnx": "ONNX Runtime behind Triton",
    "onnx-tensorrt": "ONNX Runtime with TensorRT behind Triton", "tensorrt": "TensorRT, alone",
    "tensorrt-triton": "TensorRT behind Triton", "torchscript": "TorchScript", "mxnet": "MXNet",
    "tensorflow": "TensorFlow 1", "tensorflow2": "TensorFlow 2",
    "tensorflow2-keras": "TensorFlow 2, Keras's loop of predictions",
    "tensorflow2-tabular": "TensorFlow 2 with the tables' loader, in evaluation", "tensorflow-xla": "TensorFlow with XLA",
    "tensorflow-triton": "TensorFlow behind Triton", "tensorflow-tensorrt": "TensorFlow with TensorRT behind Triton",
    "tensorflow-tensorrt-host": "TensorFlow with TensorRT behind Triton, tables in the host's memory",
    "pytorch-detection": "PyTorch, detectors with their search over boxes",
    "tensorflow2-detection": "TensorFlow 2, detectors with their search over boxes",
    "torchscript-speech": "TorchScript, speech synthesis with convolutions over time",
    "tensorrt-hps": "TensorRT behind Triton, tables in HugeCTR's parameter server",
}  # fmt: skip
OWN = (
    "host_kernel",
    "request",
    "copy_rate",
    "conv_speed",
    "gemm_speed",
    "attention_speed",
    "recurrent_speed",
    "memory_speed",
    "blend",
)
"""The constants of an engine, in the order of the fit."""
START = np.log([5e-6, 1e-4, 1e11, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5])
STARTS = dict.fromkeys(
    ("pytorch-detection", "tensorflow2-detection", "tensorflow2-keras", "tensorflow2-tabular"),
    np.log([5e-6, 5e-3, 1e9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]),
)
"""The starts of engines whose host takes a request in more slowly than others, by orders of magnitude."""
HOLD = np.array([0.05, 0.05, 0.05, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3])
"""The pull of each constant toward its start, in log units of a row's error."""
FAMILIES = ("a100", "a30", "t4", "v100")
_NETWORK_FOLDS = 6
_BAR_WEIGHT = 1.5
"""The weight of rows of networks with a bar of their own."""
SHARED = ("int8", "overlap")
SHARED_START = np.log([1.0, 0.3])


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """The rows of a fit as arrays, [rows]."""

    runs: tuple[InferenceRun, ...]
    table: tuple[str, ...]
    """The README's table that each row is from."""
    measured: Floats
    """1/s. The measured rate of one GPU."""
    engine: NDArray[np.intp]
    family: NDArray[np.intp]
    products: Floats
    """s. [rows, kinds of product]."""
    memory: Floats
    kernels: Floats
    bytes: Floats
    batch: Floats
    is_int8: NDArray[np.bool_]
    is_concurrent: NDArray[np.bool_]
    weight: Floats


def read_samples() -> Samples:
    """The rows of inference with role `calibrate` that podsim expresses."""
    kind, costs, serving = find_kind("vision"), InferenceCosts(), load_serving()
    rows = []
    for raw in raw_rows("vision"):
        if is_training(raw) or raw["role"] != "calibrate":
            continue
        try:
            row = canonical("vision", raw)
            run, rate = read_inference_run(row), measurement(make_row(kind, row), "samples/s")
            batch = served_batch(run.batch, run.concurrency, serving)
            work = costs.work(run, batch, RULES[run.engine])
        except (PodsimError, NotExpressible):
            continue
        if rate is not None:
            rows.append((raw, run, rate.value / run.gpus, batch, work))
    works = [row[4] for row in rows]
    groups = [(run.network, run.engine, gpu_family(run.gpu, serving)) for _, run, _, _, _ in rows]
    counts = Counter(groups)
    names = list(RULES)
    return Samples(
        runs=tuple(row[1] for row in rows), table=tuple(row[0]["path"] + row[0]["model"] for row in rows),
        measured=np.array([row[2] for row in rows]), engine=np.array([names.index(group[1]) for group in groups]),
        family=np.array([FAMILIES.index(group[2]) for group in groups]),
        products=np.array([work.products for work in works]), memory=np.array([work.memory for work in works]),
        kernels=np.array([work.kernels for work in works]), bytes=np.array([work.bytes for work in works]),
        batch=np.array([float(row[3]) for row in rows]), is_int8=np.array([work.is_int8 for work in works]),
        is_concurrent=np.array([row[1].concurrency > 1 for row in rows]),
        weight=np.array([counts[group] ** -0.35 * (_BAR_WEIGHT if _has_bar(group[0]) else 1.0) for group in groups]),
    )  # fmt: skip


def _has_bar(network: str) -> bool:
    """Whether a network has a bar of its own."""
    return network == "resnet50" or network.startswith("bert")


def _parts(logs: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """(constants [engines, OWN], speeds [families, 2], speeds [engines, families], shared) of a vector of logarithms."""
    e, f = len(RULES), len(FAMILIES)
    ends = np.cumsum([e * len(OWN), 2 * f, e * f])
    own, speeds, pairs, shared = np.split(logs, ends)
    return own.reshape(e, -1), speeds.reshape(f, 2), pairs.reshape(e, f), shared


def predict(logs: Floats, rows: Samples) -> Floats:
    """1/s of each row: the law of podsim.graphs.inference on arrays, [rows]."""
    own, speeds, pairs, shared = (np.exp(part) for part in _parts(logs))
    constants = own[rows.engine]
    int8, overlap = shared
    blend = constants[:, 8]
    products = (rows.products / constants[:, 3:7]).sum(axis=1) / np.where(rows.is_int8, int8, 1.0)
    memory = rows.memory / (constants[:, 7] * speeds[rows.family, 1])
    gpu = (products / speeds[rows.family, 0] + memory) / pairs[rows.engine, rows.family]
    host = rows.kernels * constants[:, 0]
    computed = (gpu**blend + host**blend) ** (1.0 / blend)
    copied = rows.bytes / constants[:, 2] * np.where(rows.is_concurrent, overlap, 1.0)
    return np.asarray(rows.batch / (constants[:, 1] + copied + computed))


def fit(rows: Samples, chosen: NDArray[np.bool_]) -> Floats:
    """The logarithms of all constants, from the chosen rows."""

    def residual(logs: Floats) -> Floats:
        own, speeds, pairs, shared = _parts(logs)
        held = (
            ((own - start[: own.size].reshape(own.shape)) * HOLD).ravel(),
            0.3 * speeds.ravel(),
            0.6 * pairs.ravel(),
            0.2 * (shared - SHARED_START),
        )
        errors = rows.weight * np.log(predict(logs, rows) / rows.measured)
        return np.concatenate([errors[chosen], *held])

    e, f = len(RULES), len(FAMILIES)
    start = np.concatenate(
        [np.concatenate([STARTS.get(name, START) for name in RULES]), np.zeros(2 * f + e * f), SHARED_START]
    )
    return np.asarray(least_squares(residual, start, loss="soft_l1", f_scale=0.15, max_nfev=40).x)


def left_out(rows: Samples, fold: NDArray[np.intp]) -> Floats:
    """Relative errors of rows by a fit to those of other folds, [rows]."""
    errors = np.zeros(len(fold))
    for each in np.unique(fold):
        out = fold == each
        errors[out] = (predict(fit(rows, ~out), rows) / rows.measured - 1.0)[out]
    return errors


def folds_of(rows: Samples, left: str) -> NDArray[np.intp]:
    """The fold of each row: a number of folds over READMEs' tables, folds of whole networks, or each GPU."""
    if left.isdecimal():
        return np.array([zlib.crc32(table.encode()) % int(left) for table in rows.table])
    if left == "network":
        return np.array([zlib.crc32(run.network.encode()) % _NETWORK_FOLDS for run in rows.runs])
    return np.unique([run.gpu.name for run in rows.runs], return_inverse=True)[1]


def table_text(rows: Samples, logs: Floats) -> str:
    """The text of inference.toml."""
    own, speeds, pairs, shared = (np.exp(part) for part in _parts(logs))
    errors = np.abs(predict(logs, rows) / rows.measured - 1.0)
    serving = load_serving()
    lines = [
        "# Constants of inference, by engine. The keys, their units and the law stand in inference.py. Fitted to rows of",
        "# NVIDIA's DeepLearningExamples and demoBERT (role calibrate): python -m reference.fit_inference",
        "", "[serving]", f"gather = {serving.gather:g}",
        *(f"{name} = {value:.4g}" for name, value in zip(SHARED, shared, strict=True)),
        f"products = {_inline(speeds[:, 0])}", f"memory = {_inline(speeds[:, 1])}",
    ]  # fmt: skip
    for index, (name, rule) in enumerate(RULES.items()):
        mine = rows.engine == index
        if not mine.any():
            continue
        networks = Counter(run.network for run, is_mine in zip(rows.runs, mine, strict=True) if is_mine)
        seen = ", ".join(f"{count} {network}" for network, count in networks.most_common(6))
        spent = rows.products[mine].sum(axis=0)
        unused = {f"{kind}_speed" for kind, seconds in zip(PRODUCTS, spent, strict=True) if not seconds}
        families = [bool((mine & (rows.family == f)).any()) for f in range(len(FAMILIES))]
        lines += [
            "", f"[{name}]", f'title = "{TITLES[name]}"', f'fuse = "{rule}"',
            *(f"{key} = {value:.4g}" for key, value in zip(OWN, own[index], strict=True) if key not in unused),
            f"gpus = {_inline(pairs[index], families)}",
            f'evidence = "{mine.sum()} calibrate rows ({seen}): mean absolute error {errors[mine].mean():.3f}"',
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _inline(values: Floats, kept: list[bool] | None = None) -> str:
    pairs = [
        (name, value)
        for i, (name, value) in enumerate(zip(FAMILIES, values, strict=True))
        if not kept or kept[i]
    ]
    return "{ " + ", ".join(f"{name} = {value:.4g}" for name, value in pairs) + " }"


def _say(rows: Samples, errors: Floats) -> None:
    families: Mapping[str, str] = {"resnet50": "^resnet50$", "bert": "^bert", "rest": "^(?!resnet50$|bert)"}
    for name, pattern in families.items():
        mine = np.array([re.search(pattern, run.network) is not None for run in rows.runs])
        chosen = errors[mine]
        print(f"{name}: {mine.sum()} rows, mean {np.abs(chosen).mean():.3f}, median {np.median(np.abs(chosen)):.3f}, "
              f"bias {chosen.mean():+.3f}")  # fmt: skip


def main() -> int:
    """Fit and write, or judge by folds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--leave",
        default="",
        help="judge, write nothing: leave folds of networks or each gpu out, or folds of tables, as 5",
    )
    left = parser.parse_args().leave
    rows = read_samples()
    if left:
        _say(rows, left_out(rows, folds_of(rows, left)))
        return 0
    logs = fit(rows, np.ones(len(rows.runs), dtype=bool))
    path = Path(podsim.graphs.__file__).with_name(FILE)
    path.write_text(table_text(rows, logs), "utf-8")
    _say(rows, predict(logs, rows) / rows.measured - 1.0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
