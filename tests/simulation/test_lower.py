"""A plan as ops: pieces add up to the closed form's passes, equal ranks play alike, every schedule plays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lane_seconds import lane_seconds

from podsim.errors import SimulationError
from podsim.hardware.cluster import load_cluster
from podsim.schedules.actions import Work
from podsim.schedules.entries import SCHEDULES
from podsim.simulation.events import play, play_tiled
from podsim.simulation.lower import lower
from podsim.simulation.lower_links import Trouble
from podsim.simulation.pieces import block_pieces, merge_pieces
from podsim.training.batch import prepare
from podsim.training.layers import Pass
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, Recompute
from podsim.training.step import SPLIT
from podsim.workload.catalog import load_model

close = pytest.approx


def seconds(model, cluster, plan, **options):
    return play(lower(model, cluster, plan, **options).ops).seconds


# pieces

PLANS = (
    Plan(tp=2, global_batch=8, recompute="full"),
    Plan(tp=4, global_batch=8, sequence_parallel=True, recompute="selective", overlap_tp=True),
    Plan(cp=2, global_batch=8, flash=False),
    Plan(tp=2, global_batch=8, recompute="selective", software="torchtitan-2024"),
    Plan(tp=2, global_batch=8, recompute="full", software="llm-foundry-2023", sequence_parallel=True),
    Plan(tp=2, global_batch=8, recompute="full", software="megatron-2021", precision="fp16", flash=False),
)


@pytest.mark.parametrize(
    "plan", PLANS, ids=lambda p: f"{p.software} tp {p.tp} cp {p.cp} recompute {int(p.recompute)}"
)
@pytest.mark.parametrize("name", ["gpt-1.7b", "mixtral-8x7b", "t5-3b", "bert-large"])
def test_pieces_add_up_to_the_passes_part_by_part(name, plan, two):
    model = load_model(name)
    plan = replace(plan, ep=2 if model.layers[0].experts and int(plan.cp) == 2 else 1)
    ready = prepare(model, two, plan)
    table = ready.layers.table[..., 0]
    mode = int(plan.recompute)
    for b, pieces in enumerate(block_pieces(ready, two)):
        weight = sum((p.parts for p in pieces.weight), np.zeros(len(SPLIT)))
        for work, row in ((Work.FORWARD, Pass.FORWARD), (Work.BACKWARD, Pass.BACKWARD + mode)):
            found = sum((p.parts for p in pieces.action_pieces(work, 1.0)), np.zeros(len(SPLIT)))
            assert found[:6] == close(table[row, :, b], rel=1e-9, abs=1e-12), (b, work)
            assert not found[6:].any()
            assert sum(p.parts.sum() for p in merge_pieces(pieces.action_pieces(work, 1.0))) == close(
                found.sum()
            )
        apart = sum((p.parts for p in pieces.action_pieces(Work.INPUT, 1.0)), np.zeros(len(SPLIT)))
        assert apart + weight == close(found, abs=1e-12)
        assert weight[:2] == close(table[Pass.WEIGHT, :2, b], abs=1e-12)
        assert all(p.seconds >= -1e-12 for p in pieces.action_pieces(Work.BACKWARD, 1.0))


def test_hidden_collectives_run_beside_matrix_products(two, small):
    plan = Plan(tp=4, global_batch=8, sequence_parallel=True, overlap_tp=True)
    layer = block_pieces(prepare(small, two, plan), two)[1]
    hidden = [p for p in layer.forward if p.beside]
    assert {p.kind for p in hidden} == {"tp beside"}
    assert not any(p.parts.any() for p in hidden)
    after = [layer.forward[i + 1] for i, p in enumerate(layer.forward) if p.beside]
    assert {p.kind for p in after} == {"compute"}
    whole = sum(p.seconds for p in layer.forward if p.kind in ("tp", "tp beside"))
    apart = block_pieces(prepare(small, two, replace(plan, overlap_tp=False)), two)[1]
    assert whole == close(sum(p.seconds for p in apart.forward if p.kind == "tp"))


# equal ranks

GRIDS = (
    Plan(tp=2, pp=2, dp=2, global_batch=8),
    Plan(tp=2, pp=2, dp=4, zero=1, global_batch=16, micro_batch=2),
    Plan(pp=2, cp=2, dp=2, zero=3, global_batch=8),
    Plan(tp=2, dp=4, zero=2, global_batch=16, overlap_grad=False),
    Plan(tp=2, pp=4, dp=2, virtual_stages=2, schedule="interleaved", global_batch=16, sequence_parallel=True),
)
TROUBLES = (
    Trouble(),
    Trouble(slow={3: 1.3}),
    Trouble(link={2: 0.3}),
    Trouble(slow={0: 1.1, 5: 1.4}, link={1: 0.5, 5: 0.8}),
)


@pytest.mark.parametrize(
    "plan", GRIDS, ids=lambda p: f"tp {p.tp} pp {p.pp} cp {p.cp} dp {p.dp} zero {p.zero}"
)
@pytest.mark.parametrize("trouble", TROUBLES, ids=["none", "slow rank", "slow link", "several"])
def test_classes_play_as_every_rank_would(plan, trouble, two, small):
    """The coarsest partition and the finest, every rank by itself, say the same to rounding: of all, and of each rank."""
    folded = lower(small, two, plan, kernels=False, trouble=trouble)
    unfolded = lower(small, two, plan, kernels=False, unfold=True, trouble=trouble)
    few, all_ = play(folded.ops), play(unfolded.ops)
    assert few.seconds == close(all_.seconds, rel=1e-9)
    assert folded.classes.count <= unfolded.classes.count == int(plan.gpus)
    label = folded.classes.label.ravel()
    alone = unfolded.classes.label.ravel()
    mine, theirs = lane_seconds(folded, few), lane_seconds(unfolded, all_)
    assert mine[label] == close(theirs[alone], rel=1e-6, abs=1e-9)
    if not (trouble.slow or trouble.link):
        assert folded.classes.count == plan.pp


@pytest.mark.parametrize("name", ["gpt-1.7b", "mixtral-8x7b"])
def test_kernels_one_by_one_take_the_same_time(name, two):
    model = load_model(name)
    ep = 4 if model.layers[0].experts else 1
    for plan in (
        Plan(tp=2, pp=2, dp=4, ep=ep, zero=1, global_batch=16, sequence_parallel=True, recompute="selective"),
        Plan(tp=2, pp=2, dp=4, ep=ep, zero=3, global_batch=16, overlap_tp=True, recompute="full"),
        Plan(tp=2, pp=2, dp=4, schedule="zb-h1", global_batch=16),
    ):
        whole, single = (lower(model, two, plan, kernels=k) for k in (False, True))
        assert len(single.what) > 1.5 * len(whole.what)
        assert play(single.ops).seconds == close(play(whole.ops).seconds, rel=1e-9)


# every schedule


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_plays(name, two, small):
    v = 2 if SCHEDULES[name].problems(4, 1, 16) else 1
    plan = Plan(tp=2, pp=4, dp=2, virtual_stages=v, schedule=name, zero=1, global_batch=32)
    lowered = lower(small, two, plan, kernels=False)
    played = play(lowered.ops)
    assert np.isfinite(played.end).all()
    work = np.bincount(lowered.table.work, minlength=4)
    assert (
        work[Work.FORWARD]
        == work[Work.BACKWARD] + work[Work.INPUT]
        == lowered.table.stages * 16 / (2 if name == "dualpipe" else 1)
    )
    assert lane_seconds(lowered, played).sum(axis=1) == close(np.full(4, played.seconds))


@pytest.mark.parametrize("name", SCHEDULES)
def test_one_stage_has_one_order(name, two, small):
    """Whatever the schedule says of a pipeline, one rank runs forward and back."""
    rules = [SCHEDULES[name].problems(1, v, 8) for v in (1, 2)]
    for v in [v for v, wrong in zip((1, 2), rules, strict=True) if not wrong]:
        plan = Plan(tp=2, dp=2, virtual_stages=v, schedule=name, global_batch=16)
        assert SCHEDULE_CODES[name] == plan.schedule
        assert seconds(small, two, plan) == close(seconds(small, two, Plan(tp=2, dp=2, global_batch=16)))


def test_a_uniform_pipeline_waits_as_the_textbook_says(two):
    """Four like stages: (p - 1) / m of the work, divided by the chunks where it is interleaved."""
    from podsim.workload.specification import Transformer
    from podsim.workload.transformer import build

    model = build(Transformer(name="tall", layers=32, hidden=8192, heads=64, vocab=8, sequence=2048))
    for schedule, v in (("1f1b", 1), ("gpipe", 1), ("interleaved", 4)):
        plan = Plan(tp=4, pp=4, global_batch=16, virtual_stages=v, schedule=schedule, overlap_grad=False)
        lowered = lower(model, two, plan, kernels=False)
        parts = lane_seconds(lowered, play(lowered.ops))
        busy = parts[1, [SPLIT.index(k) for k in ("compute", "memory", "launch", "tp", "pp")]].sum()
        assert parts[1, SPLIT.index("bubble")] / busy == close(3 / 16 / v, rel=0.1)


# trouble


def test_a_slow_gpu_slows_its_whole_group_and_never_more_than_itself(two, small):
    plan = Plan(tp=2, pp=2, dp=4, global_batch=32)
    base = seconds(small, two, plan, kernels=False)
    times = [seconds(small, two, plan, kernels=False, trouble=Trouble(slow={6: f})) for f in (1.0, 1.2, 1.5)]
    assert times[0] == close(base)
    assert base < times[1] < times[2] <= 1.5 * base


def test_half_an_adapter_takes_twice_as_long_where_nothing_hides_it(small):
    """Gradients between two nodes that nothing runs beside; the adapters are what limits them."""
    cluster = load_cluster("dgx-a100-80gb:2")
    plan = Plan(tp=8, dp=2, global_batch=2, overlap_grad=False)

    def exchanged(trouble):
        lowered = lower(small, cluster, plan, kernels=False, trouble=trouble)
        parts = lane_seconds(lowered, play(lowered.ops))
        return parts[:, SPLIT.index("dp")].max()

    base, half, tenth = (exchanged(Trouble(link={3: s} if s < 1 else {})) for s in (1.0, 0.5, 0.1))
    assert base <= half <= 2 * base * (1 + 1e-9)
    assert half * 2.5 < tenth <= 10 * base * (1 + 1e-9)


def test_noise_is_drawn_from_its_seed(two, small):
    plan = Plan(tp=2, pp=2, dp=2, global_batch=8)
    noisy = [
        seconds(small, two, plan, kernels=False, trouble=Trouble(jitter=0.05, seed=s)) for s in (1, 1, 2)
    ]
    assert noisy[0] == noisy[1] != noisy[2]
    assert noisy[0] > seconds(small, two, plan, kernels=False)  # the slowest of a group decides


@pytest.mark.parametrize("trouble", [Trouble(slow={8: 1.1}), Trouble(link={-1: 0.5})], ids=["slow", "link"])
def test_a_rank_that_is_not_there(trouble, two, small):
    with pytest.raises(SimulationError, match="does not exist; this job has ranks 0 to 7"):
        lower(small, two, Plan(tp=2, pp=2, dp=2, global_batch=8), trouble=trouble)


def test_too_many_ops_are_refused_before_they_are_made(monkeypatch, two, small):
    monkeypatch.setattr("podsim.simulation.lower.MOST_OPS", 1000)
    with pytest.raises(SimulationError, match="ops to play, more than 1,000: fold equal ranks"):
        lower(small, two, Plan(tp=2, pp=2, dp=2, global_batch=8))


def test_recomputing_some_layers_lies_between(two, small):
    plan = Plan(tp=2, pp=2, global_batch=8, dp=1)
    none, some, full = (
        seconds(small, two, replace(plan, recompute=mode, recompute_layers=layers), kernels=False)
        for mode, layers in ((Recompute.NONE, 0), (Recompute.FULL, 3), (Recompute.FULL, 0))
    )
    assert none + 0.2 * (full - none) < some < none + 0.3 * (full - none)


@pytest.mark.parametrize("unfold", [False, True])
@pytest.mark.parametrize("plan", GRIDS)
def test_rows_of_classes_run_as_their_ops_one_by_one_do(plan, unfold, two, small):
    lowered = lower(small, two, plan, kernels=False, unfold=unfold)
    rows, flat = play_tiled(lowered.tiled), play(lowered.ops)
    assert rows.seconds == close(flat.seconds, rel=1e-12)
    assert rows.end == close(flat.end, rel=1e-12)
    assert rows.start == close(flat.start, rel=1e-12)
    assert np.array_equal(rows.why, flat.why)
    every = np.arange(len(flat.end))
    assert np.array_equal(lowered.of_rows([row.what for row in lowered.rows], every), lowered.what)
