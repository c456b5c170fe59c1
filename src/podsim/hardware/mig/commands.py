"""The files and commands that create layouts: nvidia-smi commands, a mig-parted file, Kubernetes resources.

`read_parted` reads the text of `parted_text` back unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsim.errors import MigError, raise_all
from podsim.hardware.mig.change import Change
from podsim.hardware.mig.layouts import Layout
from podsim.hardware.mig.profiles import Slicing, find_profile
from podsim.safe_yaml import YamlError, read_documents, yaml_word


@dataclass(frozen=True, kw_only=True)
class Devices:
    """One entry of a mig-parted configuration: some GPUs and their instances."""

    devices: tuple[int, ...] | None
    """The numbers of the GPUs; None for all."""
    enabled: bool
    """Whether MIG mode is on."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """The number of instances of each profile."""
    device_filter: tuple[str, ...] = ()
    """The PCI device numbers of its GPUs; () for any."""


def _placements_text(slicing: Slicing, layout: Layout) -> str:
    return ",".join(
        f"{find_profile(slicing, instance.profile).id}:{instance.start}" for instance in layout.instances
    )


def make_commands(slicing: Slicing, gpus: Sequence[Layout | None]) -> tuple[str, ...]:
    """The commands from unused GPUs to these layouts, by number of the GPU; None leaves a GPU undivided.

    GPUs with the same layout share a command. "19:6" creates an instance of profile 19 at slice 6. The last one shows a
    container the first instance, which Docker names by its GPU and its number there.
    """
    by_layout: dict[Layout, list[int]] = {}
    for index, layout in enumerate(gpus):
        if layout is not None:
            by_layout.setdefault(layout, []).append(index)
    if not by_layout:
        return ()
    every = ",".join(str(index) for index, layout in enumerate(gpus) if layout is not None)
    made = [f"nvidia-smi -i {every} -mig 1"]
    for layout, indices in by_layout.items():
        made.append(
            f"nvidia-smi mig -i {','.join(map(str, indices))} -cgi {_placements_text(slicing, layout)} -C"
        )
    docker = f"docker run --rm --gpus '\"device={every.split(',')[0]}:0\"' ubuntu nvidia-smi -L"
    return (*made, "nvidia-smi mig -lgi", "nvidia-smi -L", docker)


def change_commands(slicing: Slicing, index: int, change: Change, ids: Mapping[int, int]) -> tuple[str, ...]:
    """The commands of a change on one GPU; `ids` gives the GPU instance number of each first slice.

    A GPU without instances may not be in MIG mode yet, so the first command enables it.
    """
    made = [] if change.keep or change.destroy else [f"nvidia-smi -i {index} -mig 1"]
    for instance in change.destroy:
        number = ids[instance.start]
        made += [
            f"nvidia-smi mig -i {index} -dci -gi {number}",
            f"nvidia-smi mig -i {index} -dgi -gi {number}",
        ]
    if change.create:
        new = Layout(slicing=slicing.name, instances=change.create)
        made.append(f"nvidia-smi mig -i {index} -cgi {_placements_text(slicing, new)} -C")
    return tuple(made)


def make_parted(gpus: Sequence[Layout | None]) -> tuple[Devices, ...]:
    """The entries of a mig-parted configuration for these layouts; GPUs with the same profiles share an entry."""
    groups: dict[tuple[str, ...] | None, list[int]] = {}
    for index, layout in enumerate(gpus):
        groups.setdefault(None if layout is None else layout.profiles, []).append(index)
    return tuple(
        Devices(
            devices=None if len(indices) == len(gpus) else tuple(indices),
            enabled=profiles is not None,
            instances=dict(sorted(Counter(profiles or ()).items())),
        )
        for profiles, indices in groups.items()
    )


def parted_text(configurations: Mapping[str, Sequence[Devices]]) -> str:
    """The text of a mig-parted file (github.com/NVIDIA/mig-parted, version v1) of named configurations."""
    lines = ["version: v1", "mig-configs:"]
    for name, entries in configurations.items():
        lines.append(f"  {yaml_word(name)}:")
        for entry in entries:
            first = []
            if entry.device_filter:
                only = ", ".join(yaml_word(device, is_quoted=True) for device in entry.device_filter)
                first.append(f"device-filter: [{only}]")
            some = "all" if entry.devices is None else f"[{', '.join(map(str, entry.devices))}]"
            first += [f"devices: {some}", f"mig-enabled: {'true' if entry.enabled else 'false'}"]
            lines.append(f"    - {first[0]}")
            lines += [f"      {text}" for text in first[1:]]
            if entry.instances:
                lines.append("      mig-devices:")
                lines += [
                    f"        {yaml_word(profile, is_quoted=True)}: {count}"
                    for profile, count in entry.instances.items()
                ]
    return "\n".join(lines) + "\n"


def read_parted(text: str) -> dict[str, tuple[Devices, ...]]:
    """The configurations of a mig-parted file by name. Raises MigError with all errors of the file."""
    try:
        documents = read_documents(text)
    except YamlError as error:
        raise MigError([f"not YAML: {error}"]) from None
    table = documents[0] if len(documents) == 1 and isinstance(documents[0], dict) else {}
    named = table.get("mig-configs")
    if not isinstance(named, dict) or not named:
        raise MigError(
            ["a mig-parted file has `version: v1` and a table `mig-configs` of named lists; found neither"]
        )
    problems: list[str] = []
    if table.get("version") != "v1":
        problems.append(f"version {str(table.get('version'))[:40]!r}; known is v1")
    made = {str(name): _entries(str(name), entries, problems) for name, entries in named.items()}
    raise_all(problems, MigError)
    return made


_ENTRY_KEYS = ("device-filter", "devices", "mig-devices", "mig-enabled")


def _entries(name: str, entries: Any, problems: list[str]) -> tuple[Devices, ...]:
    made = []
    if not isinstance(entries, list):
        problems.append(f"{name}: expected a list of entries with {', '.join(_ENTRY_KEYS)}")
        return ()
    for position, entry in enumerate(entries):
        where = f"{name}[{position}]"
        if not isinstance(entry, dict):
            problems.append(f"{where}: expected keys {', '.join(_ENTRY_KEYS)}")
            continue
        problems += [f"{where}: unknown key {str(key)[:40]!r}" for key in entry if key not in _ENTRY_KEYS]
        devices, counts = entry.get("devices"), entry.get("mig-devices") or {}
        enabled, only = entry.get("mig-enabled"), entry.get("device-filter") or ()
        is_list = isinstance(devices, list) and all(type(number) is int and number >= 0 for number in devices)
        if devices != "all" and not is_list:
            problems.append(f"{where}: devices {str(devices)[:40]!r}; expected all or a list of numbers")
        if not isinstance(enabled, bool):
            problems.append(f"{where}: mig-enabled {str(enabled)[:40]!r}; expected true or false")
        counted = isinstance(counts, dict) and all(type(n) is int and n > 0 for n in counts.values())
        if not counted:
            problems.append(f"{where}: mig-devices {str(counts)[:60]!r}; expected a count for each profile")
        if not problems:
            made.append(
                Devices(
                    devices=tuple(devices) if isinstance(devices, list) else None, enabled=bool(enabled),
                    instances={str(key): int(n) for key, n in counts.items()},
                    device_filter=(only,) if isinstance(only, str) else tuple(str(device) for device in only),
                )
            )  # fmt: skip
    return tuple(made)


def resource_name(profile: str, strategy: str) -> str:
    """The Kubernetes resource of a profile, or of a GPU for "": nvidia.com/mig-1g.5gb, nvidia.com/gpu."""
    if not profile or strategy == "single":
        return "nvidia.com/gpu"
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def helm_text(strategy: str) -> str:
    """The values of NVIDIA's GPU operator (its Helm chart) that apply a mig-parted file, kept as a ConfigMap."""
    return f"""\
# kubectl create configmap podsim-mig -n gpu-operator --from-file=config.yaml=mig-parted.yaml
# helm upgrade --install gpu-operator nvidia/gpu-operator -n gpu-operator -f helm-values.yaml
mig:
  strategy: {strategy}
migManager:
  config:
    name: podsim-mig
"""


def kubernetes_text(jobs: Sequence[tuple[str, str, int, int]], *, strategy: str, config: str) -> str:
    """The text of deployments for jobs, each (name, profile or "" for GPUs, pods, devices per pod).

    `config` is the mig-parted configuration that the MIG manager applies to nodes with the label below. "" means that
    nodes have several configurations, and the resource alone selects the node.
    """
    selector = f"      nodeSelector:\n        nvidia.com/mig.config: {yaml_word(config)}\n" if config else ""
    documents = []
    for name, profile, number, devices in ((yaml_word(job[0]), *job[1:]) for job in jobs):
        documents.append(
            f"""\
# pods: {number}, each with {devices} x {profile or "GPU"}; device plugin with MIG_STRATEGY={strategy}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {number}
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
{selector}      containers:
        - name: {name}
          image: {name}
          resources:
            limits:
              {resource_name(profile, strategy)}: {devices}
"""
        )
    return "---\n".join(documents)
