"""A network divided over the ranks as a plan says: torch's own DDP, FSDP2, DTensor and pipeline stages.

degree                       is
dp, zero 0                   DistributedDataParallel; with tensor parallelism or a pipeline, where its hooks do not
                             reach, the same sum after the last backward pass
dp, zero 1                   and torch's ZeroRedundancyOptimizer
dp, zero 2 and 3             fully_shard (FSDP2), weights kept or not between forward and backward pass
tp, sequence_parallel        parallelize_module over DTensor, cut as Megatron-LM does
ep                           experts over neighbouring replicas (experts)
pp                           PipelineStage, a module for each part that the rank holds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podsim.lab.training.adapters import freeze
from podsim.lab.training.experts import ExpertShare, ExpertSums, expert_share
from podsim.lab.training.gpt import EVERY, gpt, pieces
from podsim.lab.training.optimizers import OPTIMIZERS, make_optimizer, optimizer_class
from podsim.lab.training.residual import residual_network
from podsim.lab.training.sums import Sums, hook_of
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Wires, load_part


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What one rank holds."""

    modules: dict[int, Any]
    """The part of the network itself, by pipeline stage."""
    runs: dict[int, Any]
    """The callable form of it: the same, or wrapped."""
    optimizer: Any
    moments: Any
    """The optimizer that holds the moments of this rank."""
    own: dict[int, Any]
    """The tensors that the optimizer moves, by the id of the parameter; for a DTensor the local part."""
    sums: Sums | None
    """The function that adds up the gradients after the backward passes; None if something else does."""
    hooked: bool
    """Whether gradients are added up during the backward pass."""
    pipe: Any
    """The process group of its pipeline."""
    pipe_back: Any
    """The group over which gradients go back through it."""
    replica: int
    """The number of its data-parallel replica."""
    stage: int
    """The position in the pipeline."""
    tensor: int
    """The position in the tensor-parallel group."""

    def parameters(self) -> list[tuple[str, Any]]:
        """Names in the whole network, and values."""
        return [pair for module in self.modules.values() for pair in module.named_parameters()]


