"""Some rows of every packaged table compare as they did when they were recorded; so do scores, bands and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_values import check
from reference.registry import kernel_files, registry
from reference.registry_change import kernel_origin
from reference.sensitivity import sensitivity

import podsim
from podsim.accuracy import bands, bands_networks, rankings, score
from podsim.accuracy.bars import packaged_accuracy, verdicts
from podsim.accuracy.benchmark_rates import BenchmarkRates
from podsim.accuracy.broken_fabric import judge_fabric
from podsim.accuracy.measured_reach import calibrated_software, faster_than_measured, nearest_run
from podsim.accuracy.own_step import read_measured, scatter_band
from podsim.accuracy.price_collectives import Call, call_seconds
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.tables import TABLES, load
from podsim.accuracy.target_runs import candidate_batches, round_to, submissions, target_run
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.learning.benchmarks import benchmarks
from podsim.network.collective_settings import CollectiveSettings
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

FILE = Path(__file__).with_name("rows_compared.json.gz")
MOST = {"vision": 7, "mlperf": 4, "llm": 4, "minutes": 3}
"""kind of table -> rows that are compared, 24 of others"""
LONG = (
    "losses-",
    "minutes-v0",
    "gemm-hopper",
    "mlperf-v1.1",
    "minutes-scale",
    "minutes-hopper",
    "sc21-figures",
    "vision-train",
    "gemm-a100",
    "mlperf-v0.7",
    "megatron-readme-2021",
)
"""starts of tables whose rows take a second and add no kind of row"""


def told(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a function returns, or what it says against it."""
    try:
        return function(*args, **options)
    except PodsimError as problem:
        return str(problem)[:300]


