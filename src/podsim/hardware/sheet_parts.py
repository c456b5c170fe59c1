"""Data sheets of single parts."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.hardware.parts import Cpu, Gpu, Nic, NvSwitch, Pcie, Ssd, Switch, matmul_peak
from podsim.hardware.sheet_rows import Row, Section, derived, given, text_of, word


def peak_unit(precision: str) -> str:
    """Unit of a peak: operations for integers."""
    return "OP/s" if precision.startswith("int") else "FLOP/s"


def gpu_sections(gpu: Gpu) -> tuple[Section, ...]:
    """What one accelerator can do."""
    return (
        Section(title="Chip", rows=tuple(_chip(gpu))),
        Section(title="Arithmetic", rows=tuple(_arithmetic(gpu))),
        Section(title="Memory", rows=tuple(_memory(gpu))),
        Section(title="Links", rows=tuple(_links(gpu))),
    )


def _chip(gpu: Gpu) -> Iterator[Row]:
    yield word(gpu, "architecture", gpu.architecture)
    yield given(gpu, "compute_capability", "compute capability")
    yield given(gpu, "sms", "SMs")
    yield given(gpu, "clock", "boost clock", "Hz")
    yield given(gpu, "power", "power", "W")
    yield word(gpu, "MIG", "yes" if gpu.mig else "no", field="mig")
    yield word(gpu, "kernel constants", gpu.kernels or "none fitted: a law of shapes is used")
    yield word(gpu, "figures confirmed", gpu.confirmed)


def _arithmetic(gpu: Gpu) -> Iterator[Row]:
    for name in gpu.peaks:
        yield given(gpu, "peaks", f"{name}, dense", peak_unit(name), key=name)
    for name in gpu.sparse_peaks:
        yield given(gpu, "sparse_peaks", f"{name}, 2:4 sparse", peak_unit(name), key=name)
    half = "bf16" if "bf16" in gpu.peaks else "fp16"
    peak = matmul_peak(gpu, half)
    yield derived(
        f"{half} work per clock and SM",
        peak / (gpu.sms * gpu.clock),
        "",
        f"{text_of(peak, 'FLOP/s')} / ({gpu.sms} SMs x {text_of(gpu.clock, 'Hz')})",
    )
    yield derived(
        f"{half} work per joule",
        peak / gpu.power,
        "FLOP/J",
        f"{text_of(peak, 'FLOP/s')} / {text_of(gpu.power, 'W')}",
    )


def _memory(gpu: Gpu) -> Iterator[Row]:
    yield given(gpu, "memory", "memory", "B")
    yield given(gpu, "memory_bandwidth", "memory bandwidth", "B/s")
    yield given(gpu, "l2", "L2 cache", "B")
    yield derived(
        "time to read all memory",
        gpu.memory / gpu.memory_bandwidth,
        "s",
        f"{text_of(gpu.memory, 'B')} / {text_of(gpu.memory_bandwidth, 'B/s')}",
    )
    half = "bf16" if "bf16" in gpu.peaks else "fp16"
    yield derived(
        f"{half} work per byte read at the ridge",
        matmul_peak(gpu, half) / gpu.memory_bandwidth,
        "",
        f"{text_of(matmul_peak(gpu, half), 'FLOP/s')} / {text_of(gpu.memory_bandwidth, 'B/s')}",
    )


def _links(gpu: Gpu) -> Iterator[Row]:
    yield given(gpu, "nvlinks", "NVLinks")
    if gpu.nvlinks:
        one = text_of(gpu.nvlink_bandwidth, "B/s")
        yield given(gpu, "nvlink_bandwidth", "one NVLink, one direction", "B/s")
        yield derived("NVLink, one direction", gpu.nvlink, "B/s", f"{gpu.nvlinks} x {one}")
        yield derived("NVLink, both directions", 2 * gpu.nvlink, "B/s", f"{gpu.nvlinks} x {one} x 2")
        yield word(
            gpu, "NVLink reaches", "one neighbour, over a bridge" if gpu.bridge else "all GPUs of a server"
        )
    yield given(gpu, "pcie_generation", "PCI Express generation")
    yield given(gpu, "pcie_lanes", "PCI Express lanes")


def nvswitch_rows(switch: NvSwitch) -> Iterator[Row]:
    """What one NVLink crossbar carries."""
    yield given(switch, "ports", "ports")
    yield given(switch, "bandwidth", "one port, one direction", "B/s")
    yield derived(
        "all ports, both directions",
        2 * switch.ports * switch.bandwidth,
        "B/s",
        f"{switch.ports} x {text_of(switch.bandwidth, 'B/s')} x 2",
    )
    yield word(switch, "reduces in the switch (SHARP)", "yes" if switch.sharp else "no", field="sharp")
    yield word(switch, "figures confirmed", switch.confirmed)


def nic_rows(nic: Nic) -> Iterator[Row]:
    """What one adapter carries."""
    yield word(nic, "kind", nic.kind)
    yield given(nic, "ports", "ports")
    yield given(nic, "bandwidth", "one port, one direction", "B/s", bits=True)
    total = nic.ports * nic.bandwidth
    port = text_of(nic.bandwidth, "B/s", bits=True)
    yield derived("all ports, one direction", total, "B/s", f"{nic.ports} x {port}", bits=True)
    yield given(nic, "latency", "step of a small message", "s")
    yield word(nic, "figures confirmed", nic.confirmed)


def switch_rows(switch: Switch) -> Iterator[Row]:
    """What one network switch carries."""
    yield word(switch, "kind", switch.kind)
    yield given(switch, "ports", "ports")
    yield given(switch, "bandwidth", "one port, one direction", "B/s", bits=True)
    yield derived(
        "all ports, both directions",
        2 * switch.ports * switch.bandwidth,
        "B/s",
        f"{switch.ports} x {text_of(switch.bandwidth, 'B/s', bits=True)} x 2",
        bits=True,
    )
    yield given(switch, "latency", "port to port", "s")
    yield word(switch, "reduces in the switch (SHARP)", "yes" if switch.sharp else "no", field="sharp")
    half = switch.ports // 2
    yield derived(
        "ends of two layers of it, not oversubscribed",
        switch.ports * half,
        "",
        f"{switch.ports} leaves x {half} ports down",
    )
    yield word(switch, "figures confirmed", switch.confirmed)


def pcie_rows(pcie: Pcie) -> Iterator[Row]:
    """What a slot of 16 lanes carries."""
    yield given(pcie, "generation", "generation")
    yield given(pcie, "bandwidth", "16 lanes, one direction", "B/s")
    yield derived("one lane, one direction", pcie.bandwidth / 16, "B/s", "the slot / 16 lanes")
    yield given(pcie, "latency", "step of a small message", "s")
    yield word(pcie, "figures confirmed", pcie.confirmed)


def cpu_rows(cpu: Cpu) -> Iterator[Row]:
    """What one processor has."""
    yield word(cpu, "vendor", cpu.vendor)
    yield given(cpu, "cores", "cores")
    yield given(cpu, "clock", "base clock", "Hz")
    yield given(cpu, "memory_bandwidth", "memory bandwidth", "B/s")
    yield derived(
        "memory bandwidth per core",
        cpu.memory_bandwidth / cpu.cores,
        "B/s",
        f"{text_of(cpu.memory_bandwidth, 'B/s')} / {cpu.cores} cores",
    )
    yield given(cpu, "pcie_lanes", "PCI Express lanes")
    yield given(cpu, "power", "power", "W")
    yield word(cpu, "figures confirmed", cpu.confirmed)


def ssd_rows(ssd: Ssd) -> Iterator[Row]:
    """What one drive holds and carries."""
    yield given(ssd, "capacity", "capacity", "B")
    yield given(ssd, "read_bandwidth", "sequential read", "B/s")
    yield given(ssd, "write_bandwidth", "sequential write", "B/s")
    for field, label in (("read_iops", "random reads of 4 KiB"), ("write_iops", "random writes of 4 KiB")):
        known = getattr(ssd, field) is not None
        yield given(ssd, field, label, "1/s") if known else word(ssd, label, "no figure known", field=field)
    yield derived(
        "time to read it all",
        ssd.capacity / ssd.read_bandwidth,
        "s",
        f"{text_of(ssd.capacity, 'B')} / {text_of(ssd.read_bandwidth, 'B/s')}",
    )
    yield word(ssd, "figures confirmed", ssd.confirmed)
