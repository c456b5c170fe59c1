"""Reads the settings of collectives from texts: NCCL's environment, its debug lines, and the words of tables.

    read_environment("NCCL_ALGO=RING;NCCL_PROTO=LL128;FI_PROVIDER=efa")
    read_debug_lines("... NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA ...")
    read_launch("1 process per GPU (MPI)")

What a text does not state stays None. Sources: NCCL's documentation of environment variables; src/init.cc, net.cc and
transport/net.cc of NCCL 2.18 for debug lines; aws-ofi-nccl's README.
"""

from __future__ import annotations

import re

from podsim.errors import PodsimError
from podsim.network.collective_settings import ALGORITHMS, PROTOCOLS, CollectiveSettings
from podsim.units import parse_quantity

_WORD = re.compile(r"\b((?:NCCL|FI|SHARP|UCX)_[A-Z0-9_]+)\s*=\s*([^;\s|\"']*(?: Libfabric)?)")
_ENVIRONMENT = re.compile(r"\b(NCCL_[A-Z0-9_]+) set by environment to ([^\s.]+)")
_ALGORITHMS = {"nvls": "nvls", "nvlstree": "nvlstree", "collnetdirect": "collnet", "collnetchain": "collnet",
               "collnet": "collnet", "ring": "ring", "tree": "tree", "pat": "pat"}  # fmt: skip
_TUNED = (
    "NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_PATH", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_TUNER_CONFIG",
)  # fmt: skip
"""Variables that change NCCL's choice or its channels for one machine."""
_NETS = (
    (r"^ib", None),
    (r"socket", "sockets"),
    (r"fastrak|tcpxo", "tcpxo"),
    (r"tcpx", "tcpx"),
    (r"cxi|slingshot", "slingshot"),
    (r"efa", "efa"),
)
"""Name of NCCL's network, or of libfabric's provider -> the class of the network."""
_CLASS_WORDS = (
    (r"TCPXO|FasTrak", "tcpxo"),
    (r"TCPX", "tcpx"),
    (r"EFA ?v2|EFAv2", "efa-v2"),
    (r"EFA ?v1", "efa-v1"),
    (r"\bEFA", "efa"),
    (r"Slingshot|Cassini|\bCXI", "slingshot"),
    (r"RoCE|\bgIB\b|Spectrum-X", "roce"),
    (r"InfiniBand|\bIB\b|\b[NHEX]DR\d*\b", "infiniband"),
    (r"\bTCP\b|sockets?\b", "sockets"),
)
"""Pattern in a description of adapters -> the class of the network; the first that matches counts."""


def read_environment(text: str) -> CollectiveSettings:
    """The settings that environment words state, as "NCCL_ALGO=RING NCCL_PROTO=Simple"; other words are skipped."""
    words = {name: value.strip().rstrip(",") for name, value in _WORD.findall(text)}
    return CollectiveSettings(
        algorithm=_algorithm(words),
        protocol=_names(words.get("NCCL_PROTO", ""), {name: name for name in PROTOCOLS[1:]}),
        nics=_adapters(words.get("NCCL_IB_HCA", ""), text),
        network=_network(words),
        gpudirect=_gpudirect(words),
        sharp={"0": False, "1": True}.get(words.get("NCCL_COLLNET_ENABLE", "")),
        tuned=True if any(name in text for name in _TUNED) else None,
    )


def read_debug_lines(text: str) -> CollectiveSettings:
    """The settings that NCCL_DEBUG=INFO prints: version, network, GPUDirect, adapters, forced algorithms, SHARP."""
    version = re.search(r"NCCL version:?\s*(2\.\d+(?:\.\d+)?)", text)
    ways = re.findall(r"via NET/([^\s/]+(?: Libfabric)?)\S*?(/GDRDMA)?(?=[\s/(]|$)", text, re.MULTILINE)
    direct = [bool(re.search(r"/GDRDMA", line)) for line in re.findall(r"via NET/.*", text)]
    forced = read_environment(" ".join(f"{name}={value}" for name, value in _ENVIRONMENT.findall(text)))
    stated = CollectiveSettings(
        release=version[1] if version else None,
        nics=_used_adapters(text),
        network=_debug_network(text, [name for name, _ in ways]),
        gpudirect=any(direct) if direct else None,
        sharp=True if re.search(r"CollNet/SHARP|SHARP\s*(?:rail|job|comm)|via COLLNET/", text) else None,
    )
    return stated.over(forced)


def read_log_settings(text: str) -> CollectiveSettings:
    """The settings that a log states: what NCCL_DEBUG printed, then environment words, as text or as keys of JSON."""
    words = re.sub(r'"((?:NCCL|FI|SHARP)_[A-Z0-9_]+)"\s*:\s*"([^"]*)"', r"\1=\2", text)
    return read_debug_lines(text).over(read_environment(words))


