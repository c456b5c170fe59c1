"""Directory trees like those that the kernel shows of a machine: a DGX A100, whole or with something wrong."""

from __future__ import annotations

from pathlib import Path

GPUS, SWITCHES, PORTS = 8, 6, 12
NAMES = "".join("NVIDIA A100-SXM4-80GB, 81920\n" for _ in range(GPUS))
"""what nvidia-smi says of it"""
ENCRYPTING = "Scanning for Opal compliant disks\n" + "".join(
    f"/dev/nvme{k}n1   2  SAMSUNG MZWLJ3T8HBLS-00007  EPK9CB5Q\n" for k in range(8)
)
"""what sedutil-cli says of it"""


def write(root: Path, path: str, text: str | bytes) -> None:
    """A file below the root, with its folders."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def link(root: Path, path: str, target: str) -> None:
    """A symbolic link below the root to another path below it."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to(root / target, target_is_directory=True)


def device(root: Path, place: str, kind: int, maker: int, number: int, numa: int, *, width: int = 16) -> None:
    """A PCI device at a place below /sys/devices, and the name under which the bus lists it."""
    for name, text in (
        ("class", f"0x{kind:06x}\n"), ("vendor", f"0x{maker:04x}\n"), ("device", f"0x{number:04x}\n"),
        ("numa_node", f"{numa}\n"), ("current_link_speed", "16.0 GT/s PCIe\n"), ("current_link_width", f"{width}\n"),
    ):  # fmt: skip
        write(root, f"sys/devices/{place}/{name}", text)
    link(root, f"sys/bus/pci/devices/{place.rpartition('/')[2]}", f"sys/devices/{place}")


def port(root: Path, name: str, place: str, *, rate: int = 200, state: str = "4: ACTIVE") -> None:
    """A port of an adapter."""
    link(root, f"sys/class/infiniband/{name}/device", f"sys/devices/{place}")
    for file, text in (
        ("rate", f"{rate} Gb/sec (4X HDR)\n"),
        ("link_layer", "InfiniBand\n"),
        ("state", f"{state}\n"),
    ):
        write(root, f"sys/class/infiniband/{name}/ports/1/{file}", text)


def dgx_a100(root: Path) -> Path:
    """A DGX A100 with 640 GB: a PCIe switch for two GPUs and two adapters, four of them on two processors."""
    cpus = [
        f"processor\t: {n}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7742 64-Core Processor\n"
        f"cpu MHz\t\t: 2250.000\nphysical id\t: {n // 64}\ncore id\t\t: {n % 64}\nflags\t\t: fpu svm\n"
        for n in range(128)
    ]
    write(root, "proc/cpuinfo", "\n".join(cpus))
    write(root, "proc/meminfo", f"MemTotal:       {int(2048e9 / 1024 * 0.985)} kB\n")
    for node in range(8):
        write(root, f"sys/devices/system/node/node{node}/cpulist", "0-15\n")
    for k in range(GPUS):
        numa, first = (3, 1, 7, 5)[k // 2], k // 2 * 32
        switch = f"pci0000:{first:02x}/0000:{first:02x}:01.0/0000:{first + 1:02x}:00.0"
        at = f"{switch}/0000:{first + 2:02x}:{k % 2 * 4:02x}.0"
        bus = first + 3 + k % 2 * 2
        device(root, f"{at}/0000:{bus:02x}:00.0", 0x030200, 0x10DE, 0x20B2, numa)
        near = f"{switch}/0000:{first + 2:02x}:{k % 2 * 4 + 1:02x}.0/0000:{bus + 1:02x}:00.0"
        device(root, near, 0x020700, 0x15B3, 0x101B, numa)
        port(root, f"mlx5_{k}", near)
    for k in range(SWITCHES):
        device(root, f"pci0000:c0/0000:c0:02.{k}/0000:c{k + 1}:00.0", 0x068000, 0x10DE, 0x1AF1, 4)
    for k in range(8, PORTS):
        place = f"pci0000:e0/0000:e0:0{k - 7}.0/0000:e{k - 7}:00.0"
        device(root, place, 0x020700, 0x15B3, 0x101B, 4)
        port(root, f"mlx5_{k}", place)
    for k in range(10):
        small = k >= 8
        write(root, f"sys/class/nvme/nvme{k}/model", "SAMSUNG MZWLJ3T8HBLS-00007\n")
        write(root, f"sys/class/nvme/nvme{k}/numa_node", "3\n")
        write(
            root, f"sys/class/nvme/nvme{k}/nvme{k}n1/size", f"{int((1.92e12 if small else 3.84e12) / 512)}\n"
        )
    members = " ".join(f"nvme{k}n1[{k}]" for k in range(8))
    write(root, "proc/mdstat", f"Personalities : [raid0] [raid1]\nmd1 : active raid0 {members}\n      1 blocks\n\n"
          "md0 : active raid1 nvme8n1p2[0] nvme9n1p2[1]\n      1874716672 blocks [2/2] [UU]\n")  # fmt: skip
    write(root, "sys/class/tpm/tpm0/tpm_version_major", "2\n")
    secure = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    write(root, secure, b"\x06\x00\x00\x00\x01")
    return root
