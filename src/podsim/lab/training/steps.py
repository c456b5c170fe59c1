"""One step of a layout: forward and backward passes of all micro-batches, gradients added up, weights updated."""

from __future__ import annotations

from typing import Any

from podsim.lab.training.batches import Batches
from podsim.lab.training.gradient_norms import GradientNorms
from podsim.lab.training.optimizers import set_rate
from podsim.lab.training.pass_record import PassRecord, recorded_stage
from podsim.lab.training.precision_run import Numerics
from podsim.lab.training.rank_layout import Layout
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Wires, load_part
from podsim.schedules.torch_csv import to_csv
from podsim.whole_files import scratch_folder


class Stepper:
    """This rank's part of each step."""

    def __init__(
        self, job: Training, wires: Wires, layout: Layout, batches: Batches, numerics: Numerics
    ) -> None:
        """Nothing is computed yet."""
        self.record = PassRecord()
        self.job, self.wires, self.layout, self.batches = job, wires, layout, batches
        self.numerics = numerics
        self.micro = int(job.plan.micro_batches)
        self.last = len(job.cut) - 1 in layout.runs
        self.pipeline = None if job.schedule is None else self._pipeline()
        self.norms = GradientNorms(layout) if job.noise_scale else None

    def gradients(self, step: int) -> float | None:
        """Leave the step's gradients in the parameters; the mean loss of this replica, None where it is not known."""
        for _, parameter in self.layout.parameters():
            parameter.grad = None
        inputs, targets = self._share(step)
        if self.pipeline is None:
            return self._passes(inputs, targets)
        losses: list[Any] = []
        given = (inputs,) if 0 in self.layout.runs else ()
        self.pipeline.step(
            *given,
            target=targets if self.last else None,
            losses=losses if self.last else None,
            return_outputs=False,
        )
        factor = self.numerics.scale.value * self.micro
        return sum(float(loss) for loss in losses) / factor if self.last else None

    def update(self, step: int, loss: float | None = None) -> None:
        """Add the gradients up over the replicas, where that is not done yet, and move the weights.

        The weights stay where a gradient is not finite in a precision that may overflow.
        """
        parameters = [parameter for _, parameter in self.layout.parameters() if parameter.requires_grad]
        for parameter in parameters:
            _align_gradient(parameter)
        if self.layout.sums is not None:
            with self.record.span("gradients"):
                self.layout.sums.gradients(parameters)
        self.numerics.unscale(parameters)
        named = [pair for pair in self.layout.parameters() if pair[1].requires_grad]
        if self.job.is_checked and not self.numerics.accept(named, loss):
            return
        if self.norms is not None:
            self.norms.end_step(self.micro)
        for parameter in parameters:
            mine = self.layout.own[id(parameter)]
            if mine is not parameter:
                mine.grad = parameter.grad.to_local()
        set_rate(self.layout.optimizer, self.job.rate, step, self.job.warmup)
        with self.record.span("optimizer"):
            self.layout.optimizer.step()

    def _share(self, step: int) -> tuple[Any, Any]:
        """The samples of this replica, on its device."""
        torch, plan = self.wires.torch, self.job.plan
        batch, dp = int(plan.global_batch), int(plan.dp)
        each = batch // dp
        mine = slice(self.layout.replica * each, (self.layout.replica + 1) * each)
        inputs, targets = (torch.from_numpy(part[mine].copy()) for part in self.batches.batch(step, batch))
        return inputs.to(self.wires.device), targets.to(self.wires.device)

    def _passes(self, inputs: Any, targets: Any) -> float:
        """Micro-batches one after the other; gradients leave with the last."""
        run, total = self.layout.runs[0], 0.0
        pieces = zip(inputs.chunk(self.micro), targets.chunk(self.micro), strict=True)
        for number, (given, wanted) in enumerate(pieces):
            if self.layout.hooked:
                run.require_backward_grad_sync = number == self.micro - 1
            with self.record.span("forward", number):
                loss = self._loss(run(given), wanted) / self.micro
            with self.record.span("backward", number):
                (loss * self.numerics.scale.value).backward()
            if self.norms is not None:
                self.norms.add_micro_batch()
            total += float(loss.detach())
        return total

    def _loss(self, logits: Any, targets: Any) -> Any:
        cross_entropy = self.wires.torch.nn.functional.cross_entropy
        return cross_entropy(logits.flatten(0, -2).float(), targets.flatten())

    def _scaled_loss(self, logits: Any, targets: Any) -> Any:
        return self._loss(logits, targets) * self.numerics.scale.value

    def _pipeline(self) -> Any:
        """torch's runtime, given the schedule's table."""
        table = self.job.schedule
        schedules = load_part("torch.distributed.pipelining.schedules")
        assert table is not None
        stage_class = recorded_stage(self.record, self.layout.pipe_back)
        stages = [
            stage_class(run, stage, table.stages, self.wires.device, group=self.layout.pipe)
            for stage, run in self.layout.runs.items()
        ]
        runtime = schedules._PipelineScheduleRuntime(stages, self.micro, loss_fn=self._scaled_loss)
        with scratch_folder() as folder:
            path = folder / "schedule.csv"
            path.write_text(to_csv(table), "utf-8")
            runtime._load_csv(str(path))
        return runtime


def _align_gradient(parameter: Any) -> None:
    """A gradient that is whole, or a sum over ranks still to be made, becomes one that is divided as its parameter is."""
    grad = parameter.grad
    if hasattr(grad, "placements") and grad.placements != parameter.placements:
        parameter.grad = grad.redistribute(placements=parameter.placements)
