"""A small pipeline played by hand, and what a simulated step would say of it: no number here comes from a law."""

from __future__ import annotations

import numpy as np

from podsim.answers.simulated import CriticalOps, LinkUse, SimulatedStep
from podsim.answers.timeline import Counter, Lane, Timeline

FORWARD, BACKWARD, HOP, ADAM = 1e-3, 2e-3, 5e-5, 5e-4
KINDS = ("forward", "backward", "tp", "pp", "optimizer")
NAMES = ("forward", "backward", "all-reduce", "send", "adam")


def one_f_one_b(stages: int, batches: int) -> list[list[tuple[str, int]]]:
    """Passes of each stage in order: 1F1B."""
    orders = []
    for stage in range(stages):
        warm = min(stages - stage - 1, batches)
        order = [("F", i) for i in range(warm)]
        for i in range(batches - warm):
            order += [("F", warm + i), ("B", i)]
        orders.append(order + [("B", i) for i in range(batches - warm, batches)])
    return orders


def passes(stages: int, batches: int) -> list[tuple[int, str, int, float, float]]:
    """(stage, pass, micro-batch, start, end) of every pass."""
    orders = one_f_one_b(stages, batches)
    done: dict[tuple[str, int, int], float] = {}
    at, free = [0] * stages, [0.0] * stages
    found = []
    while any(at[s] < len(orders[s]) for s in range(stages)):
        for s in range(stages):
            while at[s] < len(orders[s]):
                what, i = orders[s][at[s]]
                before = (
                    ("F", i, s - 1) if what == "F" else ("B", i, s + 1) if s < stages - 1 else ("F", i, s)
                )
                if before[2] >= 0 and before not in done:
                    break
                start = max(free[s], done[before] + HOP if before[2] >= 0 else 0.0)
                free[s] = done[what, i, s] = start + (FORWARD if what == "F" else BACKWARD)
                found.append((s, what, i, start, free[s]))
                at[s] += 1
    return found


def pipeline(stages: int = 4, batches: int = 8, tp: int = 8) -> Timeline:
    """The timeline of a step under 1F1B: three lanes a stage, memory and a network adapter as counters."""
    lanes = tuple(
        Lane(process=f"stage {s} (ranks {s * tp}-{s * tp + tp - 1})", name=name, copies=tp)
        for s in range(stages)
        for name in ("compute", "tp", "send")
    )
    rows: list[tuple[int, int, float, float, int, float]] = []
    played = passes(stages, batches)
    for s, what, i, start, end in played:
        rows.append((3 * s, int(what == "B"), start, end, i, np.nan))
        for k in range(4):
            rows.append(
                (
                    3 * s + 1,
                    2,
                    start + (end - start) * (k + 0.7) / 4,
                    start + (end - start) * (k + 0.95) / 4,
                    i,
                    1e7,
                )
            )
        if (what == "F" and s < stages - 1) or (what == "B" and s > 0):
            rows.append((3 * s + 2, 3, end, end + HOP, i, 3e7))
    for s in range(stages):
        last = max(end for stage, _, _, _, end in played if stage == s)
        rows.append((3 * s, 4, last, last + ADAM, -1, np.nan))
    lane, kind, start, end, batch, moved = (np.array(column) for column in zip(*rows, strict=True))
    return Timeline(
        lanes=lanes, names=NAMES, kinds=KINDS, lane=lane, name=kind, kind=kind, start=start, end=end,
        arguments={"micro_batch": batch, "bytes": moved},
        counters=tuple(
            one for s in range(stages) for one in _counters(lanes[3 * s].process, [p for p in played if p[0] == s])
        ),
    )  # fmt: skip


def _counters(process: str, played: list[tuple[int, str, int, float, float]]) -> tuple[Counter, Counter]:
    kept = sorted(
        [(p[3], 3e9) for p in played if p[1] == "F"] + [(p[4], -3e9) for p in played if p[1] == "B"]
    )
    time = np.array([0.0, *(t for t, _ in kept)])
    value = 20e9 + np.cumsum([0.0, *(v for _, v in kept)])
    busy = np.array([t for p in played for t in (p[4], p[4] + HOP)])
    order = np.argsort(busy, kind="stable")
    rate = np.tile([25e9, 0.0], len(played))[order]
    return (
        Counter(name="memory", process=process, unit="B", time=time, value=value),
        Counter(name="NIC 0 out", process=process, unit="B/s", time=busy[order], value=rate),
    )


def _critical(name: str, kind: str, where: str, count: int, seconds: float) -> CriticalOps:
    return CriticalOps(name=name, kind=kind, where=where, count=count, seconds=seconds)


def simulated(stages: int = 4, batches: int = 8) -> SimulatedStep:
    """What such a step says: sums by hand."""
    timeline = pipeline(stages, batches)
    seconds = timeline.seconds
    work = batches * (FORWARD + BACKWARD)
    # a node's adapter works at 24 GB/s for 6 ms (tp 4 GB/s of it), and another at 5 GB/s all the time
    time = np.array([0.0, 2e-3, 8e-3])
    rates = {"pp": np.array([0.0, 20e9, 0.0]), "tp": np.array([0.0, 4e9, 0.0])}
    first = LinkUse(
        name="node 0 NIC 2 out", copies=8, capacity=25e9, bytes=24e9 * 6e-3, busy=6e-3,
        carried={"pp": 20e9 * 6e-3, "tp": 4e9 * 6e-3}, time=time, rate=rates["pp"] + rates["tp"], rates=rates,
    )  # fmt: skip
    second = LinkUse(
        name="node 1 NIC 0 in", copies=4, capacity=25e9, bytes=5e9 * seconds, busy=seconds, carried={"dp": 5e9 * seconds},
        time=np.array([0.0]), rate=np.array([5e9]),
    )  # fmt: skip
    idle = LinkUse(
        name="node 2 NIC 0 out", copies=100, capacity=25e9, bytes=0.0, busy=0.0, carried={}, time=np.zeros(0),
        rate=np.zeros(0),
    )  # fmt: skip
    plan = {
        "tp": 8, "pp": stages, "dp": 1, "cp": 1, "ep": 1, "micro_batch": 1, "virtual_stages": 1, "schedule": "1f1b",
        "sequence_parallel": True, "zero": 0, "shard": 0, "recompute": "none", "recompute_layers": 0, "flash": True,
        "overlap_grad": False, "overlap_param": False, "overlap_tp": False,
    }  # fmt: skip
    return SimulatedStep(
        model="gpt-22b", cluster="selene (32 GPUs)", plan=plan, gpus=8 * stages, step_time=seconds,
        closed_form=0.95 * seconds, parts={"compute": work, "bubble": seconds - work - ADAM, "optimizer": ADAM},
        bubble=1 - work / seconds, ranks=stages, ops=len(timeline), represented=8 * len(timeline),
        make_timeline=lambda: timeline,
        links=(first, second, idle),
        critical=(
            _critical("backward", "backward", "stage 0 compute", batches, batches * BACKWARD),
            _critical("forward", "forward", "stage 3 compute", batches, batches * FORWARD),
            _critical("send", "pp", "stage 1 send", 6, 6 * HOP),
        ),
        memory=32e9, memory_limit=80e9, warnings=("stage 3 waits most of the time",),
    )  # fmt: skip
