"""Profiles of PyTorch: steps, kinds, phases and what is hidden, by hand; real and broken files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_profiles import ADAM, FLASH, GELU, GEMM, NORM, REDUCE, events, profile, write
from made_timelines import pipeline, simulated

from podsim.answers.measured import MeasuredStep
from podsim.answers.simulated import SimulatedStep
from podsim.answers.timeline import Lane, Timeline
from podsim.errors import TimelineError
from podsim.report.plain_data import to_csv, to_json
from podsim.report.screen import report_text
from podsim.report.step_tables import against_report, measured_report, print_against, print_measured
from podsim.timeline.kineto import read_kineto
from podsim.timeline.kineto_compare import compare_steps
from podsim.timeline.kineto_kinds import kind_of, parallelism_of
from podsim.timeline.spans import covered_seconds, uncovered_seconds


def seconds(step: MeasuredStep) -> dict[tuple[str, str], tuple[float, float, float, float]]:
    return {
        (k.kind, k.group): (k.count, *(round(v * 1e6, 3) for v in (k.busy, k.wall, k.exposed)))
        for k in step.kinds
    }


EXPECTED = {
    ("norm", "forward"): (1, 50, 50, 50), ("gemm", "forward"): (1, 100, 100, 100),
    ("attention", "forward"): (1, 50, 50, 50), ("elementwise", "forward"): (1, 50, 50, 50),
    ("gemm", "backward"): (2, 200, 200, 200), ("all-reduce", "tp"): (1, 100, 100, 50),
    ("optimizer", "optimizer"): (1, 100, 100, 100), ("memcpy", "copy"): (1, 10, 10, 10),
}  # fmt: skip


def test_two_steps_by_hand(tmp_path: Path) -> None:
    """The last step ends with the recording, so that the first alone is whole."""
    step = read_kineto(write(tmp_path / "t.json"))
    assert step.steps == ("ProfilerStep#3",)
    assert step.step_time == pytest.approx(1e-3)
    assert seconds(step) == EXPECTED
    assert (step.device, step.rank, step.ranks) == ("NVIDIA A100-SXM4-80GB", 3, 8)
    assert step.arithmetic == pytest.approx(550e-6)
    assert step.exposed == pytest.approx(50e-6)
    assert step.idle == pytest.approx(390e-6)
    assert [lane.name for lane in step.timeline.lanes] == ["stream 7", "stream 20"]
    assert step.timeline.start.min() == 0.0
    assert step.warnings == ()


def test_means_over_steps_and_one_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", events(4))
    three = read_kineto(path)
    assert three.steps == ("ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5")
    assert seconds(three) == EXPECTED
    assert three.step_times == pytest.approx((1e-3,) * 3)
    last = read_kineto(path, step=6)
    assert last.step_time == pytest.approx(760e-6)
    assert seconds(last) == EXPECTED
    with pytest.raises(TimelineError, match="no step 9; it holds steps 3, 4, 5, 6"):
        read_kineto(path, step=9)


def test_gzip_and_the_order_of_events_change_nothing(tmp_path: Path) -> None:
    held = events(3)
    plain = read_kineto(write(tmp_path / "t.json", held))
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(json.dumps(profile(held[::-1])).encode()))
    packed = read_kineto(tmp_path / "t.json.gz")
    assert seconds(packed) == seconds(plain)
    assert packed.idle == pytest.approx(plain.idle)


def test_a_profile_without_steps_is_one_and_says_so(tmp_path: Path) -> None:
    step = read_kineto(write(tmp_path / "t.json", events(1, named=False)))
    assert step.step_time == pytest.approx(760e-6)
    assert "names no step" in step.warnings[0]
    with pytest.raises(TimelineError, match=r"names no step; call profiler\.step"):
        read_kineto(tmp_path / "t.json", step=3)


def test_without_launches_phases_are_not_guessed(tmp_path: Path) -> None:
    held = [event for event in events() if event.get("cat") not in ("cuda_runtime", "cpu_op")]
    step = read_kineto(write(tmp_path / "t.json", held))
    assert {group for _, group in seconds(step)} == {"compute", "tp", "optimizer", "copy"}
    assert step.step_time == pytest.approx(1e-3)


def test_unknown_kernels_are_told(tmp_path: Path) -> None:
    held = events()
    for event in held:
        if event.get("name") == GEMM:
            event["name"] = "mystery_7"
    step = read_kineto(write(tmp_path / "t.json", held))
    assert "knows kernels of 45 % of the busy time: mystery_7" in step.warnings[0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (GEMM, "gemm"), (FLASH, "attention"), (NORM, "norm"), (GELU, "elementwise"),
        (REDUCE, "all-reduce"), (ADAM, "optimizer"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "gemm"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT", "gemm"),
        ("ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE", "reduce-scatter"),
        ("ncclDevKernel_AllGather_RING_LL", "all-gather"), ("ncclDevKernel_SendRecv(ncclDevComm*)", "send-recv"),
        ("ncclDevKernel_Generic_4", "communication"), ("ncclDevKernel_Broadcast_RING_LL", "broadcast"),
        ("Memcpy HtoD (Pageable -> Device)", "memcpy"), ("Memset (Device)", "memset"),
        ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float>", "embedding"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>", "reduction"),
        ("triton_poi_fused_add_mul_silu_3", "elementwise"), ("triton_red_fused__to_copy_native_layer_norm_2", "norm"),
        ("triton_fused_who_knows", "fused"), ("cudnn::bn_fw_tr_1C11_kernel_NCHW", "norm"),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4", "convolution"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 9, false, false>", "attention"),
        ("aten::addmm", "gemm"), ("aten::cross_entropy_loss", "loss"), ("zzz", "other"),
    ],
)  # fmt: skip
def test_kinds_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_collectives_by_their_groups() -> None:
    assert kind_of("ncclDevKernel_Generic_4", "_allgather_base") == "all-gather"
    named = {
        "TENSOR_MODEL_PARALLEL_GROUP": "tp", "mesh_tp": "tp", "DATA_PARALLEL_GROUP_WITH_CP": "dp", "mesh_fsdp": "dp",
        "PIPELINE_MODEL_PARALLEL_GROUP": "pp", "mesh_pp": "pp", "mesh_cp": "cp", "EXPERT_MODEL_PARALLEL_GROUP": "ep",
        "EXPERT_DATA_PARALLEL_GROUP": "dp", "EMBEDDING_GROUP": "pp",
        "default_pg": "communication", "": "communication",
    }  # fmt: skip
    found = {name: parallelism_of("all-reduce", {"Process Group Description": name}) for name in named}
    assert found == named
    assert parallelism_of("send-recv", {}) == "pp"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20), st.integers(0, 20))
def test_covered_time_is_counted_second_by_second(spans: list[tuple[int, int]], cut: int) -> None:
    held = np.array(spans, dtype=float).reshape(-1, 2)
    start, end = held[:, 0], held[:, 0] + held[:, 1]
    inside = [{t for a, n in part for t in range(a, a + n)} for part in (spans, spans[:cut], spans[cut:])]
    assert covered_seconds(start, end) == len(inside[0])
    assert uncovered_seconds(start[:cut], end[:cut], start[cut:], end[cut:]) == len(inside[1] - inside[2])


def sim(spans: list[tuple[str, str, float, float]]) -> SimulatedStep:
    """A simulated step of (lane, kind, start, end) in us on one process, and a busier one that is never meant."""
    base = simulated(1, 1)
    lanes = {name: k for k, name in enumerate(dict.fromkeys(lane for lane, *_ in spans))}
    kinds = {name: k for k, name in enumerate(dict.fromkeys(kind for _, kind, *_ in spans))}
    kind = np.array([kinds[k] for _, k, *_ in spans])
    timeline = Timeline(
        lanes=tuple(Lane(process="stage 0", name=name) for name in lanes), names=tuple(kinds), kinds=tuple(kinds),
        lane=np.array([lanes[lane] for lane, *_ in spans]), name=kind, kind=kind,
        start=np.array([1e-6 * s[2] for s in spans]), end=np.array([1e-6 * s[3] for s in spans]),
    )  # fmt: skip
    return replace(base, make_timeline=lambda: timeline, step_time=800e-6)


STEP = sim([
    ("compute", "forward", 0, 200), ("compute", "recompute", 200, 250), ("compute", "backward", 250, 500),
    ("tp", "tp", 450, 600), ("compute", "optimizer", 600, 650), ("dp", "dp", 650, 700),
])  # fmt: skip


def test_kind_by_kind_by_hand(tmp_path: Path) -> None:
    told = compare_steps(read_kineto(write(tmp_path / "t.json")), STEP)
    rows = {row.kind: row for row in told.rows}
    found = {
        kind: tuple(None if v is None else round(v * 1e6, 3) for v in (r.measured, r.simulated))
        for kind, r in rows.items()
    }
    assert found == {
        "forward": (250, 200), "backward": (200, 300), "tp": (100, 150), "optimizer": (100, 50), "dp": (None, 50),
        "copy": (10, None),
    }  # fmt: skip
    assert rows["backward"].difference == pytest.approx(0.5)
    assert rows["backward"].simulated_of == ("recompute", "backward")
    assert rows["dp"].difference is None
    assert told.difference == pytest.approx(-0.2)
    assert (told.exposed.measured, told.exposed.simulated) == (pytest.approx(50e-6), pytest.approx(150e-6))
    assert (told.idle.measured, told.idle.simulated) == (pytest.approx(390e-6), pytest.approx(100e-6))


def test_kinds_that_both_name_stand_alone(tmp_path: Path) -> None:
    alike = sim(
        [("compute", "gemm", 0, 150), ("compute", "forward", 150, 200), ("tp", "all-reduce", 100, 220)]
    )
    rows = {row.kind: row for row in compare_steps(read_kineto(write(tmp_path / "t.json")), alike).rows}
    assert rows["gemm"].measured == pytest.approx(300e-6)
    assert rows["gemm"].simulated == pytest.approx(150e-6)
    assert rows["all-reduce"].simulated == pytest.approx(120e-6)
    assert rows["forward"].measured == pytest.approx(150e-6)


def test_what_a_trace_does_not_tell_is_one_row(tmp_path: Path) -> None:
    held = [event for event in events() if event.get("cat") not in ("cuda_runtime", "cpu_op")]
    for event in held:
        event.get("args", {}).pop("Process Group Description", None)
    rows = {row.kind: row for row in compare_steps(read_kineto(write(tmp_path / "t.json", held)), STEP).rows}
    assert set(rows) == {"compute", "communication", "optimizer", "copy"}
    assert rows["compute"].simulated == pytest.approx(500e-6)
    assert rows["communication"].simulated == pytest.approx(200e-6)


def test_a_process_of_the_simulation(tmp_path: Path) -> None:
    step = read_kineto(write(tmp_path / "t.json"))
    told = compare_steps(step, simulated(), process="stage 3 (ranks 24-31)")
    assert told.process == "stage 3 (ranks 24-31)"
    with pytest.raises(TimelineError, match=r"unknown process of the simulation 'stage 9'"):
        compare_steps(step, simulated(), process="stage 9")
    empty = replace(simulated(), make_timeline=_empty)
    with pytest.raises(TimelineError, match="no span"):
        compare_steps(step, empty)


def _empty() -> Timeline:
    made = pipeline(1, 1)
    none = np.zeros(0)
    whole = np.zeros(0, dtype=np.int64)
    return Timeline(
        lanes=made.lanes, names=(), kinds=(), lane=whole, name=whole, kind=whole, start=none, end=none
    )


def test_text_and_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = read_kineto(write(tmp_path / "t.json"))
    told = compare_steps(step, STEP)
    text = report_text(against_report(told))
    assert "1 ms measured, 800 us simulated (-20.0 %); of the simulation stage 0" in text
    assert "backward                 200 us     300 us     +50.0 %      +10.0 %  gemm" in text
    assert max(map(len, text.splitlines())) <= 100
    print_against(told)
    print_measured(step)
    assert report_text(measured_report(step)).splitlines()[0] in capsys.readouterr().out
    assert "5.0 % communication with no arithmetic at the same time (50 us)" in report_text(
        measured_report(step)
    )
    data = json.loads(to_json(told))
    assert data["rows"][0] == {
        "kind": "backward", "measured": pytest.approx(2e-4), "simulated": pytest.approx(3e-4),
        "difference": pytest.approx(0.5), "measured_of": ["gemm"], "simulated_of": ["recompute", "backward"],
    }  # fmt: skip
    assert to_csv(list(told.rows)).startswith("kind,measured,simulated,difference")


def cut(text: str, share: float) -> str:
    return text[: int(len(text) * share)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_told(share: float, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(cut(json.dumps(profile(events())), share), "utf-8")
    with pytest.raises(TimelineError, match=r"t\.json: truncated"):
        read_kineto(tmp_path / "t.json")
    packed = gzip.compress(json.dumps(profile(events())).encode())
    (tmp_path / "t.json.gz").write_bytes(packed[: int(len(packed) * share)])
    with pytest.raises(TimelineError, match=r"truncated"):
        read_kineto(tmp_path / "t.json.gz")


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"model_type": "llama", "hidden_size": 4096}, "JSON of another kind: it has model_type, hidden_size"),
        ({"traceEvents": []}, "no GPU kernel among 0 events"),
        ({"traceEvents": [{"ph": "X", "name": "x", "ts": 1, "dur": 1, "cat": "v8"}]}, "no GPU kernel among 1 events"),
        ({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "x"}]}, "event 1 is no event of a profiler"),
        ({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "x", "ts": "soon"}]}, "event 1 is no event"),
        ({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}]}, "1 ops of the CPU"),
    ],
)  # fmt: skip
def test_other_files_are_told(held: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(held), "utf-8")
    with pytest.raises(TimelineError, match=said):
        read_kineto(tmp_path / "t.json")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TimelineError, match="cannot be read"):
        read_kineto(tmp_path / "absent.json")


REAL = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, schedule
layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 8))
adam = torch.optim.AdamW(layer.parameters())
with profile(
    activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
    on_trace_ready=lambda one: one.export_chrome_trace(sys.argv[1]),
) as profiler:
    for _ in range(4):
        torch.nn.functional.cross_entropy(layer(torch.ones(32, 64)), torch.ones(32, dtype=torch.long)).backward()
        adam.step()
        adam.zero_grad()
        profiler.step()
"""