@pytest.mark.parametrize("table", [table for table in TABLES if not table.startswith(LONG)])
def test_rows_of_a_table(table: str) -> None:
    rows = load(table)
    step = max(1, len(rows) // MOST.get(rows.kind, 24))
    thin = replace(rows, rows=rows.rows[step // 2 :: step])
    found = compare_rows(thin)
    rest = compare_rows(thin, cross_validate=False) if rows.kind in ("kernels", "collectives") else ()
    check(FILE, table, [found, rest, verdicts([found])])


def test_scores() -> None:
    found, ramp = [], np.arange(1.0, 13.0)
    for turn in (1, 5, 7, 11):
        predicted, measured = (ramp * turn) % 13, (ramp * 3) % 13 + turn % 2 * (ramp % 3)
        sweeps = ["a", "b", "a", "", "b", "a", "c", "a", "b", "d", "d", "a"]
        found += [
            score.relative_errors(predicted, measured), score.mean_absolute_error(predicted, measured),
            rankings.kendall_tau(predicted, measured), rankings.kendall_tau(predicted // 3, measured // 4),
            rankings.sweep_tau(predicted, measured, sweeps), rankings.regrets(predicted // 2 + 1, measured, sweeps),
            rankings.regrets(predicted // 2 + 1, measured, sweeps, more_is_better=True),
            score.best_constant(predicted, measured), score.skill(predicted, measured, predicted * 0.4, 0.5),
        ]  # fmt: skip
    errors = [
        told(score.relative_errors, [1.0], [0.0]), told(score.relative_errors, [1.0, 2.0], [1.0]),
        told(score.relative_errors, [math.inf], [1.0]), told(score.mean_absolute_error, [], []),
        told(rankings.kendall_tau, [1.0], [1.0, 2.0]), told(score.best_constant, [], []),
        rankings.kendall_tau([1, 1], [1, 2]),
    ]  # fmt: skip
    check(FILE, "scores", [found, errors])


PLANS = [
    ("gpt3-175b", "dgx-a100-80gb:128", {"tp": 8, "pp": 16, "global_batch": 1536}),
    ("llama-3.1-8b", "dgx-h100:4", {"global_batch": 64}),
    ("llama-3.1-70b", "dgx-h100:32", {"tp": 8, "pp": 4, "global_batch": 512, "precision": "fp8"}),
    ("mixtral-8x7b", "dgx-h100:8", {"ep": 8, "tp": 2, "global_batch": 256}),
    ("llama-3.1-8b", "dgx1-v100:16", {"tp": 2, "precision": "fp16", "global_batch": 256}),
    ("llama-3.1-405b", "dgx-b200:64", {"tp": 8, "pp": 8, "global_batch": 512}),
]


@pytest.mark.parametrize("index", range(len(PLANS)))
def test_what_is_said_of_a_plan(index: int) -> None:
    name, on, fields = PLANS[index]
    model, cluster = load_model(name), load_cluster(on)
    degree = math.prod(fields.get(each, 1) for each in ("tp", "pp"))
    plan = Plan(**{"dp": cluster.gpus // degree} | fields)
    given: dict[str, Any] = {
        key: each for key, each in fields.items() if key not in ("global_batch", "precision")
    }
    asked = [
        {}, {"precision": fields.get("precision")} | given, given | {"measured": "20 s"},
        given | {"measured": "3%"}, given | {"batch": "64"}, {"overrides": {"gpu.clock": "3000 MHz"}},
    ]  # fmt: skip
    answers = [told(podsim.predict, name, on=on, **{k: v for k, v in each.items() if v}) for each in asked]
    check(FILE, f"plan {index}", [
        [told(faster_than_measured, model, cluster, plan, utilisation) for utilisation in (0.3, 0.5, 0.9)],
        told(nearest_run, model, cluster, plan),
        calibrated_software(cluster.gpu.architecture.lower()), told(scatter_band, cluster.gpu.architecture.lower()),
        [each if isinstance(each, str) else [
            each.step_time, each.band, each.faster_than, each.nearest, each.assumptions, each.warnings,
            each.software_range,
        ] for each in answers],
    ])  # fmt: skip


def test_bands() -> None:
    rows, found = bands.residuals(), []
    for row in rows[::40]:
        fitted = bands.FittedRuns([other for other in rows if other.source != row.source])
        found.append(bands.left_out_band(row.features, row.software, row.without_source.distance, fitted))
    alike = [
        bands.run_distances(row.features, row.sizes, bands.run_columns(rows[::40])) for row in rows[::200]
    ]
    networks = bands_networks.network_residuals()
    graphs = [
        told(bands_networks.band_of_graph, replace(row.features, **change), [
            each for each in networks if each.id != row.id])
        for row in networks[::80] for change in ({}, {"work": "another"}, {"network": "another"}, {"precision": "fp8"})
    ]  # fmt: skip
    widths = [
        told(bands.operand_bits, each)
        for each in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4", "mxfp8")
    ]
    check(FILE, "bands", [found, alike, graphs, widths])


def test_measured_steps() -> None:
    texts = (
        "20 s",
        "350ms",
        "4.2 min",
        "40%",
        "0 s",
        "-1 s",
        "x",
        "",
        "20 s software=megatron-2022",
        "1e9 h",
        "12",
    )
    check(FILE, "measured steps", [told(read_measured, text) for text in texts])


def test_benchmarks() -> None:
    rates, found = BenchmarkRates(), {}
    for name in ("resnet", "bert", "minigo", "gnn", "stable_diffusion", "flux1", "llama31_8b"):
        benchmark = benchmarks()[name]
        for round in (benchmark.rounds[-1], benchmark.rounds[0]):
            batches = told(candidate_batches, benchmark, round, 64)
            found[f"{name} {round}"] = [batches, [
                told(lambda on=on, b=batches, r=round, w=benchmark: submissions(w, r, load_cluster(on))[:3])
                for on in ("dgx-a100:1", "dgx-h100:1")
            ]]  # fmt: skip
            if benchmark.model or isinstance(batches, str) or round != benchmark.rounds[-1]:
                continue
            for on, batch in (("dgx-a100-80gb:8", batches[0]), ("dgx-h100:2", 5.0)):
                cluster = load_cluster(on)
                found[f"{name} {round} {on}"] = [
                    told(target_run, benchmark, round, cluster, batch, rates, samples)
                    for samples in (None, 1e6)
                ]
                for framework in ("pytorch", "mxnet"):
                    key = f"{name} {round} {on} {framework}"
                    found[key] = told(rates.rate, benchmark, round, cluster, batch, framework)
    sizes = [round_to(batch, gpus) for batch in (0.3, 1, 3, 100, 1000, 4097) for gpus in (1, 8, 48, 1024)]
    check(FILE, "benchmarks", [found, sizes])


@pytest.mark.parametrize("on", ["dgx-a100:4", "dgx-h100:8", "dgx1-v100:2", "dgx-b200:4"])
def test_fabrics(on: str) -> None:
    cluster = load_cluster(on)

    def calls(collective: str = "all_reduce", **settings: Any) -> dict[str, Call]:
        stated = CollectiveSettings(release="2.18", launch="process", **settings)
        return {
            f"{size}": Call(cluster=cluster, collective=collective, nodes=cluster.nodes, gpus=cluster.gpus, size=size,
                            settings=stated)
            for size in (10.0, 2e3, 3e4, 1e5, 1e6, 3e7, 1e8, 5e8, 2e9, 1e10)
        }  # fmt: skip

    plain, found = call_seconds(calls())[0], []
    for factor in (0.5, 1.2, 1.6, 2.5, 6.0, 40.0):
        found.append(judge_fabric(calls(), {id: value * factor for id, value in plain.items()}))
        late = {
            id: value * (factor if float(id) > 1e7 else 1.0) + 1e-4 * factor for id, value in plain.items()
        }
        found.append(judge_fabric(calls(gpudirect=False), late))
        found.append(judge_fabric(calls("send_recv"), late))
        found.append(judge_fabric(calls("all_gather", network="sockets"), dict(list(late.items())[4:])))
    check(FILE, f"fabric {on}", [found, judge_fabric(calls(), {}), judge_fabric({}, plain)])


def test_constants_listed_and_changed() -> None:
    constants = registry()
    listed = [each for at, each in enumerate(constants) if at % 12 == 0]
    raw = kernel_files()
    origins = [
        kernel_origin(raw, file, table)
        for file in raw
        for table in ("gemm.bf16", "gemm.fp8", "memory", "flash.flash2")
    ]
    check(FILE, "registry", [len(constants), listed, origins])


def test_what_a_constant_moves() -> None:
    wanted = ("kernels.a100-sxm4-80gb.gemm.bf16.ceiling", "software.megatron-2022.gemm_speed", "fabrics.")
    named = [next((each for each in registry() if each.name.startswith(name)), None) for name in wanted]
    some = [each for each in named if each] + list(registry())[5::300]
    found = sensitivity(("korthikanti",), constants=some)
    check(FILE, "sensitivity", [[each.constant.name, each.moved] for each in found])


def test_features_of_plans() -> None:
    found = []
    for name, on in (
        ("gpt3-175b", "dgx-a100-80gb:8"),
        ("llama-3.1-8b", "dgx-h100:1"),
        ("mixtral-8x7b", "dgx1-v100:2"),
    ):
        model, cluster = load_model(name), load_cluster(on)
        for zero, tp, pp in (
            (0, 1, 1),
            (1, 4, 1),
            (0, 1, 4),
            (3, 1, 1),
            (3, 2, 1),
            (3, 1, 2),
            (2, 2, 2),
            (0, 2, 1),
        ):
            for software, precision in (
                ("megatron-2022", "bf16"),
                ("nemo-2025", "fp8"),
                ("megatron-deepspeed", "fp16"),
            ):
                plan = Plan(
                    zero=zero, tp=tp, pp=pp, dp=1, global_batch=16, software=software, precision=precision
                )
                found.append(told(bands.run_features, model, cluster, plan))
    check(FILE, "features", found)


def test_recorded_accuracy() -> None:
    for figures in (role for roles in packaged_accuracy().values() for role in roles.values()):
        assert figures["rows"] > 0
        assert 0 <= figures["mae"] < 3
