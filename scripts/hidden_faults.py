"""Draw faults by seed, hide each in a run, count how many `podsim why` names: python scripts/hidden_faults.py --seed 1

Twenty runs have one fault each, twenty have none. Half of the kinds of faults are simulated, half are injected into an
emulated cluster (network namespaces; without them, --simulated). `why` gets the record alone, which says nothing of the
fault. A fault counts as named if its kind is named with its rank, its pair of ranks or, for a clash, a port of two flows.
Any fault of another kind or port in a run, or one in a healthy run, is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import podsim
from podsim.answers.telemetry import Explained
from podsim.monitoring.port_faults import HOST_WAYS

EMULATED = ("slow link", "flapping port", "wrong cable", "slow disk", "late rank")
SIMULATED = (*EMULATED, "hot GPU", "clash", *HOST_WAYS)
PLANS = (
    {"model": "llama-2-7b", "on": "dgx-a100:4", "tp": 4, "pp": 2, "batch": 64},
    {"model": "llama-2-7b", "on": "dgx-a100:4", "tp": 8, "pp": 1, "batch": 32},
    {"model": "gpt-1.7b", "on": "dgx-a100:4", "tp": 4, "pp": 1, "batch": 64},
    {"model": "llama-3.1-8b", "on": "dgx-h100:4", "tp": 8, "pp": 2, "batch": 32},
    {"model": "llama-3.1-8b", "on": "dgx-h100:4", "tp": 8, "pp": 4, "batch": 32},
)
WIDE = {"model": "llama-2-7b", "on": "superpod-a100:2su", "tp": 8, "pp": 2, "batch": 40, "sequence": 8192}
"""the plan whose stages lie on two units, so that their sends cross the spines"""


@dataclass(frozen=True)
class Case:
    """A run, and the fault that is hidden in it."""

    kind: str
    """The kind of fault; empty for a healthy run."""
    is_emulated: bool
    ranks: frozenset[int]
    """The ranks that may be named."""
    options: tuple[str, ...]
    """The options of podsim emulate, or of podsim simulate as NAME=JSON."""
    command: tuple[str, ...] = ()
    """The command on the emulated cluster."""


def draw(rng: random.Random, kind: str, is_emulated: bool) -> Case:
    """A case with a fault of a kind at a random port or rank."""
    return _emulated(rng, kind) if is_emulated else _simulated(rng, kind)


def _emulated(rng: random.Random, kind: str) -> Case:
    where, ranks = rng.choice(
        (
            (("dgx-a100:2", "--set", "gpus_per_node=2", "--scale", "1/2500"), 4),
            (("dgx-a100:3", "--per", "server", "--scale", "1/3000"), 3),
        )
    )
    rank, other = rng.sample(range(ranks), 2)
    if ranks == 4 and kind == "wrong cable":  # cables within a server lead to the same switch, too
        other = (rank + 2) % 4
    ddp = (
        "podsim",
        "measure",
        "ddp",
        "--steps",
        "4",
        "--layers",
        "4",
        "--forward",
        "20ms",
        "--backward",
        "20ms",
    )
    writing = ("podsim", "measure", "checkpoint", "--to", tempfile.gettempdir(), "--size", f"{96 * ranks}MB",
               "--repeats", "2")  # fmt: skip
    command = writing if kind == "slow disk" or (not kind and rng.random() < 0.3) else ddp
    faults = {
        "slow link": ("--slow-link", f"{rank}={rng.uniform(0.25, 0.5):.2f}"),
        "flapping port": ("--flap", f"{rank}={rng.uniform(0.1, 0.3):.2f}"),
        "wrong cable": ("--swap", f"{rank}={other}"),
        "slow disk": ("--slow-disk", f"{rank}={rng.uniform(4, 8):.1f}"),
    }
    if kind == "late rank":
        command = (*ddp, "--slow", f"{rank}={rng.uniform(1.4, 2.0):.2f}")
    hidden = frozenset({rank, other} if kind == "wrong cable" else {rank})
    return Case(kind, True, hidden if kind else frozenset(), (*where, *faults.get(kind, ())), command)


def _simulated(rng: random.Random, kind: str) -> Case:
    plan = WIDE if kind == "clash" else rng.choice(PLANS)
    seed = rng.randrange(10_000)
    options: dict[str, object] = dict(plan)
    if kind == "clash":
        options["overrides"] = {"fabric.routing": "ecmp", "fabric.seed": str(seed)}
        return Case(kind, False, frozenset(), _texts(options))
    options |= {"ranks": "all", "jitter": 0.02, "seed": seed}
    ranks = 8 * int(str(plan["on"]).rpartition(":")[2])
    rank = rng.randrange(ranks)
    other = rng.choice([each for each in range(ranks) if each % 8 != rank % 8])
    hidden = {rank}
    if kind == "hot GPU":
        whole = {name: plan[name] for name in ("model", "on", "tp", "pp", "batch")}
        step = podsim.predict(**whole).step_time
        options["throttle"] = {rank: (rng.uniform(1.15, 1.4), rng.uniform(0.2, 0.5) * step)}
    elif kind == "wrong cable":
        options["swap"], hidden = {rank: other}, {rank, other}
    elif kind == "slow disk" or kind in HOST_WAYS:
        server, hidden = rank // 8, set(range(rank // 8 * 8, rank // 8 * 8 + 8))
        name, value = ("host", HOST_WAYS[kind]) if kind in HOST_WAYS else ("slow_disk", rng.uniform(2.5, 6))
        options[name] = {server: value}
    elif kind:
        name = {"slow link": "slow_link", "flapping port": "flap", "late rank": "slow"}[kind]
        low, high = {"slow link": (0.2, 0.4), "flapping port": (0.1, 0.4), "late rank": (1.08, 1.3)}[kind]
        options[name] = {rank: rng.uniform(low, high)}
    return Case(kind, False, frozenset(hidden if kind else ()), _texts(options))


def _texts(options: dict[str, object]) -> tuple[str, ...]:
    return tuple(f"{name}={json.dumps(value)}" for name, value in options.items())


def explained(case: Case, folder: Path) -> Explained:
    """What `podsim why` says of a case's record."""
    path = folder / "run.jsonl"
    path.unlink(missing_ok=True)
    if case.is_emulated:
        words = [
            sys.executable,
            "-m",
            "podsim.cli",
            "emulate",
            *case.options,
            "--save",
            str(path),
            "--",
            *case.command,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr[-500:]}")
    else:
        values = {name: json.loads(text) for name, _, text in (each.partition("=") for each in case.options)}
        for name in ("slow", "slow_link", "flap", "swap", "slow_disk", "host", "throttle"):
            if name in values:
                values[name] = {int(rank): value for rank, value in values[name].items()}
        values["throttle"] = {rank: tuple(pair) for rank, pair in values.get("throttle", {}).items()} or None
        podsim.simulate(**values, save=path)
        lines = path.read_text("utf-8").splitlines(keepends=True)
        head = json.loads(lines[0]) | {"question": {}}  # no costs: simulating again takes most of the time
        path.write_text("".join([json.dumps(head) + "\n", *lines[1:]]), "utf-8")
    return podsim.why(run=path)


