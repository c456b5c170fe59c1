"""Clusters as users write them: names of systems, GPUs and clusters, with a number of nodes, units or GPUs.

    dgx-a100:64   64 nodes of a system       64xh100   64 GPUs, in servers of the catalog
    8xdgx-h100    8 nodes of a system        h100      one server of the catalog with that GPU
    tpu-v4:64     a slice of 64 chips        2x v6e-256   two slices (podsim.hardware.torus_slices)
    selene        a cluster of the catalog   superpod-a100:2su   scalable units of one

Case, spaces, underscores and the maker's name do not matter: "NVIDIA H100 80GB HBM3" is h100-80gb.
"""

from __future__ import annotations

import re
from functools import cache
from math import ceil
from typing import NamedTuple

from podsim.answers.answer import call
from podsim.errors import CatalogError, ClusterError, PodsimError, UnitError, unknown_name
from podsim.hardware.catalog import aliases, cluster_entry, find, load_gpu, load_system, names
from podsim.hardware.mig.mig_host import host_of
from podsim.hardware.overrides import read_count
from podsim.hardware.parts import TorusLinks

MOST_NODES = 100_000
"""The largest number of nodes; more than three times the largest machine ever built."""

_SPEC = re.compile(r"([^:]+?)(?::\s*([^:]*?)\s*(su)?)?", re.IGNORECASE)
_COUNTED = re.compile(
    r"(?P<number>[\d,]{1,9})\s*(?:[x*]\s*|\s)(?P<name>[a-z].*)|(?P<first>[a-z].*?)\s*[x*]\s*(?P<last>\d[\d,]{0,8})",
    re.IGNORECASE,
)
_SLICED = re.compile(
    r"(?:(?P<count>\d[\d,]{0,6})\s*[x*]?\s*(?=[a-z]))?(?P<name>[a-z][\w -]*?)\s*(?P<sign>[-:])\s*"
    r"(?P<size>\d{1,4}(?:\s*x\s*\d{1,4}){1,2}|\d[\d,]{0,8})(?P<twisted>[-_ ]twisted)?",
    re.IGNORECASE,
)
_KINDS = ("cluster", "system", "gpu")
_DECORATION = re.compile(r"^(nvidia|tesla|geforce|quadro)-|-(gpus?|tensor-core-gpu|hbm\d\w?|nvidia)$")


class Spec(NamedTuple):
    """A cluster's text in parts."""

    name: str
    """The name of a cluster, a system or a GPU of the catalog, or what was written instead."""
    nodes: int | None = None
    in_units: bool = False
    """Whether `nodes` counts scalable units."""
    gpus: int | None = None
    torus: TorusLinks | None = None
    """The torus of each node, where the text names a slice."""


def read_spec(text: str) -> Spec:
    """The parts of a cluster's text.

    Raises CatalogError for text that is none, and ClusterError for an impossible number, or for a GPU's name with a
    number that may count GPUs or servers.
    """
    if sliced := _read_slices(text):
        return sliced
    if counted := _COUNTED.fullmatch(text.strip()):
        name = catalog_name(counted["name"] or counted["first"])
        kind, _ = find(name) or ("", "")
        number = (counted["number"] or counted["last"]).replace(",", "")
        if kind == "gpu":
            return Spec(name, gpus=_count(number, name, "GPUs"))
        if kind:
            return Spec(name, _count(number, name, "nodes"))
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise CatalogError(
            f"cannot read {text[:80]!r}; expected a name with or without a number, such as dgx-a100-80gb:64,"
            " superpod-a100:2su, selene, or a file that ends in .toml"
        )
    name, count, unit = match.groups()
    name = catalog_name(name)
    if count is None:
        return Spec(name)
    nodes = _count(count, name, "scalable units" if unit else "nodes")
    if (find(name) or ("",))[0] == "gpu" and (server := server_of(name)):
        raise ClusterError(
            f"{text.strip()[:80]} may be {nodes} GPUs or {nodes} servers: --on {name} --gpus {nodes}, or "
            f"--on {server}:{nodes} ({nodes * load_system(server).gpus} GPUs)"
        ).offer(on=name, gpus=nodes)
    return Spec(name, nodes, unit is not None)


