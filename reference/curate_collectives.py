"""Rows of collectives: machine, launch, release and settings of NCCL as sources word them, in canonical columns.

    curated(rows)           canonical rows of nccl.csv and its like
    canonical_cells(row)    the columns CANONICAL of one row

What a row does not state stays blank: podsim.network.collective_settings says what is then assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from podsim.accuracy.measured_runs import (
    NotExpressible,
    cell_text,
    read_cluster,
    read_count,
    write_settings,
)
from podsim.accuracy.price_collectives import PERMITTED, read_call
from podsim.accuracy.tables import find_kind
from podsim.answers.comparison import BROKEN
from podsim.errors import PodsimError
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.settings_text import read_environment, read_launch, read_network_class, read_release
from reference.csv_rows import each_row
from reference.machine_words import find_node, read_adapters

CANONICAL = ("cluster", "launch", "nccl", "sharp", "gdr", "in_switch", "domain", "algo", "proto", "reason")
"""Columns that `canonical_cells` fills."""
_UNKNOWN_MACHINES = (
    (r"H100-PCIe", "the source does not say how many of three NVLink bridges join the two cards"),
    (r"MI\d00", "RCCL picks and runs collectives by its own tables, of which podsim has none"),
)
"""Pattern in a row's system and GPU -> the reason why no system of the catalog is it."""
_CIRCUMSTANCES = {
    "superbenchmark": ("single", "2.10"),
    '"nccl-test", mpirun section': ("process", "2.2x"),
    "DGX-2": ("single", "2.8"),
    "deepops": ("process", "2.8"),
    "vTrain": ("single", "2.8"),  # nccl-tests without MPI, in the years of its trainings
}
"""Part of a row's source, path or system -> the launch and release that the date or the floor of the log tells."""
_RAN = r"\bSHARP_(?!COLL_LOG|DISABLE)\w+ ?=|SHARP (?:LLT|SAT|rank|job|rail|comm)|CollNet/SHARP|via COLLNET/"
"""What says that SHARP ran: its library's own variables, and its lines in a log. NCCL_COLLNET_ENABLE=1 permits it."""
_FABRICS = {"infiniband": "infiniband", "roce": "roce", "efa-v1": "efa", "efa-v2": "efa", "efa": "efa",
            "slingshot": "slingshot", "tcpxo": "ethernet", "tcpx": "ethernet", "sockets": "ethernet"}  # fmt: skip
"""Class of a network -> the cluster's fabric."""


_NAMED = (
    (r"\bp4de\b", "aws-p4de", "efa-v1"), (r"\bp4d\b", "aws-p4d", "efa-v1"), (r"\bp5(?:en?)?\.48", "aws-p5", "efa-v2"),
    (r"\bp6-b200", "", "efa-v2"), (r"ND ?(?:H100[ _-]?)?v5|ND96isr_?H100", "azure-ndv5", "infiniband"),
    (r"ND ?A100|NDv4|ND96a", "azure-ndv4-80gb", "infiniband"), (r"a3-?high", "gcp-a3-high", "tcpx"),
    (r"a3-?mega", "gcp-a3-mega", "tcpxo"), (r"a3-?ultra", "gcp-a3-ultra", "roce"), (r"\ba4-?high", "gcp-a4", "roce"),
    (r"BM\.GPU|\bOCI\b", "", "roce"), (r"DGX A100", "dgx-a100-80gb", ""), (r"DGX H100", "dgx-h100", ""),
    (r"DGX H200", "dgx-h200", ""), (r"DGX B200", "dgx-b200", ""),
)  # fmt: skip
"""Pattern in a row's system -> the machine of the catalog whose adapters stand where a row states none; its network."""
_ALIKE = ((r"\bGH200", "dgx-h100"),)
"""Pattern in a row's GPU -> the server whose GPUs and NVLinks are like those of a node that the catalog lacks."""