AVERAGES = """
import json
json.dump({one.key: [one.count, one.cpu_time_total] for one in profiler.key_averages()}, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[int, float]]]:
    """A trace of PyTorch's own, and the profiler's table of the same run."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("real")
    path, table = folder / "cpu.json.gz", folder / "table.json"
    command = [sys.executable, "-c", REAL + AVERAGES, str(path), str(table)]
    subprocess.run(command, check=True, capture_output=True)
    return path, json.loads(table.read_text())


@pytest.mark.torch
def test_a_real_trace_of_a_cpu(real: tuple[Path, dict[str, tuple[int, float]]]) -> None:
    path, _ = real
    with pytest.raises(TimelineError, match="ops of the CPU and no GPU kernel"):
        read_kineto(path)
    step = read_kineto(path, cpu=True)
    assert step.device == "CPU"
    assert len(step.steps) == 3
    assert "a trace of the CPU alone" in step.warnings[0]
    busy = {(one.kind, one.group): one.busy for one in step.kinds}
    assert {
        ("gemm", "forward"),
        ("gemm", "backward"),
        ("norm", "forward"),
        ("elementwise", "forward"),
    } <= set(busy)
    assert any(group == "optimizer" for _, group in busy)
    assert 0 < sum(one.wall for one in step.kinds) <= step.step_time * 1.001


@pytest.mark.torch
def test_a_real_trace_holds_what_torch_itself_counts(real: tuple[Path, dict[str, tuple[int, float]]]) -> None:
    """Calls and seconds of ops that nothing calls but the program, against the profiler's own table of the same run."""
    path, told = real
    timeline = read_kineto(path, cpu=True).timeline
    names = np.array(timeline.names)[timeline.name]
    length = timeline.end - timeline.start
    for name in ("aten::linear", "aten::layer_norm", "aten::gelu", "aten::cross_entropy_loss"):
        count, microseconds = told[name]
        assert (names == name).sum() == count > 0
        assert length[names == name].sum() == pytest.approx(microseconds / 1e6, rel=0.01, abs=2e-6 * count)