def score(case: Case, answer: Explained) -> tuple[bool, int]:
    """(whether the hidden fault is named, the number of false alarms)."""
    right = 0
    for fault in answer.faults:
        named = {int(text.split("-")[0]) for text in fault.ranks.split(",") if text[:1].isdigit()}
        fits = len(named) > 1 if case.kind == "clash" else bool(named) and named <= case.ranks
        right += fault.kind == case.kind and fits
    return right > 0, len(answer.faults) - right


def cases(seed: int, count: int, with_emulation: bool) -> Sequence[Case]:
    """Twenty faults, each kind at least once, then twenty healthy runs, in random order."""
    rng = random.Random(seed)
    known = [(kind, False) for kind in SIMULATED] + [(kind, True) for kind in EMULATED if with_emulation]
    chosen = [known[k] if k < len(known) else rng.choice(known) for k in range(count)]
    chosen += [("", with_emulation and rng.random() < 0.5) for _ in range(count)]
    rng.shuffle(chosen)
    return [draw(rng, *each) for each in chosen]


def main() -> int:
    """Run, score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--count", type=int, default=20, help="faults, and healthy runs")
    parser.add_argument("--simulated", action="store_true", help="no emulated clusters")
    given = parser.parse_args()
    named = alarms = healthy_alarms = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(given.seed, given.count, not given.simulated):
            answer = explained(case, Path(folder))
            is_named, false = score(case, answer)
            named += is_named
            alarms += false if case.kind else 0
            healthy_alarms += false > 0 if not case.kind else 0
            said = (
                "; ".join(f"{fault.kind} {fault.port} ({fault.ranks})" for fault in answer.faults)
                or "nothing"
            )
            where = "emulated" if case.is_emulated else "simulated"
            good = is_named if case.kind else not answer.faults
            hidden = f"{case.kind or 'healthy'} {sorted(case.ranks)[:3] or ''}"
            print(f"{'ok  ' if good else 'MISS'} {where} {hidden}: {said[:150]}", flush=True)
    print(
        f"seed {given.seed}: {named} of {given.count} faults named; {healthy_alarms} of {given.count} healthy runs with "
        f"an alarm; {alarms} further faults named beside hidden ones"
    )
    return int(named < 0.9 * given.count or healthy_alarms > 0.05 * given.count)


if __name__ == "__main__":
    sys.exit(main())
