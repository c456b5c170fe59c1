"""Whether parts are sound, by what tools and the kernel say: ECC, row remaps, clocks, PCIe, InfiniBand, firmware, PCRs.

health.toml has the rules. Texts are those of `nvidia-smi -q`, `perfquery` and `ibqueryerrors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from podsim.acceptance.inventory_checks import part_of
from podsim.answers.acceptance import Part
from podsim.errors import LabError
from podsim.foreign_files import read_text
from podsim.packaged import packaged_toml
from podsim.programs import ask

Tree = dict[str, Any]
_MOST = 64 << 20
_GPU = re.compile(r"^GPU (\S+:\S+)$", re.MULTILINE)
_COUNTER = re.compile(r"(?:^|\[)(\w+)(?::\.*| == )(\d{1,20})", re.MULTILINE)
_PCRS = range(8)
"""those of the firmware and of the boot loader (TCG PC Client, table 1)"""


def _rules() -> Mapping[str, Any]:
    return packaged_toml("acceptance/health.toml")


def health_parts(dumps: Sequence[Path], root: Path) -> list[Part]:
    """A part for each rule: of text dumps, else of this machine's nvidia-smi; and of the sysfs under a root.

    Raises LabError for a dump that cannot be read.
    """
    texts = {path.name: _text(path) for path in dumps}
    if not dumps and root == Path("/"):
        said, why = ask(["nvidia-smi", "-q"])
        texts = {"nvidia-smi -q": said} if said else {}
        if why:
            return [_unknown("GPUs' health", why), *_adapter_parts({}, root), *_pcr_parts(root)]
    gpus = {
        f"{name} {slot}" if len(texts) > 1 else slot: tree
        for name, text in texts.items() for slot, tree in gpu_trees(text).items()
    }  # fmt: skip
    counters = {name: dict(_COUNTER.findall(text)) for name, text in texts.items() if not _GPU.search(text)}
    source = ", ".join(texts)
    parts = [_gpu_part(rule, gpus, source) for rule in _rules()["gpu"]] if gpus else []
    return [*parts, *_adapter_parts(counters, root), *_pcr_parts(root)]


def _text(path: Path) -> str:
    text = read_text(path, most=_MOST, error=LabError, hint="give the dump of one machine", is_lenient=True)
    if not (_GPU.search(text) or _COUNTER.search(text)):
        raise LabError(f"--health {path.name}: no output of nvidia-smi -q, perfquery or ibqueryerrors")
    return text


def gpu_trees(text: str) -> dict[str, Tree]:
    """The values of `nvidia-smi -q` by the slot of each GPU, as nested as they are printed."""
    trees: dict[str, Tree] = {}
    stack: list[tuple[int, Tree]] = []
    for line in text.splitlines():
        if match := _GPU.match(line):
            stack = [(0, trees.setdefault(match[1], {}))]
        elif stack and line.strip():
            depth, (key, colon, value) = len(line) - len(line.lstrip()), line.strip().partition(" : ")
            while len(stack) > 1 and stack[-1][0] >= depth:
                stack.pop()
            inner: Any = value.strip() if colon else {}
            stack[-1][1][key.strip()] = inner
            if not colon and len(stack) < 20:
                stack.append((depth, inner))
    return trees


def _values(tree: Any, path: Sequence[str]) -> Iterator[str]:
    if not path:
        if isinstance(tree, str) and tree != "N/A":
            yield tree
    elif isinstance(tree, dict):
        for key, inner in tree.items():
            if fnmatchcase(key, path[0]):
                yield from _values(inner, path[1:])


def _gpu_part(rule: Mapping[str, Any], gpus: Mapping[str, Tree], source: str) -> Part:
    """One rule over all GPUs; what differs is named by its slot."""
    wanted = rule["rule"]
    of = {gpu: list(_values(tree, rule["path"])) for gpu, tree in gpus.items()}
    if not any(of.values()):
        return _unknown(rule["name"], f"{source} says nothing of it")
    if isinstance(wanted, list):
        want = {gpu: list(_values(tree, wanted)) for gpu, tree in gpus.items()}
        expected = "as many as it can"
    else:
        usual = max((values for values in of.values()), key=list(of.values()).count)
        words = {"zero": "0", "no": "No", "not active": "Not Active"}
        want = {
            gpu: usual if wanted == "same" else [words[wanted]] * len(values) for gpu, values in of.items()
        }
        expected = ", ".join(usual) if wanted == "same" else words[wanted]
    wrong = {gpu: values for gpu, values in of.items() if values != want[gpu]}
    deviations = "; ".join(f"GPU {gpu}: {', '.join(values) or 'nothing'}" for gpu, values in wrong.items())
    return part_of(rule["name"], expected, deviations or f"{len(gpus)} GPUs as expected", not wrong, source)


def _adapter_parts(dumped: Mapping[str, Mapping[str, str]], root: Path) -> Iterator[Part]:
    """InfiniBand's error counters and firmware, from dumps and from sysfs."""
    names, ports = _rules()["infiniband"]["zero"], dict(dumped)
    for port in sorted(root.glob("sys/class/infiniband/*/ports/*")):
        counters = {name: _line(port / "counters" / name) for name in names}
        ports[f"{port.parts[-3]}/{port.name}"] = {name: text for name, text in counters.items() if text}
    if ports:
        bad = [f"{port}: {name} {counters[name]}" for port, counters in ports.items() for name in names
               if counters.get(name, "0") != "0"]  # fmt: skip
        counted = "; ".join(bad) or f"{len(ports)} ports without"
        yield part_of("InfiniBand errors", "0", counted, not bad, "perfquery, sysfs")
    firmware = {path.parent.name: _line(path) for path in sorted(root.glob("sys/class/infiniband/*/fw_ver"))}
    if firmware:
        usual = max(firmware.values(), key=list(firmware.values()).count)
        other = [f"{adapter}: {version}" for adapter, version in firmware.items() if version != usual]
        versions = "; ".join(other) or f"{len(firmware)} alike"
        yield part_of("adapter firmware", usual, versions, not other, "/sys/class/infiniband")


def _pcr_parts(root: Path) -> Iterator[Part]:
    for number in _PCRS:
        if value := _line(root / f"sys/class/tpm/tpm0/pcr-sha256/{number}"):
            yield _unknown(
                f"PCR {number}", "give an earlier run with --earlier, whose value it must have", value
            )


def _unknown(name: str, why: str, found: str = "-") -> Part:
    return part_of(name, "-", found, None, "", why)


def _line(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace").strip()[:200]
    except OSError:
        return ""