def make_layout(job: Training, wires: Wires) -> Layout:
    """This rank's share of the network, on its device, with its optimizer. Every rank of the job calls it."""
    torch, plan = wires.torch, job.plan
    if job.exchange != "bsp":
        return _apart(job, wires)
    tp, pp, dp, zero = int(plan.tp), int(plan.pp), int(plan.dp), int(plan.zero)
    shards = min(int(plan.shard) or dp, dp)
    mesh = load_part("torch.distributed.device_mesh").init_device_mesh(
        wires.device.type, (pp, dp // shards, shards, tp), mesh_dim_names=("pp", "replica", "shard", "tp")
    )
    tensor, replica, stage = wires.rank % tp, wires.rank // tp % dp, wires.rank // (tp * dp)
    share = expert_share(wires, dp, int(plan.ep), plan.capacity_factor)
    modules = {k: module.to(wires.device) for k, module in _modules(job, stage, share).items()}
    if tp > 1:
        for module in modules.values():
            _divide(module, mesh["tp"], sequence=bool(plan.sequence_parallel))
    runs = dict(modules)
    alone = tp == 1 and pp == 1 and int(plan.ep) == 1 and bool(plan.overlap_grad)
    members = _copies(stage, tensor, tp, dp)
    group = _group(wires, [_copies(s, t, tp, dp) for s in range(pp) for t in range(tp)])
    back = mesh["pp"].get_group()
    if pp > 1 and wires.backend == "gloo":
        back = _group(wires, [tuple(range(first, pp * tp * dp, tp * dp)) for first in range(tp * dp)])
    sums = None
    if dp > 1 and zero < 2:
        part = wires.part(members, group)
        if alone:
            wrapped = torch.nn.parallel.DistributedDataParallel(modules[0])
            if job.all_reduce is not None:
                wrapped.register_comm_hook(None, hook_of(Sums(part, job.all_reduce)))
            runs = {0: wrapped}
        else:
            sums = ExpertSums(part, share) if int(plan.ep) > 1 else Sums(part, job.all_reduce)
    elif dp > 1 and zero >= 2:
        over = mesh["shard"] if shards == dp else mesh["replica", "shard"]
        shard = load_part("torch.distributed.fsdp").fully_shard
        for module in modules.values():
            for layer in module.layers.values():
                shard(layer, mesh=over, reshard_after_forward=zero == 3)
            shard(module, mesh=over, reshard_after_forward=zero == 3)
    trained = [
        member for module in modules.values() for member in module.parameters() if member.requires_grad
    ]
    own = {id(member): _own(torch, member) for member in trained}
    optimizer, moments = _optimizer(job, list(own.values()), group if zero == 1 and dp > 1 else None)
    return Layout(
        modules=modules, runs=runs, optimizer=optimizer, moments=moments, own=own, sums=sums,
        hooked=alone and dp > 1 and zero < 2, pipe=mesh["pp"].get_group(), pipe_back=back,
        replica=replica, stage=stage, tensor=tensor,
    )  # fmt: skip


def _apart(job: Training, wires: Wires) -> Layout:
    """A whole network on each replica, which updates it, and on a server, which then alone does."""
    modules = {k: module.to(wires.device) for k, module in _modules(job, 0, EVERY).items()}
    own = {} if job.served else {id(each): each for each in modules[0].parameters()}
    optimizer = make_optimizer(job.optimizer, list(own.values()), job.rate) if own else None
    return Layout(
        modules=modules, runs=modules, optimizer=optimizer, moments=optimizer, own=own, sums=None, hooked=False,
        pipe=None, pipe_back=None, replica=wires.rank, stage=0, tensor=0,
    )  # fmt: skip


def _copies(stage: int, tensor: int, tp: int, dp: int) -> tuple[int, ...]:
    """The ranks that hold the same weights."""
    return tuple(stage * tp * dp + member * tp + tensor for member in range(dp))


def _group(wires: Wires, groups: list[tuple[int, ...]]) -> Any:
    """This rank's process group of some; all ranks make all of them, in the same order."""
    made = [wires.torch.distributed.new_group(list(ranks)) for ranks in groups]
    return next(group for ranks, group in zip(groups, made, strict=True) if wires.rank in ranks)


def _modules(job: Training, stage: int, share: ExpertShare) -> dict[int, Any]:
    """The parts that a pipeline rank holds, by stage of the schedule."""
    if job.network is None:
        return {0: residual_network(job.residual, classes=job.classes, seed=job.seed)}
    parts, table = pieces(job.cut), job.schedule
    held = [0] if table is None else [k for k in range(table.stages) if int(table.stage_rank[k]) == stage]
    recompute = job.plan.describe()["recompute"] == "full"
    modules = {k: gpt(job.network, parts[k], seed=job.seed, recompute=recompute, share=share) for k in held}
    for module in modules.values():
        freeze(module, job.train, seed=job.seed)
    return modules


def _own(torch: Any, parameter: Any) -> Any:
    """A parameter, or this rank's part of a divided one: the same numbers in memory."""
    if not hasattr(parameter, "to_local"):
        return parameter
    return torch.nn.Parameter(parameter.detach().to_local())


def _optimizer(job: Training, own: list[Any], group: Any) -> tuple[Any, Any]:
    """(what steps, what holds the moments); with a group, moments are divided over it (ZeRO 1)."""
    if group is None:
        made = make_optimizer(job.optimizer, own, job.rate)
        return made, made
    zero = load_part("torch.distributed.optim").ZeroRedundancyOptimizer(
        own, optimizer_class=optimizer_class(job.optimizer), process_group=group, lr=job.rate,
        **dict(OPTIMIZERS[job.optimizer].settings)
    )  # fmt: skip
    return zero, zero.optim


def _divide(module: Any, mesh: Any, *, sequence: bool) -> None:
    """Tensor parallelism of a stage, as Megatron-LM cuts it; with `sequence`, tokens are divided between the cuts."""
    parallel, tensor = load_part("torch.distributed.tensor.parallel"), load_part("torch.distributed.tensor")
    everywhere = tensor.Replicate()
    between = tensor.Shard(1) if sequence else everywhere
    column, row = parallel.ColwiseParallel(), parallel.RowwiseParallel(output_layouts=between)
    table = parallel.RowwiseParallel(input_layouts=everywhere, output_layouts=between)
    # gathered once for all that read it, so that their gradients are added up before the ranks add them up
    shared = parallel.PrepareModuleInput(input_layouts=(between,), desired_input_layouts=(everywhere,))
    plan: dict[str, Any] = {
        "layers.*.mlp": shared, "layers.*.attention": shared,
        "tokens": table, "positions": table,
        "head": parallel.ColwiseParallel(input_layouts=between, output_layouts=everywhere),
        "layers.*.mlp.up": column, "layers.*.mlp.gate": column, "layers.*.mlp.out": row,
        "layers.*.attention.q": column, "layers.*.attention.k": column, "layers.*.attention.v": column,
        "layers.*.attention.out": row,
    }  # fmt: skip
    if sequence:
        norm = parallel.SequenceParallel(use_local_output=True)
        plan |= {"norm": norm, "layers.*.norm1": norm, "layers.*.norm2": norm}
    there = {name for name, module_name in module.named_modules() if module_name is not None}
    wanted = {
        name: style for name, style in plan.items() if any(_like(name, module_name) for module_name in there)
    }
    parallel.parallelize_module(module, mesh, wanted, src_data_rank=None)


def _like(pattern: str, name: str) -> bool:
    """Whether a module's name is meant by one of the plan's, whose * is a layer's number."""
    wanted, given = pattern.split("."), name.split(".")
    return len(wanted) == len(given) and all(a in ("*", b) for a, b in zip(wanted, given, strict=True))