def nodes_of(gpus: int, per: int, trays: int, most: int) -> int:
    """The number of nodes of a job: a part of one, whole nodes, or as many trays of each rack; 0 if impossible."""
    tray = per // trays
    counts = range(ceil(gpus / per), min(gpus // tray, most) + 1)
    return 1 if gpus <= per else next((nodes for nodes in counts if gpus % (nodes * tray) == 0), 0)


def is_slice(text: str) -> bool:
    """Whether a text names slices of a torus. Raises ClusterError for what is no slice."""
    return _read_slices(text) is not None


def _read_slices(text: str) -> Spec | None:
    """The parts of a text that names slices of a torus; None for other text."""
    sliced = _SLICED.fullmatch(text.strip())
    chip = catalog_name(sliced["name"]) if sliced else ""
    server = server_of(chip) if (find(chip) or ("",))[0] == "gpu" else ""
    torus = load_system(server).torus if server else None
    if sliced is None or torus is None:
        return None
    chip, parts = load_system(server).gpu.name, call("hardware.torus_slices:slice_text", sliced)
    slices = _count(str(parts.slices), chip, "slices")
    return Spec(chip, slices, torus=call("hardware.torus_slices:named_links", torus, parts, chip))


def server_of(gpu: str) -> str:
    """The first server of the catalog with a GPU; "" if none has it."""
    try:
        system = host_of(load_gpu(gpu))
    except (CatalogError, ClusterError):
        return ""
    return system.name if system.gpu.name == load_gpu(gpu).name else ""


def catalog_name(text: str) -> str:
    """The name or alias of a cluster, a system or a GPU that a text means; the text in lower case if none."""
    name = text.strip().lower()
    if (find(name) or ("",))[0] in _KINDS:
        return name
    known = _squeezed_names()
    dashed = re.sub(r"[\s_/]+", "-", name)
    while (shorter := _DECORATION.sub("", dashed)) != dashed:
        if _squeeze(dashed) in known:
            break
        dashed = shorter
    return known.get(_squeeze(dashed), name)


def unknown_cluster(name: str) -> str:
    """The text for a name that is no cluster: the closest names, or what the name is."""
    if "/" in name or "\\" in name:
        return f"{name[:80]!r} is no cluster; a cluster file must end in .toml"
    part = find(name)
    if part and part[0] not in _KINDS:
        return f"{part[1]} is a {part[0]}; a cluster is h100, dgx-h100:8 or selene, say"
    if part and part[0] == "gpu":
        return f"no server of the catalog has a {part[1]}; `podsim clusters` lists the systems"
    known = [every for kind in _KINDS for every in (*names(kind), *aliases(kind))]
    return f"{unknown_name('cluster, system or GPU', name, known)} (`podsim clusters` lists them)"


def enough_nodes(text: str, gpus: int, per: int) -> str:
    """The text with the fewest nodes (or units) of `per` GPUs that hold a number of GPUs, if it leaves them open."""
    if text.strip().lower().endswith(".toml") or "/" in text:
        return text
    spec = read_spec(text)
    kind, name = find(spec.name) or ("", "")
    most = spec.gpus or per * (spec.nodes or 0)
    if 0 < most < gpus and not spec.in_units:
        raise ClusterError(f"{gpus} GPUs asked of {text}, which has {most}").offer(on=spec.name, gpus=gpus)
    if spec.nodes is not None or spec.gpus is not None or kind not in _KINDS:
        return text
    if kind == "cluster":
        entry = cluster_entry(name)[1]
        size = load_system(entry.system).unit * per
        return f"{spec.name}:{min(-(-gpus // size), entry.units)}su" if entry.units else text
    server = spec.name if kind == "system" else server_of(spec.name)
    return f"{server}:{-(-gpus // per)}" if gpus > per and server else text


def _count(text: str, name: str, what: str) -> int:
    try:
        return read_count(text, what=f"{name[:80]}: {what}", low=1, high=MOST_NODES)
    except UnitError as error:
        raise ClusterError(str(error)) from None


@cache
def _squeezed_names() -> dict[str, str]:
    """Names and aliases by what is left without signs; clusters win over systems, systems over GPUs."""
    every = [name for kind in reversed(_KINDS) for name in (*aliases(kind), *names(kind))]
    return {_squeeze(name): name for name in every}


def _squeeze(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name)


def is_cluster(text: str) -> bool:
    """Whether a text names a cluster, a system or a GPU of the catalog."""
    try:
        name = read_spec(text).name
    except PodsimError:
        return False
    return (find(name) or ("",))[0] in ("cluster", "system", "gpu")


def clusters_of(text: object) -> list[str]:
    """The clusters that a text names, as h100,b200."""
    parts = [part.strip() for part in str(text or "").split(",")]
    return parts if all(re.search("[a-zA-Z]", part) for part in parts) else [str(text)] if text else []
