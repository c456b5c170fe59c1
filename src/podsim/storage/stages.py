"""The six stages of the pipeline, each alone and all at once, and the headroom of each resource.

    ingest      raw samples written                     validate    as training, at the cost of an evaluated sample
    transform   read, packed, written as records        inference   read and decoded, and a forward pass
    train       the first epoch                         tiering     records copied to the object store

All at once they share every link, and no stage gains a sample per second at the cost of a slower one (max-min).
Source: the stages are those of the reference architecture; the law is podsim.storage.input_pipeline's. Known error: only
training was ever measured separately. Stops being true: stages that wait for one another.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.storage import ShrinkRow, StageRow
from podsim.storage.fio import idle_latency
from podsim.storage.input_pipeline import (
    Setting,
    bytes_use,
    cold_share,
    data_bytes,
    links_of,
    samples_of,
    sum_uses,
    train_use,
)
from podsim.storage.storage_links import Links, Stream, share


@dataclass(frozen=True, kw_only=True)
class _Stage:
    """One stage: samples of a pass, and what one of them takes."""

    name: str
    samples: int
    moved: float
    """B. The bytes moved."""
    cpu: float
    use: dict[str, float]


def _stages(setting: Setting, links: Links) -> list[_Stage]:
    work, samples = setting.workload, samples_of(setting)
    cpu = work.core_seconds(setting.decode)
    wait = {"readers": idle_latency(setting.system, work.record, write=False)}
    raw_in = bytes_use(setting, links, work.raw, write=True)
    raw, read = (bytes_use(setting, links, size) for size in (work.raw, work.record))
    written = bytes_use(setting, links, work.record, write=True)
    stages = [_Stage(name="ingest", samples=samples, moved=work.raw, cpu=0.0, use=raw_in)]
    if work.transform_cpu:
        use = sum_uses(raw, written)
        moved = work.raw + work.record
        stages.append(_Stage(name="transform", samples=samples, moved=moved, cpu=work.transform_cpu, use=use))
    use = train_use(setting, links, 0.0, cold_share(setting, 0))
    stages.append(_Stage(name="train", samples=samples, moved=work.record, cpu=cpu, use=use))
    if work.validation:
        use = read | wait | {"accelerators": setting.step.each * setting.step.evaluated}
        stages.append(_Stage(name="validate", samples=work.validation, moved=work.record, cpu=cpu, use=use))
    if work.inference:
        use = read | wait | {"accelerators": 1.0 / work.inference}
        stages.append(_Stage(name="inference", samples=samples, moved=work.record, cpu=cpu, use=use))
    if setting.tier is not None:
        use = sum_uses(read, bytes_use(setting, links, work.record, write=True, tier=True))
        stages.append(_Stage(name="tiering", samples=samples, moved=work.record, cpu=0.0, use=use))
    return stages


def stage_rows(setting: Setting) -> tuple[StageRow, ...]:
    """Each stage alone, at the rate of the whole cluster, and its rate when all run at once."""
    links, nodes = links_of(setting), setting.nodes
    stages = _stages(setting, links)
    streams = [
        Stream(
            name=stage.name,
            use=stage.use | ({"processor": stage.cpu} if stage.cpu and "processor" in links else {}),
            copies=nodes,
        )
        for stage in stages
    ]
    rows = []
    for stage, stream, flow in zip(stages, streams, share(links, streams), strict=True):
        alone = share(links, [stream])[0]
        rate = alone.rate * nodes
        rows.append(StageRow(
            stage=stage.name, samples=float(stage.samples), bytes_per_sample=stage.moved, cpu=stage.cpu, rate=rate,
            seconds=stage.samples / rate, limit=alone.limit, together=flow.rate * nodes,
        ))  # fmt: skip
    return tuple(rows)


def shrink_rows(setting: Setting) -> tuple[ShrinkRow, ...]:
    """How far each resource may shrink, alone, before the first epoch is slower than the accelerators would be."""
    links = links_of(setting)
    use = train_use(setting, links, 0.0, cold_share(setting, 0))
    wanted = setting.accelerators * setting.nodes / setting.step.each
    load = {name: value * wanted / links[name].bandwidth for name, value in use.items()}
    system, client = setting.system, setting.system.client
    server = [
        load[name] for name in ("servers", "server ports out", "drives read", "drive reads") if name in load
    ]
    rows = []
    if server and not system.local:
        rows.append(_shrink("storage servers", system.servers - setting.lost, "count", max(server)))
    if system.server.ports and "server ports out" in load:
        rows.append(
            _shrink(
                "ports of a server", system.server.ports * system.server.port, "B/s", load["server ports out"]
            )
        )
    if client.ports:
        rows.append(
            _shrink("storage ports of a node", client.ports * client.port, "B/s", load["client ports in"])
        )
    if "client cores" in load and client.cores:
        rows.append(_shrink("client cores of a node", client.cores, "cores", load["client cores"]))
    if "drives read" in load:
        drives = system.server.ssds * (setting.nodes if system.local else system.servers - setting.lost)
        rows.append(_shrink("drives", drives, "count", load["drives read"]))
    if "processor" in load:
        rows.append(
            _shrink("processor cores of a node", setting.cluster.system.cores, "cores", load["processor"])
        )
    rows.append(_shrink("readers of an accelerator", setting.readers, "count", load["readers"]))
    if setting.cache.size:
        fed = all(value <= 1.0 for name, value in load.items() if name != "accelerators")
        needs = 0.0 if fed else min(data_bytes(setting), setting.cache.size)
        rows.append(ShrinkRow(resource="cache of a node", has=setting.cache.size, needs=needs, unit="B",
                              load=min(data_bytes(setting) / setting.cache.size, 1.0)))  # fmt: skip
    return tuple(rows)


def _shrink(resource: str, has: float, unit: str, load: float) -> ShrinkRow:
    return ShrinkRow(resource=resource, has=float(has), needs=has * load, unit=unit, load=load)
