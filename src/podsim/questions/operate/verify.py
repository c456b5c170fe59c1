"""`podsim verify`: a machine compared with what it should be, as in an acceptance suite."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.acceptance.machine_checks import Findings, Machine, add_checks, disturbed, machine_text
from podsim.acceptance.thresholds import thresholds_of
from podsim.acceptance.trend_checks import read_earlier, trend_checks, trend_parts
from podsim.answers.acceptance import Acceptance
from podsim.answers.answer import call
from podsim.errors import PodsimError, raise_all, unknown_name
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.lab.inventory import read_inventory
from podsim.lab.options import outside
from podsim.lab.ranks import MOST_RANKS
from podsim.lab.usage import clocks, now_text, others_since
from podsim.options.measure_options import VerifyOptions
from podsim.options.output_options import Output
from podsim.options.question import like, option, question
from podsim.questions.registry import ask
from podsim.storage.fio_results import read_block
from podsim.whole_files import write_whole

GROUPS = ("inventory", "health", "storage", "metadata", "network", "ranks", "training")
_GROUP_OF = {"fio": "storage", "mdtest": "metadata", "run": "network", "pairs": "ranks", "health": "health"}
"""the group that judges each kind of file"""
Note = Callable[[str], None]
_LARGEST = 1 << 40


@dataclass(frozen=True, kw_only=True)
class VerifyOutput(Output):
    """The report of an acceptance, as a page."""

    csv: bool = like(Output, "csv", "Print the checks as CSV, numbers in SI.")
    pdf: Path | None = option(None, "Write it as PDF, by the browser on this machine.")
    junit: Path | None = option(None, "Write it as JUnit XML, for CI servers.")


def _check_output(output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for pages that cannot be written, before minutes of work."""
    for path in (output.html, output.pdf, output.junit):
        if path is not None and not path.parent.is_dir():
            raise PodsimError(f"{path}: there is no folder {path.parent}")


def _write_files(acceptance: Acceptance, output: VerifyOutput, options: Mapping[str, Any]) -> None:
    """Write the report as JUnit XML and as PDF."""
    if output.junit is not None:
        write_whole(output.junit, call("report.junit:junit_text", acceptance))
    if output.pdf is not None:
        call("report.browser:print_pdf", call("report.pages:acceptance_page", acceptance), output.pdf)


@question(
    VerifyOptions,
    output=VerifyOutput,
    check=_check_output,
    write=_write_files,
    progress="doing",
    status=lambda acceptance: int(not acceptance.accepted),
)
def verify_machine(options: VerifyOptions, *, progress: Note = lambda _: None) -> Acceptance:
    """This machine, or earlier runs elsewhere, compared with an expected system.

    What is expected is a system or cluster of the catalog, or a cluster's file, such as `podsim measure host` writes.
    fio and mdtest work in `folder`, and records lie there: on the storage that is to be judged. ResNet-50 trains on up to
    as many ranks as there are cores, since more would only wait for each other.

    What cannot be run is said, and the rest goes on. Raises PodsimError for what makes no sense.
    """
    groups, cluster = _groups(options.only), load_cluster(options.expect)
    if idle := [name for name, group in _GROUP_OF.items() if getattr(options, name) and group not in groups]:
        raise PodsimError(
            "; ".join(f"--{name} is of the group {_GROUP_OF[name]}, which --only leaves out" for name in idle)
        )
    size = int(read_block(options.size, "--size"))
    _check(options, size)
    started, begun = now_text(), time.monotonic()
    inventory = read_inventory(options.root)
    machine = Machine(
        options=options,
        cluster=cluster,
        size=size,
        inventory=inventory,
        predict_images=_images,
        note=progress,
    )
    earlier = [read_earlier(path) for path in options.earlier]
    findings, before = Findings(), clocks()
    for group in groups:
        add_checks(group, machine, findings)
    stored = {"inventory", "health", *(["network"] if options.run else []), *(["ranks"] if options.pairs else []),
              *(["storage", "metadata"] if options.fio or options.mdtest else [])}  # fmt: skip
    if earlier:
        findings.checks += trend_checks(findings.checks, earlier)
        findings.parts += trend_parts(findings.parts, earlier[-1])
    if set(groups) - stored:  # else nothing was measured here and now
        findings.notes += disturbed(others_since(before))
    return Acceptance(
        machine=machine_text(inventory), expected=cluster.name, started=started, seconds=time.monotonic() - begun,
        parts=tuple(findings.parts), checks=tuple(findings.checks), curves=tuple(findings.curves),
        thresholds=thresholds_of(findings.checks), notes=tuple(findings.notes),
    )  # fmt: skip


def _groups(only: str) -> tuple[str, ...]:
    """The groups of checks, in their order; PodsimError for one that is unknown."""
    wanted = tuple(word.strip() for word in only.split(",") if word.strip()) or GROUPS
    if unknown := [word for word in wanted if word not in GROUPS]:
        raise PodsimError(
            "; ".join(unknown_name("group of checks (--only)", word, GROUPS) for word in unknown)
        )
    return tuple(group for group in GROUPS if group in wanted)


def _check(options: VerifyOptions, size: int) -> None:
    """Raise PodsimError with all that is wrong with the numbers."""
    folder, ranks = options.folder, options.ranks
    wrong = [] if folder.is_dir() else [f"--folder {str(folder)[-200:]}: there is no such folder"]
    if not 1 << 20 <= size <= _LARGEST:
        wrong.append(f"--size {size:,} B; 1M to 1024G will do")
    wrong += outside((("seconds", options.seconds, 0.5, 3600),))
    if ranks is not None and not 1 <= ranks <= MOST_RANKS:
        wrong.append(f"--ranks {ranks}; 1 to {MOST_RANKS} are started on one machine")
    raise_all(wrong)


def _images(cluster: Cluster, client: str) -> tuple[float | None, str]:
    """(images a second of each GPU of a node, what says so); None and why, where no run on such nodes is known."""
    try:
        prediction = ask("storage_input", "resnet50", on="local-nvme", client=client)
    except PodsimError as problem:
        return None, str(problem)[:160]
    command = (
        f"podsim storage input resnet50 --on local-nvme --client {cluster.system.name}, each of its GPUs"
    )
    return prediction.epochs[-1].rate / prediction.accelerators, command
