"""How much of what is expected must be reached, and why so much: docs/verify.md says the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from podsim.answers.acceptance import Check, Threshold

SAME = Threshold(
    name="measured before", least=0.7, most=2.0,
    why="the expected figure was measured on this machine itself, where other programs may have run; a shared "
    "machine varies by a quarter from run to run, and the rates of small files by more",
)  # fmt: skip
"""what holds for every figure where the expected system is an entry that `podsim measure host` wrote"""
MORE = 3.0
"""times the reads beyond which writes are remarkable; and times what is expected, where parts are known to allow it"""
THRESHOLDS = {
    "bandwidth": Threshold(
        name="bandwidth of drives", least=0.8, most=1.2,
        why="expected are data sheet figures of the drives, which file system and RAID do not reach in full",
    ),
    "operations": Threshold(
        name="operations of drives", least=0.5, most=1.5,
        why="the data sheet's rate of operations wants more accesses at once than a file system passes on",
    ),
    "names": Threshold(
        name="operations on names", least=0.5, most=2.0,
        why="the law of mdtest was never held against a published rate of this kind (docs/storage.md)",
    ),
    "collective": Threshold(
        name="all-reduce from 16 MiB on", least=0.85, most=1.25,
        why="the law's error there is 7 % on nodes like the fitted ones and 13 % between nodes (docs/laws); smaller "
        "messages differ by up to 30 % from machine to machine, and are drawn but not judged",
    ),
    "trend": Threshold(
        name="over time", least=0.9, most=1.5,
        why="expected is the median of earlier runs of the same machine; a tenth is more than they vary when it is idle",
    ),
    "ranks": Threshold(
        name="one among equals", least=0.9, most=1.25,
        why="expected is the median of its peers, which are the same parts: within 3 % of each other on idle machines",
    ),
    "pairs": Threshold(
        name="one pair among equals", least=0.8, most=2.0,
        why="expected is the median of such pairs; routes that meet on a switch differ by up to a tenth",
    ),
    "training": Threshold(
        name="ResNet-50, later epochs", least=0.9, most=1.25,
        why="published runs of the same code on such nodes lie within 5 % of each other (NetApp: 21.8 to 23.4 "
        "thousand images/s)",
    ),
    "first epoch": Threshold(
        name="ResNet-50, first epoch over later ones", least=0.85, most=1.2,
        why="0.92 was published of one DGX A100 that read from its own drives; less says that storage holds training "
        "back",
    ),
}  # fmt: skip


def thresholds_of(checks: Iterable[Check]) -> tuple[Threshold, ...]:
    """Those that some check was held to, in the order of the table."""
    used = {each.threshold for each in checks}
    return tuple(each for each in (SAME, *THRESHOLDS.values()) if each.name in used)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a check is of."""

    group: str
    """The group: storage, metadata, network, training."""
    name: str
    unit: str
    basis: str = ""
    """The origin of the expected figure."""
    how: str = ""
    """The tool that measures it."""


def threshold_of(name: str, *, same: bool) -> Threshold:
    """The threshold of a name; where figures were measured on the same machine before, theirs."""
    return SAME if same else THRESHOLDS[name]


def unmeasured(figure: Figure, why: str) -> Check:
    """A check that was not run, with the reason."""
    return Check(
        **asdict(figure), measured=None, expected=None, limit=None, threshold="", least=0.0, verdict="not run", why=why
    )  # fmt: skip


def check(
    figure: Figure, threshold: Threshold, *, measured: float, expected: float | None, limit: float | None = None,
    why: str = "", wrong: bool = False,
) -> Check:  # fmt: skip
    """A figure with its verdict. More than the parts can do is no good news: something else was measured.

    limit: what the parts can do. wrong: what was computed came out wrong; no speed makes up for that.
    """
    verdict, reasons = "ok", [why]
    if wrong:
        verdict = "wrong result"
    elif limit is not None and measured > 1.05 * limit:
        verdict = "above the limit"
        reasons.append("more than the parts can do: a cache was measured, or other parts")
    elif expected is None:
        verdict = "no expectation"
    elif measured > (most := threshold.most if limit is None else MORE) * expected:
        verdict = "above the limit" if limit is None else "remark"
        reasons.append(
            f"{measured / expected:.2g} times what is expected, more than the {most:g} times that are plausible: a cache"
            " or a wrong target was measured, or too little is expected"
        )
    elif measured < threshold.least * expected:
        verdict = "falls short"
        least = f"at least {100 * threshold.least:g} % must be reached"
        reasons.insert(0, f"{100 * measured / expected:.2g} % of what is expected; {least}")
    return Check(
        **asdict(figure), measured=measured, expected=expected, limit=limit, threshold=threshold.name,
        least=threshold.least, verdict=verdict, why="; ".join(filter(None, reasons)),
    )  # fmt: skip