def read_launch(text: str) -> str | None:
    """The way of launching that words or flags of nccl-tests state: process, thread or single; None for other text."""
    lower = text.lower()
    if lower in ("process", "thread", "single"):
        return lower
    if re.search(r"threads?\b|-t [2-9]", lower) and not re.search(r"\b1 thread", lower):
        return "thread"
    if re.search(r"(1|one|a) process (per|a|for each) (gpu|rank)|\b1 rank per gpu|\b8 mpi ranks", lower):
        return "process"
    if re.search(r"-g [2-9]|-g 1\d|(1|one|a|single) process (x|per node|drives|for all|for)", lower):
        return "single"
    return "process" if re.search(r"\b(torchrun|mpirun|mpiexec|srun|mpi)\b|-g 1\b", lower) else None


def read_release(text: str) -> str | None:
    """The first release of NCCL in a text, as 2.18.5 (of a range its first, 2.8-2.17); None where there is none."""
    match = re.search(r"(?<![\d.])2\.(\d{1,2})(\.\d{1,2})?(?![\d.])", text)
    return match[0] if match and 4 <= int(match[1]) <= 40 else None


def read_network_class(text: str) -> str | None:
    """The class of network that a description of adapters names, as "8x ConnectX-6 HDR200 IB"."""
    return next((name for pattern, name in _CLASS_WORDS if re.search(pattern, text, re.IGNORECASE)), None)


def _algorithm(words: dict[str, str]) -> str | None:
    if words.get("NCCL_TREE_THRESHOLD") == "0":  # of releases before 2.5
        return "ring"
    named = _names(words.get("NCCL_ALGO", ""), _ALGORITHMS)
    if named is None and words.get("NCCL_NVLS_ENABLE") == "0":
        return ",".join(name for name in ALGORITHMS[1:] if not name.startswith("nvls"))
    return named


def _names(value: str, known: dict[str, str]) -> str | None:
    """Names joined by commas, of a value such as "Ring,Tree" or "^LL128"; None for one that names nothing known."""
    value = value.rpartition(":")[2].lower()
    names = [known[word] for word in value.lstrip("^").split(",") if word in known]
    if not names:
        return None
    if value.startswith("^"):
        names = [name for name in dict.fromkeys(known.values()) if name not in names]
    return ",".join(dict.fromkeys(names))


def _adapters(value: str, text: str) -> int | None:
    """The adapters that NCCL_IB_HCA names one by one: a list, mlx5_0..7, or "8 HCAs" of a table."""
    if counted := re.search(r"NCCL_IB_HCA=(\d{1,15}) HCAs", text):
        return int(counted[1])
    if span := re.fullmatch(r"=?\w+?_(\d{1,15})\.\.(\d{1,15})", value):
        return int(span[2]) - int(span[1]) + 1
    if value.startswith("^") or not re.search(r"_\d", value):
        return None
    return len({word.partition(":")[0] for word in value.lstrip("=").split(",") if word})


def _network(words: dict[str, str]) -> str | None:
    if words.get("NCCL_IB_DISABLE") == "1" and "NCCL_NET" not in words and "FI_PROVIDER" not in words:
        return "sockets"
    net = words.get("FI_PROVIDER", "") or words.get("NCCL_NET", "")
    if any(name.startswith("FI_CXI") for name in words) and "socket" not in net.lower():
        return "slingshot"
    if any(name.startswith("FI_EFA") for name in words) and not net:
        return "efa"
    return next((name for pattern, name in _NETS if re.search(pattern, net.lower())), None)


def _gpudirect(words: dict[str, str]) -> bool | None:
    if level := words.get("NCCL_NET_GDR_LEVEL"):
        return level.upper() not in ("0", "LOC")
    if words.get("NCCL_IB_CUDA_SUPPORT") == "0":
        return False
    return {"1": True, "0": False}.get(words.get("FI_EFA_USE_DEVICE_RDMA", ""))


def _used_adapters(text: str) -> int | None:
    """The adapters of the longest line "NET/IB : Using [0]mlx5_0:1/IB [1]…"."""
    lines = re.findall(r"NET/IB : Using ([^\n]*)", text)
    return max((len(re.findall(r"\[\d+\]", line)) for line in lines), default=0) or None


def _debug_network(text: str, ways: list[str]) -> str | None:
    named = re.findall(r"Using network (\w+(?: Libfabric)?)", text)
    providers = re.findall(r"Selected [Pp]rovider is (\w+)", text)
    for name in (*providers, *named, *ways):
        lower = name.lower()
        if lower.startswith("ib"):
            return "roce" if re.search(r"mlx5_\w+:\d+/RoCE", text) else "infiniband"
        if known := next((word for pattern, word in _NETS[1:] if re.search(pattern, lower)), None):
            return known
    return "efa" if "EFA" in text and "Libfabric" in text else None


def read_nics(text: str) -> tuple[int | None, float | None]:
    """(adapters of a node, B/s of each) of a text such as "4x100Gb/s", "8" or "200 Gb/s".

    Raises PodsimError for other text.
    """
    match = re.fullmatch(r"\s*(?:(\d{1,15})\s*(?:x|$))?\s*(\d.*)?", text)
    if match is None or not any(match.groups()):
        raise PodsimError(f"nics={text[:40]!r}: adapters of a node, as 4, 4x100Gb/s or 100Gb/s")
    rate = parse_quantity(match[2], "B/s", what="nics") if match[2] else None
    return int(match[1]) if match[1] else None, rate
