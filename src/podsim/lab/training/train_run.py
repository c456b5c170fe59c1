"""A training run on one rank: from the first weights, or a checkpoint, to the last step."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from podsim.answers.trained import WARM, MeasuredTraining, TrainedStep
from podsim.errors import LabError
from podsim.lab import usage
from podsim.lab.measured_collectives import device_name, message_seconds
from podsim.lab.ranks import Note, Task
from podsim.lab.training.adapters import frozen_digest, held_bytes
from podsim.lab.training.batches import Batches, batches_of
from podsim.lab.training.experts import merged_routing, routing_of
from podsim.lab.training.local_steps import OUTER, LocalSteps
from podsim.lab.training.parameter_servers import Replica, serve
from podsim.lab.training.pass_record import KEPT, PassRecord
from podsim.lab.training.precision_run import Numerics, merge_reports
from podsim.lab.training.pruning import Masks, accuracy
from podsim.lab.training.rank_layout import Layout, make_layout
from podsim.lab.training.steps import Stepper
from podsim.lab.training.train_job import Training
from podsim.lab.training.training_state import Keeper
from podsim.lab.wires import Board, Wires
from podsim.learning.batch_noise import noise_text

PARTS = (
    "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.fsdp", "torch.distributed.optim",
    "torch.distributed.pipelining.schedules", "torch.distributed.tensor.parallel",
)  # fmt: skip
"""what training loads of torch sooner or later; its optimizers load the first, which takes a second"""


def task_of(job: Training) -> Task:
    """The run as ranks do it; the result is that of `train`, as plain values."""
    return Task(
        work=partial(train, job), nodes=job.nodes,
        names={job.ranks: "the parameter server"} if job.served else {}, timeout=job.timeout, backend=job.backend,
        parts=PARTS,
    )  # fmt: skip


def train(job: Training, wires: Wires, note: Note) -> MeasuredTraining | None:
    """Train; what was measured at rank 0, None at the others. `note` hears each step, with its loss where it is known."""
    board, started = Board(wires), usage.now_text()
    processes = board.gather(usage.this_process())
    note("the network")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own ways
        layout = make_layout(job, wires)
        run = _Run(job, wires, board, layout, note)
        first = run.resume()
        message = message_seconds(wires, board) if job.emulated else 0.0
        wires.barrier()
        run.origin = time.perf_counter()
        before = usage.mark()
        if wires.rank >= job.ranks:
            run.late = serve(job, wires, layout)
        else:
            run.steps(first)
        wires.settle()
        run.used = usage.since(before)
    gathered, ended = run.gather(), run.end()
    if processes is None or gathered is None or ended is None:
        return None
    hosts = [process["host"] for process in processes]
    cpu, others = usage.busiest(ended[0], processes)
    network = job.network
    made = MeasuredTraining(
        model=network.name if network is not None else job.residual,
        changes=job.changes,
        plan={name: value for name, value in job.plan.describe().items() if isinstance(value, (int, str))},
        sequence=network.sequence if network is not None else 0,
        all_reduce=job.all_reduce.name if job.all_reduce is not None else "library", exchange=job.exchange,
        staleness=job.staleness, late=ended[1], data=job.data, seed=job.seed, rate=job.rate, ranks=job.ranks,
        optimizer=job.optimizer, warmup=job.warmup, prune_at=job.prune_at,
        accuracy=run.accuracy, routing=run.routing, local_steps=job.local_steps,
        slow={str(replica): factor for replica, factor in job.slow.items()},
        backend=wires.backend, device=device_name(wires),
        software=wires.software,
        hosts=tuple(hosts[: job.ranks]), cores=min(process["cores"] for process in processes), emulated=job.emulated,
        message=message, started=started,
        resumed=tuple(run.resumed), cpu=cpu, others=others, train=job.train, held=run.held(),
        **run.numbers(ended[2]), **ended[3],
        rows=tuple(
            TrainedStep(step=step, loss=loss, seconds=seconds, micro_norm=norms[0], batch_norm=norms[1])
            for step, (loss, seconds, norms) in enumerate(
                zip(gathered["losses"], gathered["seconds"], gathered["norms"], strict=True)
            )
        ),
    )  # fmt: skip
    return replace(made, noise=noise_text(made))


class _Run:
    """The state of a run on one rank: losses and seconds so far, and where its checkpoints are."""

    def __init__(self, job: Training, wires: Wires, board: Board, layout: Layout, note: Note) -> None:
        self.job, self.wires, self.board, self.layout, self.note = job, wires, board, layout, note
        self.losses: list[float | None] = []
        self.seconds: list[float] = []
        self.norms: list[tuple[float, float]] = []
        self.accuracy: dict[str, float] = {}
        self.routing: dict[str, float] = {}
        self.masks: Masks | None = None
        self.past: dict[str, list[float]] = {"losses": [], "seconds": []}
        self.resumed: list[int] = []
        self.numerics = Numerics(job, wires, layout)
        self.late: Mapping[str, int] = {}
        self.used: Mapping[str, float] = {}
        self.origin, self.record = 0.0, PassRecord()
        self.frozen = frozen_digest(layout.modules.values())
        self.keeper = (
            None if job.checkpoint is None else Keeper(job.checkpoint, job.keep, layout, wires, board)
        )

    def resume(self) -> int:
        """The first step to do; what a checkpoint holds is in place then, and the next one can be written."""
        if self.keeper is None:
            return 0
        step, job = 0, self.job
        if job.resume:
            self.note("the last checkpoint")
            step, history = self.keeper.load(job.same)
            if step:
                self.numerics.resume(history, step)
                self.past = {name: history[name][:step] for name in self.past}
                self.resumed = [*history["resumed"], step]
        if step < job.steps:  # said now, and not when the first steps are lost
            self.keeper.ready(min((step // job.every + 1) * job.every, job.steps) if job.every else job.steps)
        return step

    def steps(self, first: int) -> None:
        """All steps from the first."""
        job, wires = self.job, self.wires
        network = job.network
        batches = batches_of(
            job.data, vocabulary=network.vocab if network else 0, length=network.sequence if network else 0,
            side=job.image, classes=job.classes, seed=job.seed, images=network is None,
        )  # fmt: skip
        stepper = Stepper(job, wires, self.layout, batches, self.numerics)
        record = self.record = stepper.record
        record.origin = self.origin
        server = Replica(wires, self.layout, job.ranks) if job.served else None
        local = LocalSteps(job, wires, self.layout) if job.exchange in OUTER else None
        factor = job.slow.get(self.layout.replica, 1.0)
        self.prune(first, batches)
        for step in range(first, job.steps):
            start = time.perf_counter()
            record.step(is_counted=step - first >= WARM, is_kept=step >= job.steps - KEPT)
            self.numerics.start(step)
            loss = stepper.gradients(step)
            if factor > 1:
                time.sleep((factor - 1) * (time.perf_counter() - start))
            if server is None:
                stepper.update(step, loss)
            else:
                self.numerics.unscale([parameter for _, parameter in self.layout.parameters()])
                with record.span("exchange"):
                    server.exchange()
            if local is not None:
                with record.span("exchange"):
                    local.exchange(step)
            if self.masks is not None:
                self.masks.apply()
            wires.settle()
            if self.numerics.diverged is not None:
                return
            self.seconds.append(time.perf_counter() - start)
            self.losses.append(loss)
            self.norms = stepper.norms.lengths if stepper.norms is not None else []
            if loss is not None and not math.isfinite(loss):
                raise LabError(f"the loss of step {step} is {loss}: take a smaller --rate than {job.rate:g}")
            self.note(f"step {step}", done=step + 1, loss=loss, seconds=self.seconds[-1])
            self.prune(step + 1, batches)
            if job.checkpoint is not None and (
                step + 1 == job.steps or (job.every and (step + 1) % job.every == 0)
            ):
                self.keep(step + 1)
        self.measure("end", batches)

    def prune(self, done: int, batches: Batches) -> None:
        """Prune the weights if the run has come to that step, or had come there when its checkpoint was written."""
        prune_at = self.job.prune_at
        if not prune_at or self.masks is not None or done < prune_at:
            return
        if done == prune_at:
            self.measure("dense", batches)
        self.masks = Masks(self.wires.torch, self.layout.modules.values())
        if not self.masks.weights:
            raise LabError("--prune-at: no layer has inputs in multiples of 16 and outputs in multiples of 8")
        self.accuracy["kept"] = self.masks.kept()
        self.masks.apply()
        if done == prune_at:
            self.measure("pruned", batches)

    def measure(self, name: str, batches: Batches) -> None:
        """Measure the accuracy of the network as it is, on the first replica."""
        if self.job.test_samples and self.layout.replica == 0:
            self.accuracy[name] = accuracy(self.wires, self.layout, batches, self.job.test_samples)

    def keep(self, count: int) -> None:
        """Write a checkpoint after `count` steps."""
        assert self.keeper is not None
        self.note(f"the checkpoint of step {count}")
        steps = self.gather()
        history = (
            None
            if steps is None
            else {**steps, **self.numerics.history, "resumed": self.resumed, "same": self.job.same}
        )
        self.keeper.save(count, self.job.plan.describe(), history)

    def gather(self) -> dict[str, Any] | None:
        """Losses and seconds of all steps so far, at rank 0; None at the others."""
        reports = self.board.gather({"losses": self.losses, "seconds": self.seconds, "norms": self.norms})
        if reports is None:
            return None
        reports = reports[: self.job.ranks]
        heard = [
            report["losses"] for report in reports if report["losses"] and report["losses"][0] is not None
        ]
        means = [sum(losses) / len(losses) for losses in zip(*heard, strict=True)]
        slowest = [max(seconds) for seconds in zip(*(report["seconds"] for report in reports), strict=True)]
        seconds = [*self.past["seconds"], *slowest]
        return {
            "losses": [*self.past["losses"], *means],
            "seconds": seconds,
            "norms": _norms(reports, len(seconds)),
        }

    def held(self) -> dict[str, float]:
        """B of what this rank holds, and whether every bit of its frozen weights is as it was."""
        modules = self.layout.modules.values()
        unchanged = bool(self.frozen) and frozen_digest(modules) == self.frozen
        return {**held_bytes(modules, self.layout.moments), "frozen_unchanged": float(unchanged)}

    def numbers(self, merged: Mapping[str, Any]) -> dict[str, Any]:
        """What the precision did to the run, given what all ranks lost."""
        job, numerics = self.job, self.numerics
        if not job.is_checked:
            return {}
        return {
            "precision": job.precision, "loss_scale": job.loss_scale, "scales": tuple(numerics.scales),
            "skipped": tuple(numerics.skipped), "diverged": numerics.diverged, "lost": tuple(merged["lost"]),
            "lost_by": merged["lost_by"], "overflow": merged["overflow"],
        }  # fmt: skip

    def end(
        self,
    ) -> tuple[list[Mapping[str, float]], Mapping[str, int], Mapping[str, Any], dict[str, Any]] | None:
        """(processor time of each rank, how late gradients were, what rounding lost, what ranks did when), at rank 0."""
        reports = self.board.gather({
            "used": self.used, "late": self.late, "numbers": self.numerics.report, "record": self.record.report(),
            "routing": routing_of(self.layout.modules.values()),
        })  # fmt: skip
        if reports is None:
            return None
        lost = merge_reports([report["numbers"] for report in reports[: self.job.ranks]])
        self.routing = merged_routing([report["routing"] for report in reports[: self.job.ranks]])
        records = [report["record"] for report in reports[: self.job.ranks]]
        counted = max(len(self.seconds) - WARM, 1)
        return [report["used"] for report in reports], reports[-1]["late"], lost, recorded(records, counted)


def recorded(records: list[dict[str, Any]], steps: int) -> dict[str, Any]:
    """The records of all ranks as fields of a run; steps: those whose processor time was counted."""
    kinds = {kind for record in records for kind in record["processor"]}
    spans = [(rank, *span) for rank, record in enumerate(records) for span in record["spans"]]
    return {
        "processor": {
            kind: sum(record["processor"].get(kind, 0.0) for record in records) / len(records) / steps for kind in kinds
        },
        "span_rank": tuple(span[0] for span in spans), "span_name": tuple(span[1] for span in spans),
        "span_start": tuple(span[2] for span in spans), "span_end": tuple(span[3] for span in spans),
    }  # fmt: skip


def _norms(reports: list[dict[str, Any]], steps: int) -> list[tuple[float, float]]:
    """Squared lengths of the gradients of a micro-batch and of the batch, over all replicas; 0 for steps without."""
    norms = [report["norms"] for report in reports]
    means = [(sum(pair[0] for pair in pairs) / len(pairs), pairs[0][1]) for pairs in zip(*norms, strict=True)]
    return [(0.0, 0.0)] * (steps - len(means)) + means
