"""Data sheets of single parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from podsim.hardware.parts import Cpu, Gpu, Nic, NvSwitch, Pcie, Ssd, Switch, matmul_peak
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


def peak_unit(precision: str) -> str:
    """The unit of a peak: OP/s for integers, else FLOP/s."""
    return "OP/s" if precision.startswith("int") else "FLOP/s"


def gpu_sections(gpu: Gpu) -> tuple[Section, ...]:
    """The sections of one accelerator."""
    return (
        Section(title="Chip", rows=tuple(_chip(gpu))),
        Section(title="Arithmetic", rows=tuple(_arithmetic(gpu))),
        Section(title="Memory", rows=tuple(_memory(gpu))),
        Section(title="Links", rows=tuple(_links(gpu))),
    )


def all_gpus_section(gpus: Iterable[Gpu]) -> Section:
    """Each accelerator in a line: its memory, bandwidth and fastest dense peak of 16 bits."""
    rows = []
    for gpu in gpus:
        half = "bf16" if "bf16" in gpu.peaks else "fp16"
        peak = quantity_text(matmul_peak(gpu, half), "FLOP/s")
        how = f"{quantity_text(gpu.memory_bandwidth, 'B/s')}, {half} {peak}, {gpu.architecture}"
        rows.append(
            Row(
                label=gpu.name,
                value=gpu.memory,
                unit="B",
                text=quantity_text(gpu.memory, "B"),
                how=how,
                source="",
            )
        )
    return Section(title="Memory, its bandwidth, dense peak", rows=tuple(rows))


def _chip(gpu: Gpu) -> Iterator[Row]:
    yield word_row(gpu, "architecture", gpu.architecture)
    yield given_row(gpu, "compute_capability", "compute capability")
    yield given_row(gpu, "sms", "SMs")
    yield given_row(gpu, "clock", "boost clock", "Hz")
    yield given_row(gpu, "power", "power", "W")
    yield word_row(gpu, "MIG", "yes" if gpu.mig else "no", field="mig")
    yield word_row(gpu, "kernel constants", gpu.kernels or "none fitted: a law of shapes is used")
    yield word_row(gpu, "figures confirmed", gpu.confirmed)


def _arithmetic(gpu: Gpu) -> Iterator[Row]:
    for name in gpu.peaks:
        yield given_row(gpu, "peaks", f"{name}, dense", peak_unit(name), key=name)
    for name in gpu.sparse_peaks:
        yield given_row(gpu, "sparse_peaks", f"{name}, 2:4 sparse", peak_unit(name), key=name)
    half = "bf16" if "bf16" in gpu.peaks else "fp16"
    peak = matmul_peak(gpu, half)
    yield derived_row(
        f"{half} work per clock and SM",
        peak / (gpu.sms * gpu.clock),
        "",
        f"{quantity_text(peak, 'FLOP/s')} / ({gpu.sms} SMs x {quantity_text(gpu.clock, 'Hz')})",
    )
    yield ratio_row(f"{half} work per joule", "FLOP/J", (peak, "FLOP/s"), (gpu.power, "W"))


def _memory(gpu: Gpu) -> Iterator[Row]:
    yield given_row(gpu, "memory", "memory", "B")
    yield given_row(gpu, "memory_bandwidth", "memory bandwidth", "B/s")
    yield given_row(gpu, "l2", "L2 cache", "B")
    rate = gpu.memory_bandwidth, "B/s"
    yield ratio_row("time to read all memory", "s", (gpu.memory, "B"), rate)
    half = "bf16" if "bf16" in gpu.peaks else "fp16"
    peak = matmul_peak(gpu, half), "FLOP/s"
    yield ratio_row(f"{half} work per byte read at the ridge", "", peak, rate)


def _links(gpu: Gpu) -> Iterator[Row]:
    yield given_row(gpu, "nvlinks", "NVLinks")
    if gpu.nvlinks:
        link = gpu.nvlinks, gpu.nvlink_bandwidth, "B/s"
        yield given_row(gpu, "nvlink_bandwidth", "one NVLink, one direction", "B/s")
        yield product_row("NVLink, one direction", *link)
        yield product_row("NVLink, both directions", *link, then=" x 2", factor=2)
        yield word_row(
            gpu, "NVLink reaches", "one neighbour, over a bridge" if gpu.bridge else "all GPUs of a server"
        )
    yield given_row(gpu, "pcie_generation", "PCI Express generation")
    yield given_row(gpu, "pcie_lanes", "PCI Express lanes")


def nvswitch_rows(switch: NvSwitch) -> Iterator[Row]:
    """The rows of one NVLink crossbar."""
    yield given_row(switch, "ports", "ports")
    yield given_row(switch, "bandwidth", "one port, one direction", "B/s")
    yield product_row(
        "all ports, both directions", switch.ports, switch.bandwidth, "B/s", then=" x 2", factor=2
    )
    yield word_row(switch, "reduces in the switch (SHARP)", "yes" if switch.sharp else "no", field="sharp")
    yield word_row(switch, "figures confirmed", switch.confirmed)


def nic_rows(nic: Nic) -> Iterator[Row]:
    """The rows of one network adapter."""
    yield word_row(nic, "kind", nic.kind)
    yield given_row(nic, "ports", "ports")
    yield given_row(nic, "bandwidth", "one port, one direction", "B/s", bits=True)
    yield product_row("all ports, one direction", nic.ports, nic.bandwidth, "B/s", bits=True)
    yield given_row(nic, "latency", "step of a small message", "s")
    yield word_row(nic, "figures confirmed", nic.confirmed)


def switch_rows(switch: Switch) -> Iterator[Row]:
    """The rows of one network switch."""
    yield word_row(switch, "kind", switch.kind)
    yield given_row(switch, "ports", "ports")
    yield given_row(switch, "bandwidth", "one port, one direction", "B/s", bits=True)
    yield product_row(
        "all ports, both directions", switch.ports, switch.bandwidth, "B/s", then=" x 2", factor=2, bits=True
    )
    yield given_row(switch, "latency", "port to port", "s")
    yield word_row(switch, "reduces in the switch (SHARP)", "yes" if switch.sharp else "no", field="sharp")
    half = switch.ports // 2
    yield derived_row(
        "ends of two layers of it, not oversubscribed",
        switch.ports * half,
        "",
        f"{switch.ports} leaves x {half} ports down",
    )
    yield word_row(switch, "figures confirmed", switch.confirmed)


def pcie_rows(pcie: Pcie) -> Iterator[Row]:
    """The rows of a slot of 16 lanes."""
    yield given_row(pcie, "generation", "generation")
    yield given_row(pcie, "bandwidth", "16 lanes, one direction", "B/s")
    yield given_row(pcie, "copies", "of which copies reach", "B/s")
    yield given_row(pcie, "duplex", "each direction while both run", "B/s")
    yield derived_row("one lane, one direction", pcie.bandwidth / 16, "B/s", "the slot / 16 lanes")
    yield given_row(pcie, "latency", "step of a small message", "s")
    yield word_row(pcie, "figures confirmed", pcie.confirmed)


def cpu_rows(cpu: Cpu) -> Iterator[Row]:
    """The rows of one processor."""
    yield word_row(cpu, "vendor", cpu.vendor)
    yield given_row(cpu, "cores", "cores")
    yield given_row(cpu, "clock", "base clock", "Hz")
    yield given_row(cpu, "memory_bandwidth", "memory bandwidth", "B/s")
    rate = cpu.memory_bandwidth, "B/s"
    yield ratio_row("memory bandwidth per core", "B/s", rate, (cpu.cores, ""), then=" cores")
    yield given_row(cpu, "pcie_lanes", "PCI Express lanes")
    yield given_row(cpu, "power", "power", "W")
    yield word_row(cpu, "figures confirmed", cpu.confirmed)


def ssd_rows(ssd: Ssd) -> Iterator[Row]:
    """The rows of one drive."""
    yield given_row(ssd, "capacity", "capacity", "B")
    yield given_row(ssd, "read_bandwidth", "sequential read", "B/s")
    yield given_row(ssd, "write_bandwidth", "sequential write", "B/s")
    for field, label in (("read_iops", "random reads of 4 KiB"), ("write_iops", "random writes of 4 KiB")):
        if getattr(ssd, field) is None:
            yield word_row(ssd, label, "no figure known", field=field)
        else:
            yield given_row(ssd, field, label, "1/s")
    yield ratio_row("time to read it all", "s", (ssd.capacity, "B"), (ssd.read_bandwidth, "B/s"))
    yield word_row(ssd, "figures confirmed", ssd.confirmed)
