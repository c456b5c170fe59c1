"""Rows of every packaged table, and rows with other or odd cells, are read as they were when they were recorded.

A row with odd cells is one of the table in which two cells are those of another row, or of ODD. All draws are hashes of
their number, so they are the same everywhere.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recorded_values import check
from reference.cell_words import read_batch, read_precision, read_rate_unit
from reference.curate_collectives import canonical_cells, collective_cells
from reference.curate_kernels import kernel_cells
from reference.curate_networks import network_cells, rate_cells
from reference.curate_training import own_training_run, stated_row
from reference.learning_tables import minutes_cells
from reference.machine_words import find_node, model_settings, read_adapters
from reference.row_remarks import counted_cells, read_remarks

from podsim.accuracy.measured_runs import NotExpressible, read_settings, read_training_run
from podsim.accuracy.nccl_tests import gpu_name, read_log_text
from podsim.accuracy.price_collectives import decade, read_call
from podsim.accuracy.price_engines import engine_gpu, engine_product, engine_run
from podsim.accuracy.price_inference import read_inference_run
from podsim.accuracy.reading import read_number, read_rows
from podsim.accuracy.tables import find_kind, load, make_row, measurement, quantities
from podsim.errors import PodsimError

FILE = Path(__file__).with_name("rows_read.json.gz")
SETTLED = (
    "network", "cluster", "plan", "chosen", "implied", "reason", "settings", "device", "launch", "in_switch",
)  # fmt: skip
ODD = (
    "", "0", "1", "2", "8", "24.5", "-3", "1e400", "4096", "3.2k", "1,048,576", "1.5 million", "yes", "no", "none",
    "n/a", "fp16", "FP8-MX", "bf16 (amp)", "int8", "tf32", "128 (FP32) / 256 (AMP)", "5120/2560", "64 global",
    "accum=4", "images/s", "k tokens per second/GPU", "frames/min", "8x A100", "H100 SXM", "V100-32GB", "MI250",
    "B200", "4x HDR200 InfiniBand", "8x 400 Gb/s RoCE", "EFA", "TCPX", "selective", "full", "ZeRO-3", "FSDP",
    "inference", "ring", "tree(simple)", "LL128", "nvls", "concurrency=16", "long run, accumulate=True",
    "threads, NCCL 2.19",
)  # fmt: skip


def drawn(*numbers: Any) -> int:
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:6])


@cache
def fields_of(table: str) -> list[Mapping[str, str]]:
    return [row.fields for row in load(table)]


def rows_of(table: str, count: int, *, odd: int = 2) -> list[dict[str, str]]:
    """Some rows of a table, all over it, with so many cells of others; every third as it stands."""
    rows, texts = fields_of(table), []
    for index in range(count):
        row = rows[drawn(table, index) % len(rows)]
        cells = dict(row) if index % 6 == 1 else {k: "" if k in SETTLED else v for k, v in row.items()}
        for change in range(odd if index % 3 else 0):
            columns = [column for column in cells if cells[column] or drawn(index, column) % 3 == 0]
            column = columns[drawn(table, index, change, "column") % len(columns)]
            other = rows[drawn(table, index, change, "row") % len(rows)][column]
            cell = ODD[drawn(table, index, change, "odd") % len(ODD)] if (index + change) % 2 else other
            cells = {**cells, column: cell}
        texts.append(cells)
    return texts


def told(function: Callable[..., Any], *args: Any) -> Any:
    """What a function returns, or what it says against it."""
    try:
        return function(*args)
    except (PodsimError, NotExpressible) as problem:
        return str(problem)[:300]


def run_of(row: Mapping[str, str]) -> Any:
    run = own_training_run(row)
    return [
        run.plan.describe(),
        run.chosen,
        run.implied,
        run.layer_only,
        run.cluster.name,
        run.cluster.gpus,
        run.model.name,
        run.model.parameters,
    ]


def call_of(row: Mapping[str, str]) -> Any:
    call = read_call({**row, **collective_cells(row)})
    return call if isinstance(call, str) else {k: v for k, v in vars(call).items() if k != "cluster"}


def values_of(table: str) -> Callable[[Mapping[str, str]], Any]:
    def read(row: Mapping[str, str]) -> Any:
        settled = rate_cells(row) if table == "vision" else {}
        made = make_row(find_kind(table), {**row, **settled})
        return [
            (found.value, found.machine) if (found := measurement(made, what)) else None
            for what in quantities(table)
        ]

    return read


def inference_of(row: Mapping[str, str]) -> Any:
    cells = network_cells("vision", row)
    run = read_inference_run({**row, **cells}) if "engine" in cells["plan"] else None
    return [cells, run and (run.batch, run.concurrency, run.precision, run.gpus)]


READERS: dict[str, tuple[str, int, Callable[[Mapping[str, str]], Any]]] = {
    "words of training": ("llm", 90, lambda row: told(stated_row, row)),
    "remarks of training": ("llm", 60, lambda row: [told(read_remarks, row), told(counted_cells, row)]),
    "training": ("llm", 45, lambda row: told(run_of, row)),
    "networks": ("vision", 200, lambda row: told(network_cells, "vision", row)),
    "rates of tokens": ("vision", 60, lambda row: told(network_cells, "vision", {**row, "unit": "tokens/s"})),
    "GPUs in words": (
        "vision",
        40,
        lambda row: told(network_cells, "vision", {**row, "gpu": f"8x {row['gpu']}", "n_gpus": ""}),
    ),
    "accelerators in words": (
        "mlperf",
        40,
        lambda row: told(
            network_cells, "mlperf", {**row, "accelerator": f"4x {row['accelerator']}", "n_accelerators": ""}
        ),
    ),
    "inference": ("vision", 90, lambda row: told(inference_of, {**row, "task": "inference"})),
    "submissions": ("mlperf", 160, lambda row: told(network_cells, "mlperf", row)),
    "times to train": ("minutes", 60, lambda row: told(minutes_cells, row)),
    "machines of collectives": ("collectives", 160, lambda row: told(canonical_cells, row)),
    "collectives": ("collectives", 60, lambda row: told(call_of, row)),
    "kernels": ("kernels", 90, lambda row: told(kernel_cells, row)),
    "engines": ("engines", 60, lambda row: [told(engine_run, row), told(engine_product, row)]),
}


@pytest.mark.parametrize("name", READERS)
def test_cells(name: str) -> None:
    table, count, read = READERS[name]
    check(FILE, name, [read(row) for row in rows_of(table, count)])


@pytest.mark.parametrize("table", sorted({*[each[0] for each in READERS.values()], "losses", "convergence"}))
def test_measurements(table: str) -> None:
    check(FILE, f"measurements {table}", [told(values_of(table), row) for row in rows_of(table, 80)])


@pytest.mark.parametrize("table", ["llm", "vision", "mlperf", "collectives", "kernels"])
def test_files(table: str, tmp_path: Path) -> None:
    found = []
    for index in range(24):
        cells = rows_of(table, 3 + index)[-3:]
        columns = [column for column in cells[0] if drawn(table, index // 3, column) % 8]
        header = [column + "s" * (drawn(index, column) % 150 == 0) for column in columns] + ["x"] * (
            index % 5 == 4
        ) * 2
        lines = [header, *([each[column].replace('"', "") for column in columns] for each in cells)]
        lines[-1] += [""] * (index % 7 == 6)
        path = tmp_path / f"rows{index}.csv"
        path.write_text("\n".join(",".join(f'"{cell}"' for cell in line) for line in lines), "utf-8")
        kind = told(read_rows, path)
        found.append(
            kind
            if isinstance(kind, str)
            else [
                kind[0],
                [
                    [row.id, row.role, row.source, {k: v for k, v in row.fields.items() if v}]
                    for row in kind[1]
                ],
            ]
        )
    blank = tmp_path / "blank.csv"
    for text in (
        "",
        "a,b\n1,2\n",
        "gpu,op,dtype,latency_ms\n",
        "gpu,op,dtype,latency_ms,m\n" + "A,gemm,bf16,x,-1\n" * 15,
        f"{','.join(map(str, range(12)))},{','.join(map(str, range(12)))}\n",
    ):
        blank.write_text(text, "utf-8")
        found.append(told(lambda: [row.id for row in read_rows(blank)[1]]))
    check(FILE, f"files {table}", found)


def test_words() -> None:
    counts = (
        "img",
        "k images",
        "tokens",
        "million samples",
        "mel frames",
        "#seq",
        "training sequences",
        "ktok",
        "parsecs",
    )
    units = [
        f"{count}{per}{time}{gpu}"
        for count, per, time, gpu in itertools.product(
            counts,
            ("/", " per "),
            ("s", "sec", "ms", "min", "hour", "day", "week"),
            ("", "/GPU", " per chip"),
        )
    ] + ["fps", "QPS", "wps/gpu", "tps", "ips", "images/s (synthetic)", ""]
    batches = [
        f"{number}{unit}"
        for number in ("12", "1,024", "4k", "3.5k", "x")
        for unit in (
            "",
            " global",
            " (total)",
            " per GPU",
            "@FP16",
            " (FP32) / 256 (AMP)",
            "/96",
            "k/2k",
            " images/gpu",
            " bf16, 7 tf32",
        )
    ] + [f"{tag}: 64, fp32: 32k" for tag in ("amp", "half", "TF32", "mixed precision")]
    precisions = (
        "amp", "fp16", "FP16/mixed", "bfloat16", "TF32", "float32", "single", "int8", "fp8 e4m3", "nvfp4", "mxfp8",
        "16-bit", "32 bit", "fp_16", "brain float", "half", "?",
    )  # fmt: skip
    check(
        FILE,
        "words",
        [
            {unit: read_rate_unit(unit) for unit in units},
            {each: read_precision(each) for each in precisions},
            {
                each: read_number(each)
                for each in (*ODD, "1 000", "2'500.5", ".5", "1e3", "+7", "3 G", "2thousand", "1_000", "0x10")
            },
            {
                f"{cell} {each}": read_batch(cell, each)
                for cell in batches
                for each in ("fp16", "fp32", "tf32", "bf16", "int8")
            },
            [decade(size) for size in (1, 9.99, 1e3, 2e5, 1e9)],
            [read_settings(text) for text in ("name a=1 b=c=d", "name", " name  x=")],
        ],
    )


def test_machines() -> None:
    gpus = (
        "A100", "A100-SXM4-40GB", "A100 80GB PCIe", "H100", "H100 NVL", "H200", "V100", "V100-SXM3-32GB", "B200",
        "GB200", "T4", "L40S", "H800", "A800", "TPU v4", "RTX 4090", "8x A100", "",
    )  # fmt: skip
    systems = (
        "",
        "DGX A100",
        "DGX-2",
        "p4d.24xlarge",
        "ND96amsr_A100_v4",
        "a3-megagpu-8g",
        "HGX H100",
        "Selene",
        "Eos",
    )
    texts = (
        "", "8x HDR", "4x 200Gb/s InfiniBand", "8x400G NDR", "EFA 400 Gbps", "1x 100 GbE", "RoCE 2x200", "NVLink only",
        "3.2 Tbps", "8 x ConnectX-7", "TCPX 4x200", "Slingshot 4x 25 GB/s", "InfiniBand",
    )  # fmt: skip
    check(
        FILE,
        "machines",
        [
            {
                f"{gpu}, {system}, {memory}": told(find_node, gpu, system, memory)
                for gpu in gpus
                for system in systems
                for memory in (("", "40") if "A100" in gpu else ("",))
            },
            {f"{text}, {count}": told(read_adapters, text, count) for text in texts for count in (4, 8)},
            {
                gpu: told(gpu_name, gpu)
                for gpu in ("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3", "?")
            },
            {
                gpu: told(lambda gpu=gpu: engine_gpu(gpu).name)
                for gpu in ("h100_sxm", "a100_sxm", "b200_sxm", "l40s", "gb200", "x")
            },
            [told(model_settings, row) for row in rows_of("llm", 80, odd=3)],
        ],
    )


LOG = """# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728
# nccl-tests version 2.13.11 nccl-headers=21903 nccl-library=21805
# Collective test starting: all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid  17 on host1 device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  18 on host1 device  1 [0x0a] NVIDIA A100-SXM4-80GB
#  Rank  2 Group  0 Pid  19 on host2 device  0 [0x07] NVIDIA A100-SXM4-80GB
NCCL version 2.18.5+cuda12.2
host1:17:17 [0] NCCL INFO NCCL_ALGO set by environment to Ring.
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    21.50    0.05    0.09      0    21.10    0.05    0.09      0
     1048576        262144     float     sum       0    55.10   19.03   33.30    N/A    54.90   19.10   33.42    N/A
      131072         32768     float     sum            30.10    4.35    7.62   0e+00   30.00   4.37    7.65   0e+00
       65536         16384     float              0     33.30    1.97    1.85   0e+00   33.00   1.99    1.86   0e+00
