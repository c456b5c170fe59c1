"""Data sheets of servers and clusters: sums over their parts, with the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.infrastructure import infrastructure_of
from podsim.hardware.fattree import fat_tree
from podsim.hardware.nvlink import slot_link
from podsim.hardware.parts import System
from podsim.hardware.sheet_parts import peak_unit
from podsim.hardware.sheet_rows import (
    Row,
    Section,
    derived_row,
    given_row,
    product_row,
    quantity_text,
    ratio_row,
    word_row,
)


def system_sections(system: System) -> tuple[Section, ...]:
    """The sections of one server."""
    return tuple(
        Section(title=title, rows=tuple(rows))
        for title, rows in (
            ("GPUs", _gpus(system)),
            ("Between the GPUs", _inside(system)),
            ("Network", _network(system)),
            ("Host", _host(system)),
            ("Drives", _drives(system)),
            ("Power", _power(system)),
        )
    )


def _gpus(system: System) -> Iterator[Row]:
    gpu, printed = system.gpu, system.datasheet
    yield word_row(system, "GPU", gpu.name, field="gpu")
    yield given_row(system, "gpus", "GPUs")
    for label, value, unit, key in (
        ("GPU memory", gpu.memory, "B", "gpu_memory"),
        ("GPU memory bandwidth", gpu.memory_bandwidth, "B/s", ""),
    ):
        yield product_row(label, system.gpus, value, unit, printed=printed.get(key))
    for name in ("fp64_tensor", "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"):
        if name in gpu.peaks:
            yield _peak(system, f"{name}, dense", name, gpu.peaks[name])
    if "bf16" in gpu.sparse_peaks:
        yield _peak(system, "AI (bf16, 2:4 sparse)", "bf16", gpu.sparse_peaks["bf16"], key="ai")
    if "int8" in gpu.sparse_peaks:
        yield _peak(system, "int8, 2:4 sparse", "int8", gpu.sparse_peaks["int8"], key="int8")


def _peak(system: System, label: str, name: str, peak: float, *, key: str = "") -> Row:
    return product_row(label, system.gpus, peak, peak_unit(name), printed=system.datasheet.get(key))


def _inside(system: System) -> Iterator[Row]:
    gpu, printed = system.gpu, system.datasheet
    yield word_row(system, "joined by", system.topology, field="topology")
    if gpu.nvlinks and not gpu.bridge and system.topology not in ("pcie", "pcie-root"):
        rate, both = quantity_text(gpu.nvlink_bandwidth, "B/s"), 2 * gpu.nvlink
        yield derived_row(
            "NVLink per GPU, both directions",
            both,
            "B/s",
            f"{gpu.nvlinks} links x {rate} x 2 directions",
            printed=printed.get("nvlink"),
        )
        printed_all = printed.get("nvswitch")
        yield product_row(
            "NVLink of all GPUs, both directions", system.gpus, both, "B/s", printed=printed_all
        )
    if system.nvswitch:
        switch = system.nvswitch
        yield word_row(system, "NVSwitch", switch.name, field="nvswitch")
        yield given_row(system, "nvswitches", "NVSwitch chips")
        yield derived_row(
            "NVLinks per GPU and chip",
            gpu.nvlinks / system.nvswitches,
            "",
            f"{gpu.nvlinks} links / {system.nvswitches} chips",
        )
        yield derived_row(
            "bisection, one direction",
            system.gpus / 2 * gpu.nvlink,
            "B/s",
            f"{system.gpus} / 2 GPUs x {quantity_text(gpu.nvlink, 'B/s')}",
        )
    if system.pcie:
        slot, copied = slot_link(system), slot_link(system, copied=True)
        yield derived_row("PCI Express per GPU, one direction", slot.bandwidth, "B/s", slot.name)
        how = "measured, of both ways the slower"
        yield derived_row("copies between GPU and host", copied.bandwidth, "B/s", how)


def _network(system: System) -> Iterator[Row]:
    if system.nic is None:
        yield word_row(system, "compute adapters", "none", field="nics")
        return
    port, node = (system.nics, system.nic.bandwidth, "B/s"), system.nics * system.nic.bandwidth
    yield word_row(system, "compute adapter", system.nic.name, field="nic")
    yield given_row(system, "nics", "compute adapters")
    yield product_row("network, one direction", *port, bits=True)
    yield product_row(
        "network, both directions", *port, then=" x 2 directions", factor=2, printed=system.datasheet.get("network"),
        bits=True,
    )  # fmt: skip
    how = f"{quantity_text(node, 'B/s', bits=True)} / {system.gpus} GPUs"
    yield derived_row("network per GPU, one direction", node / system.gpus, "B/s", how, bits=True)
    if system.storage_nic and system.storage_nics:
        nic = system.storage_nic
        yield word_row(system, "storage adapter", nic.name, field="storage_nic")
        yield given_row(system, "storage_nics", "storage adapters")
        ports = f"{nic.ports} ports x {quantity_text(nic.bandwidth, 'B/s', bits=True)}"
        slot = f"a slot of {quantity_text(system.pcie.bandwidth, 'B/s', bits=True)}" if system.pcie else ""
        least = f"the least of {ports} and {slot}" if slot else ports
        how = f"{system.storage_nics} x {least}"
        yield derived_row("storage adapters, one direction", system.storage_rate, "B/s", how, bits=True)
        cables, note = system.storage_cables, "as reference designs: what slots feed at line rate"
        yield derived_row("storage ports with a cable", cables, "", note)
        yield product_row("storage network, one direction", cables, nic.bandwidth, "B/s", bits=True)


def _host(system: System) -> Iterator[Row]:
    yield given_row(system, "memory", "main memory", "B")
    if system.cpu is None:
        return
    cpu = system.cpu
    yield word_row(system, "CPU", cpu.name, field="cpu")
    yield given_row(system, "cpus", "CPUs")
    if cpu.socket_links:
        how = f"{cpu.socket_links} links of {quantity_text(cpu.socket_bandwidth, 'B/s')}"
        yield derived_row(f"{cpu.socket_name} between sockets, one direction", cpu.socket_rate, "B/s", how)
    if system.management:
        yield given_row(system, "management", "port for management (BMC)", "B/s", bits=True)
    yield product_row("cores", system.cpus, cpu.cores, "")
    yield given_row(cpu, "memory_bandwidth", "memory bandwidth per CPU", "B/s")
    yield product_row("memory bandwidth", system.cpus, cpu.memory_bandwidth, "B/s")


def _drives(system: System) -> Iterator[Row]:
    if system.ssd is None:
        yield word_row(system, "drives", "none in the catalog", field="ssd")
        return
    ssd, many = system.ssd, system.ssds
    yield word_row(system, "drive", ssd.name, field="ssd")
    yield given_row(system, "ssds", "drives")
    label = "NVMe cache" if "nvme" in ssd.name or "9300" in ssd.name else "cache"
    yield product_row(label, many, ssd.capacity, "B", printed=system.datasheet.get("cache"))
    for label, rate in (("cache, read", ssd.read_bandwidth), ("cache, write", ssd.write_bandwidth)):
        yield product_row(label, many, rate, "B/s", then=", striped")
    if boot := system.boot_ssd:
        yield word_row(system, "boot drive", boot.name, field="boot_ssd")
        yield given_row(system, "boot_ssds", "boot drives")
        yield derived_row("boot capacity", boot.capacity, "B", "mirrored")


def _power(system: System) -> Iterator[Row]:
    yield given_row(system, "power", "power, maximum", "W")
    yield product_row("of which GPUs", system.gpus, system.gpu.power, "W")
    yield word_row(system, "figures confirmed", system.confirmed)


def cluster_sections(cluster: Cluster) -> tuple[Section, ...]:
    """The sections of a cluster: its totals, then those of one node."""
    own = [Section(title="Cluster", rows=tuple(_totals(cluster)))]
    for title, rows in (
        ("Compute fabric", tuple(_fabric(cluster))),
        ("All networks, racks and cables", tuple(_surroundings(cluster))),
        ("Published", tuple(_published_rows(cluster))),
        ("Doubts", tuple(_doubts(cluster))),
    ):
        if rows:
            own.append(Section(title=title, rows=rows))
    node = (
        Section(title=f"{part.title}, one node", rows=part.rows) for part in system_sections(cluster.system)
    )
    return (*own, *node)


def _totals(cluster: Cluster) -> Iterator[Row]:
    gpu, system, gpus = cluster.gpu, cluster.system, cluster.gpus
    yield word_row(cluster, "system", system.name, field="system")
    yield given_row(cluster, "nodes", "nodes")
    yield derived_row("GPUs", gpus, "", f"{cluster.nodes} nodes x {cluster.gpus_per_node}")
    yield derived_row("GPU memory", gpus * gpu.memory, "B", f"{gpus:,} x {quantity_text(gpu.memory, 'B')}")
    for name, label in (("fp64_tensor", "fp64 of matrix products (peak of HPL)"), ("bf16", "bf16, dense")):
        if name in gpu.peaks:
            peak = gpu.peaks[name]
            yield derived_row(label, gpus * peak, "FLOP/s", f"{gpus:,} x {quantity_text(peak, 'FLOP/s')}")
    if "bf16" in gpu.sparse_peaks:
        peak = gpu.sparse_peaks["bf16"]
        yield derived_row(
            "AI (bf16, 2:4 sparse)", gpus * peak, "FLOP/s", f"{gpus:,} x {quantity_text(peak, 'FLOP/s')}"
        )
    link = cluster.nvlink
    yield derived_row(f"{link.name} per GPU, one direction", link.bandwidth, "B/s", "link used inside a node")
    if cluster.nics:
        port = quantity_text(cluster.network.bandwidth, "B/s", bits=True)
        node = cluster.node_bandwidth
        how = f"{cluster.nics} x {port} {cluster.fabric}"
        yield derived_row("network per node, one direction", node, "B/s", how, bits=True)
        how = f"{cluster.nodes} nodes x {quantity_text(node, 'B/s', bits=True)}"
        yield derived_row("network of all nodes, one direction", cluster.nodes * node, "B/s", how, bits=True)
        if node:
            ratio = cluster.gpus_per_node * link.bandwidth / node
            how = f"{cluster.gpus_per_node} x {quantity_text(link.bandwidth, 'B/s')} / {quantity_text(node, 'B/s')}"
            yield derived_row("inside to outside of a node", ratio, "", how)
    if system.ssd:
        yield product_row("cache on drives", cluster.nodes, system.ssds * system.ssd.capacity, "B")
    yield product_row("power of the nodes, maximum", cluster.nodes, system.power, "W")


def _fabric(cluster: Cluster) -> Iterator[Row]:
    """Switches and cables, if the system names its switch and unit."""
    system = cluster.system
    if system.switch is None or not system.unit or not cluster.nics or cluster.nodes < 2:
        return
    ports = system.switch.ports
    tree = fat_tree(nodes=cluster.hosts, rails=cluster.rails, unit=cluster.hosts_per_leaf, ports=ports)
    yield word_row(system, "switch", f"{system.switch.name}, {ports} ports", field="switch")
    how = "NCCL leaves it out unless told: --sharp (NCCL_COLLNET_ENABLE=1)" if system.switch.sharp else ""
    adds = "yes" if system.switch.sharp else "no"
    yield Row(
        label="reduces in the switch (SHARP)", value=None, unit="", text=adds, how=how, source="derived"
    )
    usual = "InfiniBand's own" if cluster.route_choice == "adaptive" else "the usual one of such switches"
    how = (
        "--set fabric.routing"
        if cluster.routing
        else f"{usual}; --set fabric.routing=ecmp, destination or static"
    )
    yield Row(label="routing", value=None, unit="", text=cluster.route_choice, how=how, source="derived")
    yield derived_row("scalable units", tree.units, "", f"{cluster.nodes} nodes / {system.unit}, rounded up")
    yield derived_row("leaf switches", tree.leaves, "", f"{tree.units} units x {tree.rails} rails")
    even = "each leaf has as many links to every spine that it reaches"
    groups = f"{tree.groups} groups of {tree.spines // tree.groups}; " if tree.cores else ""
    yield derived_row("spine switches", tree.spines, "", f"{groups}{even}")
    how = (
        f"{tree.spine_cables:,} links / {ports} ports"
        if tree.cores
        else "one layer of spines joins all leaves"
    )
    yield derived_row("core switches", tree.cores, "", how)
    yield derived_row("switches", tree.switches, "", f"{tree.leaves} + {tree.spines} + {tree.cores}")
    yield derived_row(
        "cables, node to leaf", tree.node_cables, "", f"{cluster.hosts} hosts x {tree.rails} rails"
    )
    how = f"{tree.leaves} leaves x {tree.leaf_cables // tree.leaves}, as many up as down"
    if tree.leaf_cables > tree.node_cables:
        how += " in a full unit: the last is built out"
    yield derived_row("cables, leaf to spine", tree.leaf_cables, "", how)
    how = "as many as below" if tree.cores else "no cores"
    yield derived_row("cables, spine to core", tree.spine_cables, "", how)
    per_unit = (tree.node_cables + tree.leaf_cables) / tree.units
    yield derived_row(
        "cables per unit, below the spines", per_unit, "", "node to leaf and leaf to spine / units"
    )


def _surroundings(cluster: Cluster) -> Iterator[Row]:
    """Storage and management networks, racks and cables, and what published counts leave open."""
    machine = infrastructure_of(cluster)
    if machine is None:
        return
    for network in machine.networks[1:]:
        ends = ", ".join(f"{count:,} of {name}" for name, count in network.ends.items())
        layers = " + ".join(str(count) for count in (network.leaves, network.spines, network.cores) if count)
        how = "; ".join(filter(None, (f"{layers} {network.switch} for {ends}", network.note)))
        yield derived_row(f"switches, {network.name} network", network.switches, "", how)
    yield derived_row(
        "InfiniBand switches", machine.infiniband_switches, "",
        " + ".join(f"{n.switches} {n.name}" for n in machine.networks if n.kind == "infiniband"),
    )  # fmt: skip
    if printed := cluster.published.get("switches"):
        rest = printed - machine.infiniband_switches
        how = f"{printed:,.0f} published, less {machine.infiniband_switches}: {abs(rest) / printed:.1%} unexplained"
        yield derived_row("InfiniBand switches left open", rest, "", how)
    yield derived_row("switches of all kinds", machine.switches, "", "with Ethernet for management")
    yield derived_row("cables of all networks", machine.cables, "", "ends, leaf to spine, spine to core")
    for label, networks in (
        ("length of InfiniBand cables", [n for n in machine.networks if n.kind == "infiniband"]),
        ("length of all cables", machine.networks),
    ):
        metres = sum(network.length for network in networks)
        yield replace(
            derived_row(label, metres, "m", "rows, racks and rises of the floor"),
            text=f"{metres / 1e3:,.1f} km",
        )
    for name, count in machine.racks.items():
        yield derived_row(f"racks of {name}", count, "", "by the counts of a rack in the catalog")
    yield derived_row("power of a rack of nodes, maximum", machine.rack_power, "W", "its nodes")


def _doubts(cluster: Cluster) -> Iterator[Row]:
    """What is odd about a user's values."""
    for remark in cluster.remarks:
        yield Row(label="", value=None, unit="", text="", how=remark, source=cluster.source)


def _published_rows(cluster: Cluster) -> Iterator[Row]:
    """Published figures, and ratios to the derived ones."""
    published = cluster.published
    for key, label, unit in (
        ("hpl", "HPL", "FLOP/s"),
        ("rpeak", "peak in the TOP500 list", "FLOP/s"),
        ("power", "power in HPL", "W"),
        ("storage", "shared storage", "B"),
        ("switches", "switches of all networks", ""),
    ):
        if key in published:
            yield given_row(cluster, "published", label, unit, key=key)
    if "hpl" in published and "fp64_tensor" in cluster.gpu.peaks:
        peak = cluster.gpus * cluster.gpu.peaks["fp64_tensor"], "FLOP/s"
        yield ratio_row("share of the fp64 peak in HPL", "", (published["hpl"], "FLOP/s"), peak)
    if "hpl" in published and "power" in published:
        work, power = (published["hpl"], "FLOP/s"), (published["power"], "W")
        yield ratio_row("HPL work per joule", "FLOP/J", work, power)
    if "power" in published:
        how = f"{quantity_text(published['power'], 'W')} / {cluster.nodes} nodes, network included"
        yield derived_row("power per node in HPL", published["power"] / cluster.nodes, "W", how)