def curated(rows: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The canonical rows of a table of collectives, as many and in order."""
    return each_row(rows, tuple(find_kind("collectives").columns), collective_cells)


def collective_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical cells of a row, with the reason if nothing can be predicted for it."""
    cells = canonical_cells(row)
    try:
        if not (cells["cluster"] or cells["reason"]):
            return cells | {"reason": _missing_cluster(row)}
        call = cells["reason"] or read_call({**row, **cells})
    except (PodsimError, NotExpressible) as problem:
        return cells | {"reason": str(problem)}
    return cells | {"reason": call if isinstance(call, str) else ""}


def _missing_cluster(row: Mapping[str, str]) -> str:
    """The reason why a row has no cluster: its GPUs, or the adapters of its nodes."""
    gpu, nics = cell_text(row, "gpu"), cell_text(row, "nics")
    if find_node(gpu, cell_text(row, "system")) is None:
        return f"no system of the catalog has GPUs like {gpu or 'those of a blank cell'}"
    return f"the adapters of a node are not stated ({nics or 'blank'})"


def canonical_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The canonical cells of a row; cells that it has in canonical form stay. TableError is never raised."""
    settings = read_settings(row)
    cells = {
        "cluster": cell_text(row, "cluster") or _cluster(row, settings),
        "launch": settings.launch or "",
        "nccl": settings.release or "",
        "sharp": {True: "yes", False: "no", None: _permitted(row)}[settings.sharp],
        "algo": settings.algorithm or "auto",
        "proto": settings.protocol or "auto",
        "gdr": _gpudirect(row, settings),
        "in_switch": cell_text(row, "in_switch"),
        "domain": _domain(row),
        "reason": cell_text(row, "reason") or _unfit_reason(row),
    }
    of_four = (
        "gpus_per_node=4" in cells["cluster"] and "nvl72" not in cells["cluster"]
    )  # a server without NVSwitch
    if not cells["in_switch"] and (of_four or _is_without_switch(row, settings)):
        cells["in_switch"] = "no"
    machine = f"{row.get('system', '')} {row.get('gpu', '')}"
    if not (cells["cluster"] or cells["reason"]):
        cells["reason"] = next((why for pattern, why in _UNKNOWN_MACHINES if re.search(pattern, machine)), "")
    return cells


def read_settings(row: Mapping[str, str]) -> CollectiveSettings:
    """The settings that a row states in its columns, its NCCL_* variables and its notes."""
    return _stated_settings(tuple(cell_text(row, column) for column in _STATING))


_STATING = (
    "settings", "algo", "proto", "nccl", "nccl_version", "launch", "sharp", "notes", "nics", "system", "source",
    "path", "nodes",
)  # fmt: skip
"""The columns that state settings; the rows of a sweep share their cells."""


@lru_cache(maxsize=4096)
def _stated_settings(cells: tuple[str, ...]) -> CollectiveSettings:
    row = dict(zip(_STATING, cells, strict=True))
    notes = cell_text(row, "notes")
    stated = read_environment(_variables(row))
    algorithm, protocol = cell_text(row, "algo").lower(), cell_text(row, "proto").lower()
    launch, release = _circumstances(row)
    ran = (
        "collnet" in f"{algorithm} {stated.algorithm}"
        or "sharp" in algorithm
        or cell_text(row, "sharp") == "yes"
    )
    ran = ran or any(re.search(_RAN, text) for text in (_variables(row), notes))
    named = re.fullmatch(
        r"(?:collnet|ring|tree|nvls|nvlstree|pat)(?:,\w+)*", algorithm.partition("(")[0].strip()
    )
    return replace(
        CollectiveSettings(
            release=_release(row) or release or None,
            launch=read_launch(cell_text(row, "launch")) or _launch(notes) or launch or None,
            algorithm=algorithm.partition("(")[0].strip() if named else None,
            protocol=protocol if protocol in ("ll", "ll128", "simple") else None,
            sharp=True if ran else False if stated.sharp is False else None,
        ).over(replace(stated, sharp=None)),
        network=_network_class(row, stated),
        tuned=None,
    )  # fmt: skip


def _gpudirect(row: Mapping[str, str], settings: CollectiveSettings) -> str:
    """Whether adapters read the memory of GPUs: as a row says; those of Azure's V100 servers do not."""
    said = cell_text(row, "gdr").partition(" ")[0]
    if said not in ("yes", "no") and settings.gpudirect is not None:
        said = "yes" if settings.gpudirect else "no"
    virtual = re.search(r"NDv2|ND40rs", cell_text(row, "system"))
    return said if said in ("yes", "no") else "no" if virtual else ""


def _permitted(row: Mapping[str, str]) -> str:
    """PERMITTED where the row allows SHARP and nothing shows that it ran or did not; else ""."""
    said = re.search(
        r"SHARP (?:enabled|on|used|active)\b|(?:with|using|over) SHARP\b", cell_text(row, "notes")
    )
    allowed = cell_text(row, "sharp") == PERMITTED or read_environment(_variables(row)).sharp or said
    return PERMITTED if allowed else ""


def _release(row: Mapping[str, str]) -> str:
    """NCCL's release that a row states in its columns or notes; "2.2x" is what logs of 2024 say."""
    noted = re.search(r"NCCL (2\.\w+)", cell_text(row, "notes"))
    texts = (cell_text(row, "nccl"), cell_text(row, "nccl_version"), noted[1] if noted else "")
    return next((text if text == "2.2x" else known for text in texts
                 if (known := read_release(text) or "") or text == "2.2x"), "")  # fmt: skip


def _variables(row: Mapping[str, str]) -> str:
    """The NCCL_* variables of a row; those of an example that the log does not print are left out."""
    return "" if "log itself prints none" in cell_text(row, "settings") else cell_text(row, "settings")


def _network_class(row: Mapping[str, str], stated: CollectiveSettings) -> str | None:
    """The class of network. Slingshot is reached over sockets by runs without libfabric's plugin, as notes list them."""
    system = cell_text(row, "system")
    kind = read_network_class(cell_text(row, "nics")) or read_network_class(system)
    kind = kind or next((name for pattern, _, name in _NAMED if name and re.search(pattern, system)), None)
    notes = cell_text(row, "notes")
    without = re.search(r"((?:cfg\d/?)+) = no libfabric plugin", notes)
    own = re.search(r"cfg ?(\d)", notes)
    if kind == "slingshot" and without and own:
        return "sockets" if f"cfg{own[1]}" in without[1] else kind
    return stated.network or kind


def _is_without_switch(row: Mapping[str, str], settings: CollectiveSettings) -> bool:
    return "dtype int8" in cell_text(row, "notes") or settings.algorithm in ("ring", "tree")


def _unfit_reason(row: Mapping[str, str]) -> str:
    notes, state = cell_text(row, "notes"), cell_text(row, "state")
    if cell_text(row, "role") == BROKEN or state:
        return f"the machine is {state.partition(':')[0] or 'broken'}: its rows are never a target"
    bad = "problem case" in notes or "much slower" in notes
    return "the source reports a machine that did not work as it should" if bad else ""


def _cluster(row: Mapping[str, str], settings: CollectiveSettings) -> str:
    """The settings of a row's cluster; "" where the source does not say what it takes.

    A node is that of the catalog, or has as many GPUs as the row runs on one where its adapters are no more than these.
    The trays of a rack with one NVLink domain are one node, unless NCCL ran on them as nodes of their own.
    """
    gpu, named = cell_text(row, "gpu"), cell_text(row, "system")
    nodes = read_count(row, "nodes")
    system = find_node(gpu, named) or next(
        (name for pattern, name in _ALIKE if re.search(pattern, gpu)), None
    )
    if system is None:
        return ""
    node = read_cluster(f"{system}:1").system
    each = -(-read_count(row, "gpus") // nodes)
    tray = node.gpus // node.trays
    network = read_adapters(cell_text(row, "nics"), min(node.gpus, each) if node.trays > 1 else node.gpus)
    if nodes == 1:
        network = {}
    elif node.trays > 1 and each <= tray and _domain(row) != "tray":
        nodes, adapters = -(-nodes // node.trays), int(network.get("network.nics", tray))
        network["network.nics"] = str(min(adapters * node.trays, node.gpus) if adapters <= tray else adapters)
    elif each < node.gpus and 0 < int(network.get("network.nics", 0)) <= each:
        network["gpus_per_node"] = str(each)
    elif "network.bandwidth" not in network:
        sold = next((name for pattern, name, _ in _NAMED if name and re.search(pattern, named)), "")
        return f"{sold}:{nodes}" if sold else ""
    kind = settings.network
    if nodes > 1 and kind in _FABRICS:
        network["fabric"] = _FABRICS[kind]
        if kind in ("tcpxo", "tcpx", "sockets"):
            network["collectives.network"] = kind
    return write_settings(f"{system}:{nodes}", network)


def _domain(row: Mapping[str, str]) -> str:
    """What one NVLink domain spanned, in a row that ran on racks of trays: "rack", "tray", or "" if it does not say."""
    if cell_text(row, "domain"):
        return cell_text(row, "domain")
    said = " ".join(cell_text(row, column) for column in ("settings", "notes", "nics", "system"))
    if re.search(r"NCCL_MNNVL_ENABLE ?= ?0|(?:\b[Nn]o|without) (?:MNNVL|IMEX|multi-node NVLink)", said):
        return "tray"
    ran = r"MNNVL|IMEX|multi-node NVLink|NVLink domain|(?:one|single) (?:NVLink |NVL72 )?domain"
    return "rack" if re.search(ran, said, re.IGNORECASE) else ""


def _launch(notes: str) -> str:
    return read_launch(notes) or ("process" if re.search(r"MPI|ranks? (per|x 1) GPU", notes) else "")


def _circumstances(row: Mapping[str, str]) -> tuple[str, str]:
    """(launch, release) that the date or the floor of a known log tells; blank for others."""
    text = " ".join(cell_text(row, column) for column in ("source", "path", "system"))
    return next((known for part, known in _CIRCUMSTANCES.items() if part in text), ("", ""))