# Avg bus bandwidth    : 12.1
"""


def test_logs() -> None:
    found, lines = [], LOG.splitlines()
    for index in range(60):
        at = drawn("line", index) % len(lines)
        words = lines[at].split(" ")
        word = drawn("word", index) % len(words)
        words[word : word + 1] = [[], [words[word]] * 2, ["0"], ["x"], ["N/A"], ["2"]][
            drawn("new", index) % 6
        ]
        changed = [*lines[:at], *([] if index % 9 == 8 else [" ".join(words)]), *lines[at + 1 :]]
        if index % 10 == 9:
            changed = changed[drawn("cut", index) % 9 :]
        found.append(
            told(
                lambda changed=changed: [
                    dict(row.fields) for row in read_log_text("\n".join(changed), "made")
                ]
            )
        )
    check(
        FILE,
        "logs",
        [
            [{k: v for k, v in row.items() if v} if isinstance(row, dict) else row for row in each]
            for each in found
        ],
    )


def test_packaged_runs() -> None:
    found = []
    for row in [row for row in load("llm") if row.text("plan")][::25]:
        run = read_training_run(row.fields)
        found.append(
            [
                run.plan.describe(),
                run.cluster.name,
                run.model.parameters,
                run.layer_only,
                run.chosen,
                run.implied,
            ]
        )
    check(FILE, "packaged runs", found)
