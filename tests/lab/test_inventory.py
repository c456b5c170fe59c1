"""What is in a machine, read from trees of files: a DGX A100, and the same with something wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_machines import ENCRYPTING, NAMES, dgx_a100, port, write

from podsim.acceptance.inventory_checks import inventory_parts
from podsim.answers.acceptance import Part
from podsim.hardware.cluster import load_cluster
from podsim.lab.inventory import closeness, read_inventory
from podsim.lab.inventory_tools import Answers, ask_machine, encrypting, gpu_names, no_answers
from podsim.programs import ask

TOLD = Answers(gpus=gpu_names(NAMES), no_gpus="", drives=encrypting(ENCRYPTING), no_drives="")
CLUSTER = load_cluster("dgx-a100-80gb")


def _parts(root: Path, told: Answers = TOLD) -> dict[str, Part]:
    return {part.name: part for part in inventory_parts(read_inventory(root), told, CLUSTER)}


def test_a_whole_dgx_a100_is_one(tmp_path: Path) -> None:
    found = read_inventory(dgx_a100(tmp_path))
    assert (found.sockets, found.cores, found.numa_nodes, found.vendor) == (2, 128, 8, "amd")
    assert (len(found.gpus), len(found.switches), len(found.adapters), len(found.drives)) == (8, 6, 12, 10)
    assert found.arrays["md1"][0] == "raid0"
    assert len(found.arrays["md1"][1]) == 8
    assert (found.tpm, found.secure_boot, found.virtual, found.clock) == ("2", True, False, 2.25e9)
    assert {name: part.verdict for name, part in _parts(tmp_path).items()} == dict.fromkeys(
        (
            "processors", "main memory", "GPUs", "GPU memory", "GPU slots", "NVSwitches", "adapter ports",
            "GPUs and adapters", "NUMA of GPUs", "NVMe drives", "RAID of the data drives", "self-encrypting drives",
            "TPM", "secure boot",
        ),
        "ok",
    )  # fmt: skip


def test_how_close_devices_are(tmp_path: Path) -> None:
    """The same switch, the same root by another port, another root on the same node, another node."""
    found = read_inventory(dgx_a100(tmp_path))
    gpu, adapters = found.gpus[0], [one.device for one in found.adapters if one.device]
    by = {one.address: one for one in adapters}
    assert closeness(gpu, by["0000:04:00.0"]) == "PIX"
    assert closeness(gpu, by["0000:06:00.0"]) == "PIX"
    assert closeness(gpu, by["0000:24:00.0"]) == "SYS"
    assert {closeness(gpu, one) for one in found.switches} == {"SYS"}


def _without_a_gpu(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:03:00.0").unlink()


def _narrow(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:03:00.0/current_link_width").write_text("8\n")


def _slower_now(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:03:00.0/current_link_speed").write_text("2.5 GT/s PCIe\n")


def _port_down(root: Path) -> None:
    write(root, "sys/class/infiniband/mlx5_3/ports/1/state", "1: DOWN\n")


def _slow_port(root: Path) -> None:
    write(root, "sys/class/infiniband/mlx5_3/ports/1/rate", "100 Gb/sec (2X HDR)\n")


def _far_adapters(root: Path) -> None:
    """The two adapters of the first switch are in other slots."""
    shutil.rmtree(root / "sys/class/infiniband/mlx5_0")
    shutil.rmtree(root / "sys/class/infiniband/mlx5_1")
    for name, k in (("mlx5_0", 1), ("mlx5_1", 2)):
        port(root, name, f"pci0000:e0/0000:e0:0{k}.0/0000:e{k}:00.0")


def _wrong_node(root: Path) -> None:
    (root / "sys/bus/pci/devices/0000:03:00.0/numa_node").write_text("7\n")


def _small_drive(root: Path) -> None:
    write(root, "sys/class/nvme/nvme7/nvme7n1/size", str(int(1.92e12 / 512)))


def _short_array(root: Path) -> None:
    text = (root / "proc/mdstat").read_text().replace(" nvme7n1[7]", "")
    write(root, "proc/mdstat", text)


def _old_tpm(root: Path) -> None:
    write(root, "sys/class/tpm/tpm0/tpm_version_major", "1\n")


def _no_tpm(root: Path) -> None:
    shutil.rmtree(root / "sys/class/tpm/tpm0")


def _insecure(root: Path) -> None:
    path = next((root / "sys/firmware/efi/efivars").iterdir())
    path.write_bytes(b"\x06\x00\x00\x00\x00")


def _not_uefi(root: Path) -> None:
    shutil.rmtree(root / "sys/firmware/efi")
    write(root, "sys/firmware/acpi/pm_profile", "4\n")


@pytest.mark.parametrize(
    ("break_", "name", "why"),
    [
        (_without_a_gpu, "GPUs", ""), (_narrow, "GPU slots", "fewer lanes: 0000:03:00.0"),
        (_port_down, "adapter ports", "not active: mlx5_3/1"), (_slow_port, "adapter ports", "slower: mlx5_3/1 100 Gb/s"),
        (_far_adapters, "GPUs and adapters", "0000:03:00.0: SYS"), (_wrong_node, "NUMA of GPUs", "0000:03:00.0 on 7"),
        (_wrong_node, "NUMA of GPUs", "were all so, an adapter would reach 6.1 GB/s of 25 GB/s"),
        (_small_drive, "NVMe drives", ""), (_short_array, "RAID of the data drives", ""), (_old_tpm, "TPM", ""),
        (_no_tpm, "TPM", ""), (_insecure, "secure boot", ""), (_not_uefi, "secure boot", "not booted by UEFI"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)  # fmt: skip
def test_what_differs_is_told(tmp_path: Path, break_: Callable[[Path], None], name: str, why: str) -> None:
    dgx_a100(tmp_path)
    break_(tmp_path)
    parts = _parts(tmp_path)
    assert parts[name].verdict == "differs"
    assert why in parts[name].why


def test_a_resting_gpu_is_no_fault(tmp_path: Path) -> None:
    _slower_now(dgx_a100(tmp_path))
    part = _parts(tmp_path)["GPU slots"]
    assert part.verdict == "ok"
    assert "as resting GPUs are" in part.why


def test_what_cannot_be_told_is_not_guessed(tmp_path: Path) -> None:
    dgx_a100(tmp_path)
    shutil.rmtree(tmp_path / "sys/class/tpm")
    shutil.rmtree(tmp_path / "sys/firmware/efi")
    parts = _parts(tmp_path, no_answers("not this machine"))
    for name in ("TPM", "secure boot", "self-encrypting drives", "GPU memory"):
        assert parts[name].verdict == "cannot tell here", name
    assert parts["GPUs"].verdict == "ok"


def test_an_empty_tree_is_no_machine(tmp_path: Path) -> None:
    parts = _parts(tmp_path, no_answers("not this machine"))
    assert {part.verdict for part in parts.values()} == {"differs", "cannot tell here"}


def test_drives_that_do_not_encrypt_differ(tmp_path: Path) -> None:
    scan = ENCRYPTING.replace("/dev/nvme2n1   2 ", "/dev/nvme2n1   No")
    told = Answers(gpus=TOLD.gpus, no_gpus="", drives=encrypting(scan), no_drives="")
    part = _parts(dgx_a100(tmp_path), told)["self-encrypting drives"]
    assert (part.verdict, part.found, part.why) == ("differs", "7 of 8", "no: /dev/nvme2n1")


def test_locks_of_drives_are_read_and_a_locked_drive_differs(tmp_path: Path) -> None:
    """The lines are those of sedutil-cli --query."""

    def answer(command: list[str]) -> tuple[str, str]:
        if command[1] == "--scan":
            return ENCRYPTING, ""
        locked = "Y" if command[-1] == "/dev/nvme3n1" else "N"
        says = f"Locking function (0x0002)\n    Locked = {locked}, LockingEnabled = Y, LockingSupported = Y, MBRDone = N"
        return (says, "") if command[1] == "--query" else (NAMES, "")

    told = ask_machine(answer)
    assert told.locks["/dev/nvme0n1"] == (True, False)
    part = _parts(dgx_a100(tmp_path), told)["locks of encrypting drives"]
    assert (part.verdict, part.found) == ("differs", "8 of 8 with locking, 1 locked")
    assert part.why == "locked: /dev/nvme3n1"
    assert part.name not in _parts(tmp_path, no_answers("not this machine"))


def test_gpus_that_only_nvidia_smi_knows(tmp_path: Path) -> None:
    """A device number that is not in the table is looked up by its name."""
    dgx_a100(tmp_path)
    for path in (tmp_path / "sys/bus/pci/devices").iterdir():
        if (path / "device").read_text() == "0x20b2\n":
            (path / "device").write_text("0x20ff\n")
    part = _parts(tmp_path)["GPUs"]
    assert (part.verdict, part.source) == ("ok", "nvidia-smi")


def test_tools_that_are_missing_or_fail() -> None:
    assert ask(["no-such-tool-of-podsim"]) == ("", "no-such-tool-of-podsim is not installed")
    said, why = ask(["ls", "/no/such/folder"])
    assert said == ""
    assert why.startswith("ls ended with status 2")
    told = ask_machine(lambda command: ("", f"{command[0]} is not installed"))
    assert (told.gpus, told.no_drives) == ((), "sedutil-cli is not installed")
