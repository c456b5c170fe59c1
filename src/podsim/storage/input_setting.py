"""What a user says of an input pipeline, as a setting; and what is remarkable about its stages and epochs."""

from __future__ import annotations

from podsim.answers.storage import EpochRow, StageRow
from podsim.errors import PodsimError, StorageError, raise_all
from podsim.hardware.cluster import load_cluster
from podsim.learning.benchmarks import convergence_law, find_benchmark
from podsim.options.storage_options import StorageInputOptions
from podsim.storage.cache import SHUFFLES, cache_of
from podsim.storage.catalog import load_storage
from podsim.storage.input_pipeline import Setting, data_bytes, most_accelerators, samples_of
from podsim.storage.speed import step_of
from podsim.storage.stripe import damage, net_capacity
from podsim.storage.workloads import load_workload
from podsim.units import parse_quantity

_DECODE = ("gpu", "cpu")


def read_setting(options: StorageInputOptions) -> Setting:
    """The workload on its nodes; StorageError with all that cannot be."""
    accelerators, shuffle, decode, readers = (
        options.accelerators, options.shuffle, options.decode, options.readers
    )  # fmt: skip
    samples, cold, lost = options.samples, options.cold, options.lost
    work = load_workload(options.workload)
    system, nodes = load_storage(options.on, options.overrides, client=options.client)
    cluster = load_cluster(f"{system.client.system.name}:{nodes}")
    problems = [
        f"{name}={value}: {rule}"
        for name, value, good, rule in (
            ("decode", decode, decode in _DECODE, f"one of {', '.join(_DECODE)}"),
            ("shuffle", shuffle, shuffle in SHUFFLES, f"one of {', '.join(SHUFFLES)}"),
            ("readers", readers, 1 <= readers <= 4096, "1 to 4096 threads for an accelerator"),
            ("samples", samples, samples is None or 1 <= samples <= 10**15, "1 or more"),
            ("cold", cold, 0.0 <= cold <= 1.0, "a share of the data, 0 to 1"),
            (
                "accelerators",
                accelerators,
                accelerators is None or 1 <= accelerators <= 10_000,
                "1 to 10,000 for a node",
            ),
        )
        if not good
    ]
    if accelerators is not None and not work.steps and accelerators != cluster.gpus_per_node:
        problems.append(
            f"accelerators={accelerators}: {work.name} runs on the {cluster.gpus_per_node} GPUs of each node"
        )
    if lost:
        hurt = damage(system, lost)
        if hurt.lost:
            problems.append(
                f"lost={lost}: {hurt.lost:.1%} of the stripes are gone, so nothing can train on the data"
            )
    if cold and not system.tier:
        problems.append(f"cold={cold:g}: {system.name} has no object store behind it")
    try:
        kept = cache_of(
            cluster.system, options.cache or ("none" if work.threshold else "page"), _size(options.cache_size)
        )
    except PodsimError as error:
        problems.append(str(error))
    raise_all(problems, StorageError)
    made = Setting(
        workload=work, cluster=cluster, accelerators=accelerators or cluster.gpus_per_node,
        step=step_of(
            work, cluster, batch=options.batch, accelerator=options.accelerator, software=options.era
        ), system=system,
        tier=load_storage(system.tier)[0] if system.tier else None, cache=kept, shuffle=shuffle, decode=decode,
        readers=readers, samples=samples or 0, cold=cold, lost=lost,
    )  # fmt: skip
    if made.overflow and made.tier is None:
        raise StorageError(
            f"{data_bytes(made) / 1e12:,.4g} TB of data do not fit {system.name}, which holds"
            f" {net_capacity(system) / 1e12:,.4g} TB: give fewer --samples, more servers, or a system with a tier"
        )
    return made


def _size(text: str) -> float | None:
    return parse_quantity(text, "B", what="cache size") if text else None


def input_notes(
    setting: Setting, stages: tuple[StageRow, ...], epochs: tuple[EpochRow, ...]
) -> tuple[str, ...]:
    """What is remarkable about an input pipeline, in words."""
    data = data_bytes(setting)
    first, later = epochs[0], epochs[-1]
    slow = min(stages, key=lambda row: row.rate)
    notes = [
        f"of its stages, {slow.stage} is the slowest: {slow.rate:,.0f} samples/s, held back by {slow.limit}"
    ]
    if first.rate < later.rate * (1 - 5e-4):  # what would be printed as 0.0 %
        notes.append(
            f"the first epoch is {1 - first.rate / later.rate:.1%} slower than later ones: {first.limit}"
        )
    else:
        notes.append("the first epoch is not slower than later ones")
    if setting.lost:
        servers = setting.system.servers
        notes.append(
            f"{setting.lost} of {servers} servers lost: their blocks are read as the rest of their stripes"
        )
    if setting.overflow:
        notes.append(
            f"{setting.overflow:.1%} of the data have no room on flash and come from {setting.system.tier} each epoch"
        )
    kept = setting.cache
    if kept.size and kept.size < data:
        notes.append(
            f"a node caches {kept.size / 1e9:,.0f} GB ({kept.kind}) of {data / 1e9:,.0f} GB; the rest is read each epoch"
        )
    if kept.kind == "nvme" and setting.system.kind in ("wekafs", "lustre"):
        notes.append(
            f"cachefilesd does not cache {setting.system.kind}: the job must copy its data to the drives itself"
        )
    notes += _batch_notes(setting)
    limit = setting.workload.threshold
    if limit:
        share = (
            later.rate * setting.step.compute / setting.step.batch / (setting.accelerators * setting.nodes)
        )
        notes.append(
            f"accelerator utilisation {share:.1%}; a result of MLPerf Storage must reach {limit:.0%}"
        )
        most = most_accelerators(setting, limit)
        notes.append(f"at {limit:.0%} the storage would feed at most {most:,} accelerators on each node")
    return tuple(notes)


def _batch_notes(setting: Setting) -> list[str]:
    """What the time to the target leaves open, by the global batch."""
    step, work = setting.step, setting.workload
    if step.target is None:
        return []
    batch, samples = step.target.batch, samples_of(setting)
    if batch > samples:
        return [f"no time to the target: a global batch of {batch:,.0f} is more than the {samples:,} samples"]
    law = convergence_law(find_benchmark(work.benchmark), step.software.removeprefix("mlperf-"))
    if law.smallest <= batch <= law.largest:
        return []
    return [f"epochs are extrapolated from global batches of {law.smallest:,.0f} to {law.largest:,.0f}"]
